"""Everything a result depends on: code, values, files. Start at `identity.py`."""
