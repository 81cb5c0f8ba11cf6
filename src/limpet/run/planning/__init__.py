"""Planning: what is requested, what is on disk, what is missing, what changed."""
