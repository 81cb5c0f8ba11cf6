"""Which files a call reads, and what they say."""
