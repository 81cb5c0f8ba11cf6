"""The files that a cell reads, and their digests."""
