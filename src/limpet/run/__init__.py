"""Where executors, pacing and the journal meet: plan a run, execute it, read its results."""
