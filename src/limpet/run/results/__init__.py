"""The results: the objects, the summary, the costs, the output files."""
