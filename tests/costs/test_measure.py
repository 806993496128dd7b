"""Products, attention, streams and caches at the edge to torch, which a fake stands for."""

import itertools
from types import SimpleNamespace

import pytest

from workbench.costs import caches, machine, measure, products, sdpa, streams
from workbench.costs.ceilings import Cache
from workbench.costs.timing import Bench, host_timer
from workbench.errors import CaptureError

KIB, MIB = 2**10, 2**20


class FakeTensor:
    def __init__(self, size, dtype="float32", columns=False):
        self.size, self.dtype, self.columns = tuple(size), dtype, columns

    def to(self, dtype):
        return FakeTensor(self.size, dtype)

    def __getitem__(self, part):
        start, stop, _ = part.indices(self.size[0])
        return FakeTensor((stop - start,), self.dtype)

    def view(self, *size):
        count = 1
        for length in size:
            count *= length
        assert count == self.size[0], "a view of another number of elements"
        return FakeTensor(size, self.dtype)

    def t(self):
        return FakeTensor(self.size[::-1], self.dtype, columns=True)

    def copy_(self, other):
        assert self.size == other.size

    def fill_(self, _):
        return self

    mul_ = fill_


class FakeTorch:
    """Remembers each product; one of n columns takes n us, or as `pace` says."""

    float64, float32, bfloat16, float16, float8_e4m3fn = "fp64", "fp32", "bf16", "fp16", "fp8"

    def __init__(self, lacks=()):
        self.lacks, self.seen = lacks, []
        matmul = SimpleNamespace(allow_tf32=None)
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=matmul))
        attend = self.attend
        self.nn = SimpleNamespace(functional=SimpleNamespace(scaled_dot_product_attention=attend))

    def randn(self, *size, device):
        assert device == "cuda"
        return FakeTensor(size)

    def ones(self, *size, device):
        return self.randn(*size[0] if isinstance(size[0], tuple) else size, device=device)

    def empty(self, size, *, device, dtype):
        return FakeTensor((size,), dtype)

    def _product(self, left, right, dtype, name):
        if dtype in self.lacks:
            raise RuntimeError(f"no kernel for {dtype}")
        assert left.size[1] == right.size[0]
        self.seen.append((name, dtype, (left.size[0], right.size[1], left.size[1])))
        self.seen[-1] += (left.columns, right.columns, self.backends.cuda.matmul.allow_tf32)

    def mm(self, left, right, *, out):
        assert out.size == (left.size[0], right.size[1])
        self._product(left, right, left.dtype, "mm")

    def _scaled_mm(self, left, right, *, scale_a, scale_b, out_dtype):
        assert (scale_a.size, scale_b.size, out_dtype) == ((), (), "bf16")
        self._product(left, right, left.dtype, "_scaled_mm")

    def attend(self, query, key, value, *, is_causal):
        self.seen.append((query.size, query.dtype, is_causal))

    def add(self, first, second, *, alpha, out):
        assert first.size == second.size == out.size

    def sum(self, array):
        return array


@pytest.fixture
def hurried(monkeypatch):
    """Leave time for a lap or two."""
    for module in (products, sdpa):
        short = dict.fromkeys(module.SECONDS["cuda"], 0.05)
        monkeypatch.setitem(module.SECONDS, "cuda", short)
    monkeypatch.setitem(streams.SECONDS, "cuda", 0.05)


def bench(torch, **more):
    return Bench(torch, "cuda", host_timer, **more)


def test_every_precision_of_a_gpu_and_how_its_products_are_called(hurried):
    torch = FakeTorch()
    found = products.measure(bench(torch), 2**40)
    assert [f.precision for f in found] == ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8"]
    names = {(name, dtype, tf32) for name, dtype, _, _, _, tf32 in torch.seen}
    assert names == {
        ("mm", "fp64", False), ("mm", "fp32", False), ("mm", "fp32", True), ("mm", "bf16", False),
        ("mm", "fp16", False), ("_scaled_mm", "fp8", False),
    }  # fmt: skip
    # the second operand of a scaled product lies in columns; others come in all three layouts
    assert {s[3:5] for s in torch.seen if s[1] == "fp8"} == {(False, True)}
    assert {s[3:5] for s in torch.seen if s[1] == "bf16"} == {
        (False, False), (False, True), (True, False),
    }  # fmt: skip
    assert {s[2] for s in torch.seen} <= set(products.SHAPES["cuda"])
    assert all((f.m, f.n, f.k) in products.SHAPES["cuda"] for f in found)


def test_a_precision_that_a_gpu_has_no_kernels_for_is_not_a_roof(hurried):
    found = products.measure(bench(FakeTorch(lacks=("fp8", "bf16"))), 2**40)
    assert [f.precision for f in found] == ["fp64", "fp32", "tf32", "fp16"]


