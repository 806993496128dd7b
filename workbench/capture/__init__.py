"""Capture: from a plan through a child process to a run folder."""
