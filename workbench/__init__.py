"""Workbench: performance analysis of AI training, in a notebook."""
