"""Other tools: their configurations and files, used unchanged."""
