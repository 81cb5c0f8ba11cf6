"""The progress of a run, and who is notified of it."""
