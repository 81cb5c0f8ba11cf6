"""Evaluators of other libraries, used unchanged."""
