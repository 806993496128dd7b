"""The PyTorch profiler's JSON (Kineto, a dialect of Chrome's trace format)."""

from workbench.trace.kineto.read import read

__all__ = ["read"]
