"""Other tools: their configurations and files, read unchanged."""
