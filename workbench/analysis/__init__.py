"""Analyses: pure functions from a `Trace` or `Job` to a frame; one module a question."""
