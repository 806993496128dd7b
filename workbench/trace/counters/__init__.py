"""Hardware counters of single kernels: Nsight Compute and rocprofiler-compute, as CSV."""
