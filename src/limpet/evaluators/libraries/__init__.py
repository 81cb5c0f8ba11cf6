"""Evaluators of other libraries, used as they are."""
