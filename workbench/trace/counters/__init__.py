"""Hardware counters of single kernels: Nsight Compute and rocprofiler-compute, as CSV."""

COUNTERS = "pmc_perf.csv"
"""What rocprofiler-compute leaves in a folder."""
