"""What came out: the result objects, the summary, costs, files for others."""
