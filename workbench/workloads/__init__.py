"""Workloads: a registry of models that can be recorded, with their synthetic data."""
