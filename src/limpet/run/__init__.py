"""Where executors, pacing and the journal meet: what has to be done, doing it, what came out."""
