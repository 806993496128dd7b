"""SQLite exports of Nsight Systems, and its own reports where `nsys` can convert them."""

from workbench.trace.nsys.read import read

__all__ = ["read"]
