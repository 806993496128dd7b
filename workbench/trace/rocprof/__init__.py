"""rocprofv3's JSON (rocprofiler-sdk-tool)."""

from workbench.trace.rocprof.read import read

__all__ = ["read"]
