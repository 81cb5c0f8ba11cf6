"""Other people's worlds: their configurations and files, read as they are."""
