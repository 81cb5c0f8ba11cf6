"""The live page of runs: a server that reads their directories, and writes nothing but labels."""
