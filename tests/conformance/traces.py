"""Traces with exact answers. Times are microseconds in the files and nanoseconds in the answers."""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from tinytrace import call, kernel, op

US = 1000
MEGABYTE = 2**20
COPIES = ("copy",)
NAMES = {"compute": "ampere_sgemm_128x64_nn", "communication": "ncclDevKernel_AllReduce_Sum",
         "copy": "Memcpy HtoD (Pinned -> Device)"}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The files of one run and what is true of them; what a case does not ask is absent."""

    files: list[Path]
    times: dict = field(default_factory=dict)
    share: dict = field(default_factory=dict)
    sorts: dict = field(default_factory=dict)
    waits: dict = field(default_factory=dict)
    bandwidths: dict = field(default_factory=dict)


def run(folder, *ranks):
    """Write one file a rank, in a folder of their own."""
    files = []
    for rank, events in enumerate(ranks):
        path = folder / f"rank{rank}.trace.json"
        header = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": len(ranks)}}
        path.write_text(json.dumps(header | {"traceEvents": [op("aten::mm", 0, 1), *events]}))
        files.append(path)
    return files


def sync(name, ts, dur, stream=7):
    return kernel(name, ts, dur, cat="cuda_sync", stream=stream)


def reduce(ts, dur, seq, elements=1000, size=2):
    args = {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": size, "dtype": "Float", "Process Group Name": "0",
            "Process Group Ranks": str(list(range(size))), "Seq": seq}  # fmt: skip
    return kernel(NAMES["communication"], ts, dur, seq, stream=20, **args)


def two_kernels(folder, *, with_wait):
    """Two kernels of 1 ms, 7 ms apart; a stream that waits 6 ms for an event does nothing.

    0..1           8..9
         [1.5..7.5]        the wait
    """
    events = [kernel("gemm", 0, 1000, 1), kernel("gemm", 8000, 1000, 2)]
    if with_wait:
        events.append(sync("Stream Wait Event", 1500, 6000))
    truth = {"window": 9000 * US, "busy": 2000 * US, "compute": 2000 * US, "communication": 0,
             "overlap": 0, "exposed_communication": 0, "copy": 0, "exposed_copy": 0,
             "idle": 7000 * US}  # fmt: skip
    return Case(run(folder, events), times={(0, 0): truth})


def host_waits(folder):
    """A host that synchronises is recorded on the device's rows; the device only computes 0-40."""
    events = [kernel("gemm", 0, 40), sync("Stream Sync", 0, 100), sync("Context Sync", 0, 100, -1),
              sync("Event Sync", 10, 90, 1_000_007), kernel("gemm", 100, 10)]  # fmt: skip
    truth = {"window": 110 * US, "busy": 50 * US, "idle": 60 * US}
    return Case(run(folder, events), times={(0, 0): truth})


def short_kernels(folder):
    """200 kernels of 1.5 us, each 3 us after the last, at fractions of a microsecond: half busy."""
    events = [kernel("tiny", 100.25 + 3 * i, 1.5, i + 1) for i in range(200)]
    # from 100.25 to 100.25 + 199 * 3 + 1.5
    truth = {"window": 598_500, "busy": 300_000, "compute": 300_000, "idle": 298_500}
    return Case(run(folder, events), times={(0, 0): truth})


def graph(folder):
    """One graph launch, 50 kernels of 2 us with 1 us between, then one kernel of its own."""
    calls = [call("cudaGraphLaunch", 0, 5, 1), call("cudaLaunchKernel", 200, 5, 2)]
    inside = [kernel("node", 10 + 3 * i, 2, 1, **{"graph node id": i}) for i in range(50)]
    # 10 to 10 + 49 * 3 + 2 = 159, then 210 to 220
    truth = {"window": 210 * US, "busy": 110 * US, "compute": 110 * US, "idle": 100 * US}
    return Case(run(folder, [*calls, *inside, kernel("eager", 210, 10, 2)]), times={(0, 0): truth})


def no_communication(folder):
    events = [kernel("gemm", 0, 40), kernel("gemm", 50, 10)]
    return Case(run(folder, events), share={(0, 0): None})


