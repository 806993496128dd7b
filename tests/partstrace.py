"""A tiny trace of two operators, a bare launch and a shared kernel, for parts of the work."""

from tinytrace import call, kernel, op, step, write


def matrix(size):
    return {"Input Dims": [[size, size]] * 2, "Input type": ["float"] * 2}


def made(folder, name="t.json", **more):
    """One step [20, 100) on one device; times in us.

    host     linear 1-5 { mm 2-4 }     relu 6-8     linear 9-13 { mm 10-12, relu 12.2-12.8 }
    device   gemm 20-30 (mm)           vector 30-33 (relu)
             gemm 40-60 (mm, second)   vector 55-62 (relu in the second linear)   lonely 70-75
    """
    events = [
        step(1, 0, 90), step(2, 90, 20),
        op("aten::linear", 1, 4), op("aten::mm", 2, 2, **matrix(8)),
        call("cudaLaunchKernel", 2.5, 0.5, 1),
        op("aten::relu", 6, 2), call("cudaLaunchKernel", 6.5, 0.5, 2),
        op("aten::linear", 9, 4), op("aten::mm", 10, 2, **matrix(16)),
        call("cudaLaunchKernel", 10.5, 0.5, 3),
        op("aten::relu", 12.2, 0.6), call("cudaLaunchKernel", 12.3, 0.2, 4),
        call("cudaLaunchKernel", 15, 0.5, 5), call("cudaLaunchKernel", 95, 0.5, 6),
        kernel("gemm", 20, 10, 1), kernel("vector", 30, 3, 2),
        kernel("gemm", 40, 20, 3), kernel("vector", 55, 7, 4, stream=8),
        kernel("lonely", 70, 5, 5), kernel("lonely", 100, 5, 6),
    ]  # fmt: skip
    header = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}
    return write(folder, events, name, **header, **more)
