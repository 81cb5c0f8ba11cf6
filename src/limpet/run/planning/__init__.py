"""Planning: what is asked, what is on disk, what is missing, what changed."""
