"""Damaged files: never a traceback, never silently another number."""

import gzip
import random

import damage
import pytest
import tinytrace

ROUNDS = 120


@pytest.fixture
def whole(tmp_path):
    """A small trace with every category that counts."""
    t = tinytrace
    events = [
        t.step(1, 0, 100),
        t.op("aten::mm", 5, 20, external=1),
        t.call("cudaLaunchKernel", 8, 2, 1),
        t.kernel("gemm", 12.345, 30.5, 1),
        t.call("cudaLaunchKernel", 20, 2, 2),
        t.kernel("ncclDevKernel_AllReduce", 30, 40, 2, stream=20),
        t.call("cudaMemcpyAsync", 50, 2, 3),
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 60.25,
         "dur": 5, "args": {"device": 0, "stream": 7, "bytes": 4096, "correlation": 3}},
        {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 8, "cat": "ac2g", "name": "ac2g"},
    ]  # fmt: skip
    return t.write(tmp_path, events)


def test_damage_to_text_is_named_or_harmless(whole, tmp_path):
    rng = random.Random(7)
    seen = set()
    damaged = damage.mutants(whole, rng)
    for _ in range(ROUNDS):
        _, data, _ = next(damaged)
        seen.add(damage.check_json(tmp_path / "damaged.json", data))
    assert seen == {"refused", "named", "exact"}


def test_damage_to_packed_bytes_is_found_or_harmless(whole, tmp_path):
    rng = random.Random(8)
    text = whole.read_bytes()
    packed = gzip.compress(text)
    seen = set()
    for _ in range(ROUNDS):
        data = rng.choice(damage.PACKED)(packed, rng)
        outcome = damage.check_json(tmp_path / "damaged.json.gz", data, original=text)
        seen.add(outcome)
    assert "refused" in seen
