"""How a run is shown to people: on a terminal and in files."""
