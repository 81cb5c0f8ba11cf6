"""Which files a call reads, and their content."""
