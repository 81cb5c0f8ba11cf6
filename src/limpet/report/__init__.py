"""What a person sees of a run: on a terminal, and in files."""
