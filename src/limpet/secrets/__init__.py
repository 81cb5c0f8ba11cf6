"""Secrets: which values must not be written, and how they are masked."""
