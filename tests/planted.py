"""A recording with a secret wherever a text can stand, and a search for what is left of it."""

import csv
import gzip
import io
import json

from tinytrace import call, kernel, mark, op, step, write

SECRET = "zyxquark"
"""In no list of public names, whole or in part."""


class Plant:
    """Makes names around the secret, each another, in the ways in which programs write names."""

    def __init__(self):
        self.count = 0

    def __call__(self, form="Zyxquark{}Fusion"):
        self.count += 1
        return form.format(self.count)


def folder(at, rank=0):
    """A run folder of one rank whose every text holds the secret, keys of objects too."""
    plant = Plant()
    write(at, events(plant), f"rank{rank}.trace.json.gz", **header(plant, rank))
    (at / "run.json").write_text(json.dumps(manifest(plant)))
    rows = [
        {"t_unix_ns": 1, "device": "gpu0", "power_w": 300.5, "uuid": plant(), "host": plant()},
        {
            "t_unix_ns": plant(),
            "device": plant(),
            "power_w": plant(),
            "uuid": "GPU-" + plant(),
            "host": plant(),
        },
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    (at / "telemetry.csv").write_text(text.getvalue())
    (at / "log.txt").write_text(plant())
    (at / "rank0.memory.json").write_text(json.dumps({plant(): plant()}))
    (at / "notes.json").write_text(json.dumps({"notes": [{"text": plant()}]}))
    (at / "zyxquark.py").write_text(plant())
    (at / "ceilings.json").write_text(json.dumps(roofs(plant)))
    return at


def header(plant, rank):
    return {
        "deviceProperties": [
            {
                "id": 0,
                "name": plant("NVIDIA zyxquark H100"),
                "numSms": 132,
                plant(): 132,
                plant(): plant(),
                "uuid": plant(),
                "busLocation": plant(),
                "gpu_arch": plant(),
                plant(): [plant()],
            },
        ],
        "distributedInfo": {
            "backend": plant(),
            "rank": rank,
            "world_size": 2,
            plant(): plant(),
            "hostname": plant(),
            "pg_config": [
                {
                    "pg_name": plant(),
                    "pg_desc": plant("dp_zyxquark{}"),
                    "ranks": [0, 1],
                    plant(): plant(),
                }
            ],
        },
        "traceName": plant("/data/zyxquark/{}/trace.json"),
        "trace_id": plant(),
        "displayTimeUnit": plant(),
        "with_stack": plant(),
        "cuda_driver_version": plant("12.{}-zyxquark"),
        "generated": plant(),
        "roctracer_version": plant(),
        plant(): {plant(): plant()},
        "workbench": {
            "exported_from": plant(),
            "truncated": False,
            plant(): plant(),
            "problems": [
                {
                    "code": plant("zyxquark_{}"),
                    "count": 3,
                    "first_example": plant(),
                    "effect": plant("the file zyxquark{} ends early"),
                }
            ],
        },
    }


def events(plant):
    everywhere = {plant(): plant(), plant(): [plant()], plant(): {plant(): plant()}}
    names = (
        "{}zyxquark",
        "ZYXQUARK_{}",
        "zyxQuark{}Net",
        "aten::zyxquark{}",
        "zyxquark{}::gemm",
        "triton_poi_fused_zyxquark{}_add_0",
        "autograd::engine::evaluate_function: Zyxquark{}Backward",
        "Zyxquark{}Backward0",
        "nccl:zyxquark{}",
        "ProfilerStep#zyxquark{}",
        "gloo:zyxquark{}",
        "Optimizer.step#Zyxquark{}.step",
        "enumerate(DataLoader)#Zyxquark{}.__next__",
        "## Call CompiledFxGraph zyxquark{} ##",
        "Torch-Compiled Region: zyxquark{}",
        "gc.zyxquark{}",
        "FSDP::pre_forward (zyxquark.{})",
        "c10d::zyxquark{}",
        "zyxquark{}\nsecond line\u2028zyxquark",
        "/data/zyxquark/{}/train.py(12): main",
        "10.11.12.{} zyxquark",
        "\uff5a\uff59\uff58quark zyxquark{}",
    )
    kernels = (
        "void at::native::elementwise_kernel<4, Zyxquark{}Functor<float>>(int)",
        "void zyxquark{}::fused_gemm_bf16<128>(float*)",
        "_ZN8zyxquark{}E",
        "zyxquark{}_allreduce_fp8",
        "cutlass::Kernel<zyxquark::Mma{}>",
        "ampere_zyxquark{}_s16816gemm_fp16",
        "Memcpy HtoD (zyxquark{})",
        "ncclDevKernel_zyxquark{}_RING_LL",
        "zyxquark{}_tf32_conv2d_fprop",
        "triton_red_fused_zyxquark{}",
        *names,
    )
    found = [step(k, 1000 * k, 1000) for k in (1, 2)]
    at = 1001
    for name in names:
        inputs = {
            "External id": at,
            "Input Dims": [[2, plant()], {plant(): plant()}],
            "Input type": ["float", plant(), plant("{};\r\nzyxquark")],
            "Input Strides": [[plant()]],
            "Concrete Inputs": [
                "1",
                plant(),
                plant("cuda:{}zyxquark"),
                [plant()],
                {plant(): plant()},
            ],
            "kernel_backend": plant(),
            "kernel_file": plant("/data/zyxquark/k{}.py"),
            "kernel_hash": plant(),
            "Collective name": plant(),
            "dtype": plant(),
            "Process Group Name": plant(),
            "Process Group Ranks": plant(),
            "Call stack": plant(),
            "Module Hierarchy": plant(),
        }
        found.append(op(plant(name), at, 5, **inputs, **everywhere))
        found.append(mark(plant(name), at + 10, 3, tid=2, **everywhere))
        at += 20
    for k, name in enumerate(kernels, 1):
        arguments = {
            "Collective name": plant(),
            "Process Group Name": plant(),
            "dtype": plant(),
            "Process Group Ranks": plant("[0, zyxquark{}]"),
            plant(): plant(),
        }
        found.append(call(plant("cudaZyxquark{}LaunchKernel"), 1000 + 20 * k, 2, k))
        found.append(kernel(plant(name), 1010 + 20 * k, 9, k, **arguments))
    found += frames(plant)
    span = {"ph": "X", "pid": plant(), "tid": plant(), "ts": 1500, "dur": 5, "args": {}}
    found += [
        span | {"cat": plant(), "name": plant()},
        span
        | {
            "cat": "cpu_op",
            "name": plant(),
            "pid": plant("zyxquark{}"),
            "tid": plant("{}zyxquark"),
        },
        span | {"cat": "gpu_user_annotation", "name": plant(), "pid": 0, "tid": 7},
        span | {"cat": "cuda_sync", "name": plant(), "pid": 0, "tid": 7},
        span | {"cat": "Trace", "name": plant()},
        span | {"cat": "overhead", "name": plant()},
        span | {"cat": "cpu_op", "name": plant(), "pid": 9, "tid": 1, "dur": -4},
        {
            "ph": "M",
            "name": "thread_name",
            "pid": 9,
            "tid": 1,
            "ts": 0,
            "args": {"name": plant("thread 1 ({})")},
        },
        {"ph": "M", "name": "thread_name", "pid": 9, "tid": 2, "ts": 0, "args": {"name": plant()}},
        {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "ts": 0, "args": {"name": plant()}},
        {
            "ph": "M",
            "name": "process_labels",
            "pid": 9,
            "tid": 0,
            "ts": 0,
            "args": {"labels": plant()},
        },
        {
            "ph": "C",
            "name": plant(),
            "pid": 0,
            "ts": 1200,
            "args": {plant(): 5, plant("{} (zyxq)"): 6},
        },
        {"ph": "C", "name": plant(), "pid": 0, "ts": 1200, "args": {"power (zyxquark)": 5}},
        {"ph": "s", "id": 1, "cat": plant(), "name": plant(), "pid": 9, "tid": 1, "ts": 1100},
        {"ph": "i", "name": plant(), "cat": plant(), "pid": 9, "tid": 1, "ts": 1101, "s": "t"},
        {"ph": "Z", "name": plant(), "pid": 9, "tid": 1, "ts": 1101},
    ]
    return found


def frames(plant):
    at = {"ph": "X", "cat": "python_function", "pid": 9, "tid": 1}
    return [
        at
        | {
            "name": plant("/data/zyxquark{}/train.py(3): main"),
            "ts": 1000,
            "dur": 900,
            "args": {"Python id": 1},
        },
        at
        | {
            "name": plant("nn.Module: Zyxquark{}Block_3"),
            "ts": 1000,
            "dur": 500,
            "args": {"Python id": 2, "Python parent id": 1, "Python module id": plant()},
        },
        at
        | {
            "name": "nn.Module: Linear_0",
            "ts": 1001,
            "dur": 9,
            "args": {"Python id": 3, "Python parent id": 2, "Python module id": 4},
        },
    ]


def manifest(plant):
    device = {"index": 0, "name": plant("NVIDIA zyxquark{}"), "uuid": plant(), plant(): plant()}
    return {
        "schema_version": 1,
        "status": "done",
        "error": plant(),
        "workload": plant(),
        "preset": plant(),
        "spec": {"layers": 2, plant(): plant(), "precision": plant()},
        "plan": {
            "script": plant(),
            "arguments": [plant()],
            "python": plant(),
            "device": plant(),
            "out": plant(),
            "runs_dir": plant(),
            "overrides": {plant(): plant()},
        },
        "command": [plant("/data/zyxquark/{}"), plant()],
        "seeds": {"seed": 3, plant(): plant()},
        "started": plant("2026-01-01zyxquark{}"),
        "ended": plant(),
        "owner": {"pid": 3, "host": plant()},
        "processes": [{"rank": 0, "pid": 4, "host": plant()}],
        "machine": {
            "host": plant(),
            "system": plant("Linux-{}-zyxquark"),
            "cpu": plant("AMD {} zyxquark"),
            "user": plant(),
            "threads": 8,
        },
        "device": plant(),
        "device_reason": plant(),
        "devices": [device],
        "driver": plant(),
        "versions": {"torch": plant("2.{}+zyxquark"), plant(): "1.0"},
        "git": {"revision": plant(), "remote": plant()},
        "steps": [
            {
                "rank": 0,
                "index": 0,
                "phase": "traced",
                "profiler_step": 1,
                "start_unix_ns": 1,
                "dur_ns": 5,
                plant(): plant(),
            }
        ],
        "notes": [plant()],
        "environment": {plant(): plant()},
        plant(): plant(),
    }


def roofs(plant):
    compute = {
        "precision": plant(),
        "flops_per_s": 1e12,
        "spread": 0.1,
        "n": 8,
        "layout": plant(),
        "repeats": 3,
        plant(): plant(),
    }
    memory = {
        "pattern": plant(),
        "working_set_bytes": 8,
        "bytes_per_s": 1e9,
        "spread": 0.1,
        "repeats": 3,
    }
    return {
        "version": 2,
        "device": plant(),
        "kind": plant(),
        "date": plant(),
        "machine": plant(),
        "torch": plant(),
        "driver": plant(),
        "threads": 2,
        "clock_mhz": None,
        "seconds": 1.0,
        "compute": [compute],
        "memory": [memory],
        "caches": [{"name": plant(), "bytes": 5}],
        plant(): plant(),
    }


def unpacked(path):
    """Return every byte of a copy, what is packed unpacked; and the names of files in it."""
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    texts = [f.name.encode() for f in files if f != path]
    for file in files:
        data = file.read_bytes()
        texts.append(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return b"\0".join(texts)
