"""The bytes written by a model against the tensors that torch really makes, call by call."""

import json

import pytest

from workbench.costs.models import cost
from workbench.costs.shapes import parse

torch = pytest.importorskip("torch")
F = torch.nn.functional


def f32(*dims):
    return torch.rand(*dims)


def half(*dims):
    return torch.rand(*dims).bfloat16()


def ints(*dims):
    return torch.arange(torch.Size(dims).numel()).reshape(dims)


A, B, ROW = f32(4, 6), f32(4, 6), f32(6)
IMAGE = f32(2, 4, 8, 6)
PICK = torch.tensor([2, 0, 1])
MASK = A > 0.5

# operator that is priced, and a call whose results are compared
CALLS = {
    "add of two types": ("aten::add", lambda: half(4, 6) + A),
    "add with broadcasting": ("aten::add", lambda: f32(4, 1) + ROW),
    "a tensor without dimensions loses": ("aten::mul", lambda: half(4, 6) * torch.tensor(2.0)),
    "integers plus an integer": ("aten::add", lambda: ints(4, 6).int() + 2),
    "bools plus an integer": ("aten::add", lambda: MASK + 1),
    "bytes and signed bytes": ("aten::add", lambda: torch.ones(3).byte() + torch.ones(3).char()),
    "two kinds of 16 bits": ("aten::add", lambda: half(4) + torch.rand(4).half()),
    "division of integers": ("aten::div", lambda: ints(4, 6) / 2),
    "comparison": ("aten::gt", lambda: half(4, 6) > 0.5),
    "exp of integers": ("aten::exp", ints(4).exp),
    "complex": ("aten::mul", lambda: torch.complex(ROW, ROW) * A),
    "complex with double": ("aten::add", lambda: torch.complex(ROW, ROW) + A.double()),
    "where": ("aten::where", lambda: torch.where(MASK, half(4, 6), A)),
    "where with a number": ("aten::where", lambda: torch.where(MASK, A, 0.0)),
    "masked_fill": ("aten::masked_fill", lambda: A.masked_fill(MASK, 0.0)),
    "clamp": ("aten::clamp", lambda: A.clamp(0.1, 0.9)),
    "pow": ("aten::pow", lambda: A**2),
    "lerp": ("aten::lerp", lambda: torch.lerp(A, B, 0.5)),
    "addcmul": ("aten::addcmul", lambda: torch.addcmul(A, ROW, B)),
    "gelu": ("aten::gelu", lambda: F.gelu(half(4, 6))),
    "silu": ("aten::silu", lambda: F.silu(A)),
    "native dropout": ("aten::native_dropout", lambda: torch.native_dropout(half(4, 6), 0.5, True)),
    "sum over all": ("aten::sum", A.sum),
    "sum over a dimension": ("aten::sum", lambda: half(4, 6).sum(-1)),
    "sum of integers": ("aten::sum", lambda: ints(4, 6).int().sum(0)),
    "sum of a type": ("aten::sum", lambda: half(4, 6).sum(1, dtype=torch.float32)),
    "mean": ("aten::mean", lambda: IMAGE.mean((2, 3))),
    "maximum": ("aten::max", A.max),
    "maximum with positions": ("aten::max", lambda: A.max(1)),
    "amax": ("aten::amax", lambda: A.amax((0, 1))),
    "argmax": ("aten::argmax", lambda: A.argmax(0)),
    "any": ("aten::any", lambda: MASK.any(1)),
    "variance": ("aten::var", lambda: A.var(1)),
    "vector norm": ("aten::linalg_vector_norm", lambda: torch.linalg.vector_norm(A, dim=1)),
    "cumsum of bools": ("aten::cumsum", lambda: MASK.cumsum(0)),
    "softmax": ("aten::_softmax", lambda: half(4, 6).softmax(-1)),
    "softmax to another type": ("aten::_log_softmax", lambda: A.log_softmax(1)),
    "mse_loss": ("aten::mse_loss", lambda: F.mse_loss(A, B)),
    "mse_loss without reduction": ("aten::mse_loss", lambda: F.mse_loss(A, B, reduction="none")),
    "smooth_l1_loss": ("aten::smooth_l1_loss", lambda: F.smooth_l1_loss(A, B)),
    "layer norm": (
        "aten::native_layer_norm", lambda: torch.native_layer_norm(A, [6], ROW, ROW, 1e-5)
    ),
    "group norm": (
        "aten::native_group_norm",
        lambda: torch.native_group_norm(IMAGE, ROW[:4], ROW[:4], 2, 4, 48, 2, 1e-5),
    ),
    "max pooling": (
        "aten::max_pool2d_with_indices",
        lambda: F.max_pool2d(IMAGE, 3, 2, 1, ceil_mode=True, return_indices=True),
    ),
    "average pooling": ("aten::avg_pool2d", lambda: F.avg_pool2d(IMAGE, (2, 3))),
    "adaptive pooling": (
        "aten::_adaptive_avg_pool2d", lambda: F.adaptive_avg_pool2d(IMAGE, (2, 2))
    ),
    "nearest": ("aten::upsample_nearest2d", lambda: F.interpolate(IMAGE, size=(16, 9))),
    "bilinear": (
        "aten::upsample_bilinear2d",
        lambda: F.interpolate(IMAGE, size=(16, 9), mode="bilinear"),
    ),
    "constant padding": ("aten::constant_pad_nd", lambda: F.pad(A, (1, 2, -1, 3))),
    "repeat": ("aten::repeat", lambda: A.repeat(2, 1, 3)),
    "flip": ("aten::flip", lambda: A.flip(0)),
    "roll": ("aten::roll", lambda: A.roll(1)),
    "arange": ("aten::arange", lambda: torch.arange(2, 9, 3)),
    "arange of floats": ("aten::arange", lambda: torch.arange(0, 1, 0.3)),
    "arange of a type": ("aten::arange", lambda: torch.arange(5, dtype=torch.int32)),
    "gather": ("aten::gather", lambda: A.gather(1, ints(4, 2) % 6)),
    "index_select": ("aten::index_select", lambda: A.index_select(0, PICK)),
    "take": ("aten::take", lambda: A.take(PICK)),
    "sort": ("aten::sort", lambda: half(4, 6).sort(-1)),
    "topk": ("aten::topk", lambda: A.topk(2, 0)),
    "bucketize": ("aten::bucketize", lambda: torch.bucketize(A, ROW.sort()[0])),
    "searchsorted to 32 bits": (
        "aten::searchsorted", lambda: torch.searchsorted(ROW.sort()[0], A, out_int32=True)
    ),
    "bernoulli": ("aten::bernoulli", A.bernoulli),
    "multinomial": ("aten::multinomial", lambda: A.multinomial(3)),
    "randperm": ("aten::randperm", lambda: torch.randperm(7)),
    "fft": ("aten::_fft_r2c", lambda: torch.fft.rfft(A)),
    "inverse fft": ("aten::_fft_c2r", lambda: torch.fft.irfft(torch.complex(A, B), n=9)),
    "complex fft": ("aten::_fft_c2c", lambda: torch.fft.fft2(torch.complex(A, B))),
}  # fmt: skip