def test_a_torch_without_scaled_products_has_no_roof_of_8_bits(hurried, monkeypatch):
    monkeypatch.delattr(FakeTorch, "_scaled_mm")
    assert "fp8" not in {f.precision for f in products.measure(bench(FakeTorch()), 2**40)}


def test_shapes_that_memory_has_no_room_for_are_not_tried(hurried):
    # 8 bytes a number, 3 x 1024^2 of them are 24 MiB, to fit a quarter of 100 MiB; 2048^2 does not
    torch = FakeTorch()
    products.measure(bench(torch), 100 * MIB)
    assert {s[2] for s in torch.seen} == {(1024, 1024, 1024)}
    with pytest.raises(CaptureError, match="only 50 MiB of its memory are free"):
        products.measure(bench(torch), 50 * MIB)


def test_flops_of_attention_by_hand():
    # 4 x batch 2 x heads 3 x length 5^2 x dimension 7
    assert sdpa.flops(sdpa.Shape(2, 3, 5, 7)) == 4200
    assert sdpa.flops(sdpa.Shape(2, 3, 5, 7, is_causal=True)) == 2100


def test_attention_of_a_gpu(hurried):
    torch = FakeTorch()
    found = sdpa.measure(bench(torch))
    assert [f.precision for f in found] == ["fp32", "bf16", "fp16"]
    sizes = [s[:4] for s in sdpa.SHAPES["cuda"]]
    assert set(torch.seen) <= set(itertools.product(sizes, ["fp32", "bf16", "fp16"], [0, 1]))


def test_working_sets_follow_the_caches():
    l2, l3 = Cache("L2", 4 * MIB), Cache("L3", 64 * MIB)
    # half of each cache, and 4 x 64 MiB in main memory
    assert streams.sizes("cpu", (l2, l3), 2**40, is_full=False) == [2 * MIB, 32 * MIB, 256 * MIB]
    assert streams.sizes("cpu", (l2,), 2**40, is_full=True) == [MIB, 2 * MIB, 3 * MIB, 128 * MIB]
    # nothing above a quarter of what is free
    assert streams.sizes("cpu", (l2, l3), 100 * MIB, is_full=False) == [2 * MIB, 25 * MIB]
    assert streams.sizes("cpu", (), 2**40, is_full=False) == [MIB, 4 * MIB, 16 * MIB, 128 * MIB]


def test_each_stream_at_each_size_and_what_it_moves(hurried, monkeypatch):
    moved = {}
    made = streams._candidate

    def remember(bench, pool, pattern, size):
        candidate = made(bench, pool, pattern, size)
        moved[pattern, size] = candidate.amount
        return candidate

    monkeypatch.setattr(streams, "_candidate", remember)
    found = streams.measure(bench(FakeTorch()), (Cache("L2", 24 * KIB),), 2**40)
    sizes = {12 * KIB, 2048 * MIB}
    assert {(m.pattern, m.working_set_bytes) for m in found} == set(
        itertools.product(streams.PATTERNS, sizes)
    )
    # of 12 KiB: two arrays of 6, three of 4, and one of 12 that is read and written by an update
    assert [moved[p, 12 * KIB] / KIB for p in streams.PATTERNS] == [12, 12, 12, 12, 24]


def cache_of(folder, index, **files):
    (folder / f"index{index}").mkdir()
    for name, text in files.items():
        (folder / f"index{index}" / name).write_text(f"{text}\n")


def test_caches_that_few_processors_share_count_for_each_group(tmp_path):
    cache_of(tmp_path, 0, level=1, type="Data", size="32K", shared_cpu_list="0")
    cache_of(tmp_path, 1, level=1, type="Instruction", size="32K", shared_cpu_list="0")
    cache_of(tmp_path, 2, level=2, type="Unified", size="1M", shared_cpu_list="0,4")
    cache_of(tmp_path, 3, level=3, type="Unified", size="32768K", shared_cpu_list="0-3,8-11")
    cache_of(tmp_path, 4, level=4, type="Unified", size="odd", shared_cpu_list="0")
    # 12 threads: 12 L1 of 32 KiB, 6 L2 of 1 MiB, and 2 L3 that 8 processors share
    assert caches.of_processor(12, tmp_path) == (
        Cache("L1", 384 * KIB), Cache("L2", 6 * MIB), Cache("L3", 64 * MIB),
    )  # fmt: skip
    assert caches.of_processor(12, tmp_path / "none") == ()


def test_the_share_that_other_programs_have():
    # 3 s of other programs in 4 s on each of the processors
    processors = len(machine.usable())
    assert measure._others_share(3.0 * processors, 4.0) == 0.75
    assert measure._others_share(-0.1, 4.0) == 0.0


def test_the_cache_of_a_gpu():
    assert caches.of_gpu(SimpleNamespace(L2_cache_size=50 * MIB)) == (Cache("L2", 50 * MIB),)
    assert caches.of_gpu(SimpleNamespace()) == ()
