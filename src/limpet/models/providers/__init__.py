"""What each provider does in its own way, a file for each."""
