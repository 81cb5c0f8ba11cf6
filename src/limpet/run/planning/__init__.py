"""What is asked, what is there, what is missing, what changed."""