# in place: what is written is self
IN_PLACE = {
    "aten::add_": lambda: half(4, 6).add_(A),
    "aten::mul_": lambda: f32(4, 6).mul_(2),
    "aten::clamp_": lambda: f32(4, 6).clamp_(min=0),
    "aten::copy_": lambda: half(4, 6).copy_(ROW),
    "aten::fill_": lambda: f32(4, 6).fill_(1),
    "aten::masked_fill_": lambda: f32(4, 6).masked_fill_(MASK, 0),
    "aten::normal_": lambda: f32(4, 6).normal_(),
    "aten::index_copy": lambda: A.index_copy(0, PICK, f32(3, 6)),
    "aten::scatter_add": lambda: A.scatter_add(1, ints(4, 2) % 6, f32(4, 2)),
}


def profiled(function, name):
    """The recorded arguments of the first operator of that name, and what the call returned."""
    function()
    with torch.profiler.profile(record_shapes=True) as profiler:
        result = function()
    results = result if isinstance(result, tuple) else (result,)
    events = json.loads(_exported(profiler))["traceEvents"]
    found = [e for e in events if e.get("name") == name and e.get("cat") == "cpu_op"]
    args = min(found, key=lambda e: e["ts"])["args"]
    columns = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    texts = (json.dumps(args[c]) if c in args else None for c in columns)
    return parse(*texts), results


def _exported(profiler):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        profiler.export_chrome_trace(str(path))
        return path.read_text()


@pytest.mark.parametrize("case", CALLS)
def test_written_bytes_are_those_of_the_results(case):
    name, function = CALLS[case]
    call, results = profiled(function, name)
    assert cost(name, call).write_bytes == sum(r.nbytes for r in results)


def test_a_number_that_looks_like_a_double_leaves_the_type_of_integers_unknown():
    # The profiler writes 2.5 as a tensor of double without dimensions; torch makes fp32 of it.
    call, _ = profiled(lambda: ints(4, 6) * 2.5, "aten::mul")
    assert cost("aten::mul", call).write_bytes is None


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_writes_self(name):
    call, results = profiled(IN_PLACE[name], name)
    assert cost(name, call).write_bytes == sum(r.nbytes for r in results)


def test_the_formulas_of_torch_count_only_products():
    """torch.utils.flop_counter has no formula for any of these: it says 0, as its own table does.

    It counts matrix products, convolutions and attention alone, so every operator of these
    families differs: arithmetic element by element, reductions, norms, losses, pooling, FFT.
    """
    from torch.utils.flop_counter import FlopCounterMode

    differing = set()
    for case, (name, function) in CALLS.items():
        with FlopCounterMode(display=False) as counter:
            function()
        assert counter.get_total_flops() == 0, case
        call, _ = profiled(function, name)
        if cost(name, call).flops:
            differing.add(name.removeprefix("aten::"))
    assert differing == {
        "add", "mul", "div", "gt", "exp", "where", "masked_fill", "clamp", "pow", "lerp",
        "addcmul", "gelu", "silu", "native_dropout", "sum", "mean", "max", "amax", "argmax", "any",
        "var", "linalg_vector_norm", "cumsum", "_softmax", "_log_softmax", "mse_loss",
        "smooth_l1_loss", "native_layer_norm", "native_group_norm", "max_pool2d_with_indices",
        "avg_pool2d", "_adaptive_avg_pool2d", "upsample_bilinear2d", "_fft_r2c", "_fft_c2r",
        "_fft_c2c",
    }  # fmt: skip