def amd_names(folder):
    """Work of AMD devices, named after the library that does it."""
    events = [
        kernel("hipMemcpyAsync", 0, 10, 1, cat="gpu_memcpy"),
        kernel("hip_fused_gelu_kernel", 10, 20, 2),
        kernel("ncclDevKernel_Generic_1", 30, 5, 3, stream=9),
    ]
    sorts = {"hipMemcpyAsync": "copy", "hip_fused_gelu_kernel": "compute",
             "ncclDevKernel_Generic_1": "communication"}  # fmt: skip
    return Case(run(folder, events), sorts=sorts)


NOT_NCCL = (
    "multimem_all_reduce_kernel<c10::BFloat16, 16>",
    "two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>",
    "nvshmemi_transfer_rma_kernel",
    "void deep_ep::internode::dispatch<false, 8>",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>",
)


def other_collectives(folder):
    """Collectives that no NCCL kernel does, beside a product; 10 us each, 5 of them hidden."""
    events = [kernel("gemm", 0, 5 * len(NOT_NCCL), 99)]
    events += [kernel(name, 10 * i, 10, i + 1, stream=20 + i) for i, name in enumerate(NOT_NCCL)]
    whole, hidden = 10 * len(NOT_NCCL) * US, 5 * len(NOT_NCCL) * US
    truth = {"communication": whole, "overlap": hidden, "exposed_communication": whole - hidden}
    sorts = dict.fromkeys(NOT_NCCL, "communication") | {"gemm": "compute"}
    return Case(run(folder, events), times={(0, 0): truth}, sorts=sorts)


def shifted_windows(folder):
    """Two ranks whose recordings begin one collective apart; rank 1 comes 200 us late to each.

    Collective k starts at 1000 k on rank 1, 200 us earlier on rank 0, and ends on both at
    1000 k + 200. Rank 0 recorded 1 to 4, rank 1 recorded 2 to 5.
    """
    first = [reduce(1000 * k - 200, 400, k) for k in (1, 2, 3, 4)]
    second = [reduce(1000 * k, 200, k) for k in (2, 3, 4, 5)]
    waits = {(0, k): 200 * US for k in (2, 3, 4)} | {(1, k): 0 for k in (2, 3, 4)}
    return Case(run(folder, first, second), waits=waits | {(0, 1): None, (1, 5): None})


def skewed_clocks(folder):
    """The same collectives on both ranks, but rank 1's clock is 5 ms ahead."""
    first = [reduce(1000 * k - 200, 400, k) for k in (1, 2, 3, 4)]
    second = [reduce(1000 * k + 5000, 200, k) for k in (1, 2, 3, 4)]
    waits = {(rank, k): (200 * US, 0)[rank] for rank in (0, 1) for k in (1, 2, 3, 4)}
    return Case(run(folder, first, second), waits=waits)


def bandwidth(folder):
    """512 MiB of float32 in 500 us: 536,870,912 / 0.0005 = 1.0737e12 bytes/s; of 2 ranks x 1."""
    events = [reduce(0, 500, 1, elements=512 * MEGABYTE // 4)]
    rate = 512 * MEGABYTE / 500e-6
    return Case(run(folder, events), bandwidths={1: (rate, rate)})


def random_streams(folder, seed):
    """Kernels, collectives and copies at random on two devices; painted ns by ns."""
    chosen = random.Random(seed)
    events, truth = [], {}
    for device in (0, 1):
        ticks = {sort: set() for sort in NAMES}
        spans = []
        for number in range(40):
            sort = chosen.choice(list(NAMES))
            start, length = chosen.randrange(4000), chosen.randrange(0, 200)
            ticks[sort] |= set(range(start, start + length))
            spans.append((start, start + length))
            cat = "gpu_memcpy" if sort == "copy" else "kernel"
            events.append(kernel(NAMES[sort], start / US, length / US, device * 100 + number + 1,
                                 stream=chosen.randrange(3), device=device, cat=cat))  # fmt: skip
        truth[0, device] = _painted(ticks, spans)
    return Case(run(folder, events), times=truth)


def _painted(ticks, spans):
    """Count the ns of each measure in sets of ns."""
    compute, communication, copy = (ticks[sort] for sort in NAMES)
    window = max(end for _, end in spans) - min(start for start, _ in spans)
    busy = len(compute | communication | copy)
    return {
        "window": window,
        "busy": busy,
        "compute": len(compute),
        "communication": len(communication),
        "overlap": len(compute & communication),
        "exposed_communication": len(communication - compute),
        "copy": len(copy),
        "exposed_copy": len(copy - compute - communication),
        "idle": window - busy,
    }
