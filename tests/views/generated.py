"""A generated training run on two GPU streams and a host thread, as large as asked for."""

from __future__ import annotations

import numpy as np
import polars as pl
from views.traces import trace

from workbench.views.lanes import Lanes
from workbench.views.layers import from_frame

KERNELS = (
    "ampere_sgemm_128x64_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
    "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4>>",
    "void layer_norm_kernel<float>",
    "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_tn_align8>",
)


def training_run(kernels=3000, steps=5, seed=0):
    """A Trace: kernels on stream 7, collectives on 20, copies on 21, nested operators, steps."""
    rng = np.random.default_rng(seed)
    dur = np.maximum(1500, rng.lognormal(9.5, 1.0, kernels)).astype(np.int64)
    gap = rng.exponential(2500, kernels).astype(np.int64)
    start = np.cumsum(dur + gap) - dur
    end = int(start[-1] + dur[-1])
    per_step = end // steps
    name = rng.choice(KERNELS, kernels)
    rows = [
        activity(str(n), s, d, 7, "kernel", s // per_step)
        for n, s, d in zip(name, start.tolist(), dur.tolist(), strict=True)
    ]
    for k in range(steps):
        for part in (0.5, 0.65, 0.8):
            at = int(per_step * (k + part))
            rows.append(activity("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, per_step // 9, 20,
                                 "collective", k))  # fmt: skip
        rows.append(activity("Memcpy HtoD (Pinned -> Device)", per_step * k, per_step // 30, 21,
                             "copy", k))  # fmt: skip
    spans = [
        {"step": k, "device": 0, "start_ns": per_step * k, "dur_ns": per_step}
        | {"host_start_ns": per_step * k, "host_dur_ns": per_step}
        | {"complete": True, "tail": k == steps - 1}
        for k in range(steps)
    ]
    return trace(
        activities=rows, steps=spans, ops=operators(end, 40 * steps), threads=("python", "autograd")
    )


def activity(name, start_ns, dur_ns, stream, kind, step):  # noqa: PLR0917
    row = {"name": name, "start_ns": start_ns, "dur_ns": dur_ns, "stream": stream, "device": 0}
    return row | {"kind": kind, "step": int(step), "source": "device"}


def operators(end, count):
    rows = []
    each = end // count
    for k in range(count):
        for depth, name in enumerate(("aten::linear", "aten::addmm", "aten::mm")):
            inset = depth * each // 10
            rows.append(
                {"name": name, "start_ns": k * each + inset, "dur_ns": each - 2 * inset - each // 8}
                | {"thread": k % 2, "depth": depth, "self_ns": 1, "step": 0}
            )
    return rows


def many_lanes(events, lanes=40, seed=0):
    """Lanes without overlap, log-normal durations: the load that the engine is measured with."""
    rng = np.random.default_rng(seed)
    each = events // lanes
    dur = np.maximum(1, rng.lognormal(8, 1.2, (lanes, each))).astype(np.int64)
    gap = rng.exponential(2000, (lanes, each)).astype(np.int64)
    start = np.cumsum(dur + gap, axis=1) - dur
    name = rng.integers(0, 40, lanes * each).astype(np.uint32)
    texts = pl.Series([f"kernel_{'abcdefghij'[k % 10]}_{k}" for k in range(40)])
    return frame_of(
        np.repeat(np.arange(lanes), each), start.ravel(), dur.ravel(), texts.gather(name)
    )


def frame_of(stream, start, dur, name) -> Lanes:
    frame = pl.DataFrame(
        {"stream": stream, "start_ns": start, "dur_ns": dur, "name": name}
    ).with_columns(pl.col("name").cast(pl.Categorical), kind=pl.lit("kernel"))
    return from_frame(frame.sort("start_ns"), by=["stream"])
