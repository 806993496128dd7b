"""Workloads: a registry of models that can be recorded, with their synthetic data."""

from workbench.workloads.fields import FieldInfo, Value, split_settings
from workbench.workloads.registry import Workload, faults, get, names

__all__ = ["FieldInfo", "Value", "Workload", "faults", "get", "names", "split_settings"]
