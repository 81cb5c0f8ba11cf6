"""The live page of runs: a server that only reads their directories."""
