"""Panels for notebooks: ipywidgets with no logic."""
