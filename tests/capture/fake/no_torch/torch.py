"""Stands for an environment without torch."""

raise ImportError("No module named 'torch'")
