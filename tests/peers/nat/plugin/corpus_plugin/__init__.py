"""Workflows, evaluators and hooks for the toolkit, one for each shape that `nat eval` accepts.

It runs in the toolkit's environment. It is not installed: its folder is on PYTHONPATH, and the
`dist-info` beside it is what makes the toolkit find it.
"""
