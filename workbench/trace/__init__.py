"""Traces: schemas, `Trace` and `Job`, one reader a format."""
