"""Repeated runs of kernels, worked out by hand and against trying every run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinytrace import call, kernel, op, step, write

import workbench as wb
from workbench.analysis import needs, ngrams
from workbench.errors import UsageError, WorkbenchError

US = 1000
NAMES = {
    "g": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
    "a": "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
    "n": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
    "r": "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
    "c": "ncclDevKernel_AllReduce",
}


def stream(text, at=0, *, number=7, dur=4, gap=1):
    """Kernels of 4 us by letter with 1 us between them; `.` waits as long without one."""
    places = enumerate(text)
    return [
        kernel(NAMES[x], at + i * (dur + gap), dur, stream=number) for i, x in places if x in NAMES
    ]


def runs(found):
    letters = {name: x for x, name in NAMES.items()}
    text = ["".join(letters[n] for n in k.split(" | ")) for k in found["kernels"]]
    return list(zip(text, found["fusible"], found["count"], strict=True))


def opened(folder, events):
    return wb.open(write(folder, events))


def test_the_chain_between_products(tmp_path):
    #  twice: gemm, add, norm, add; then a lone reduction
    found = wb.sequences(opened(tmp_path, stream("ganaganar")))
    assert runs(found) == [("gana", False, 2), ("ana", True, 2)]
    first = found.row(0, named=True)
    assert (first["length"], first["kernel_ns"], first["mean_ns"]) == (4, 32 * US, 16 * US)
    assert first["gap_ns"] == 2 * 3 * US  # inside the runs; not the one between them
    assert first["share"] == pytest.approx(32 / 36)
    assert first["families"] == "gemm | elementwise | norm | elementwise"
    assert found["first_start_ns"].to_list() == [0, 5 * US]


def test_what_repeats_itself_is_its_shorter_run(tmp_path):
    found = wb.sequences(opened(tmp_path, stream("nanananan")), fusible=True)
    assert runs(found) == [("na", True, 4)]


def test_rows_share_no_kernel(tmp_path):
    # "an" stands in "ran" twice and alone three times: half of 5 x 2 is more than 2/3 of 2 x 3
    trace = opened(tmp_path, stream("rangancrangancan"))
    assert runs(wb.sequences(trace, fusible=True)) == [("an", True, 5)]
    # alone once, half of 3 x 2 is less than that of "ran", and one "an" is left
    trace = opened(tmp_path, stream("rancrancan"))
    assert runs(wb.sequences(trace, fusible=True)) == [("ran", True, 2)]
    # of "rnangan" the product's neighbours are no longer free, whatever repeats among them
    trace = opened(tmp_path, stream("rnangancrnangan"))
    assert runs(wb.sequences(trace)) == [
        ("rnangan", False, 2),
        ("rnan", True, 2),
        ("an", True, 2),
    ]


def test_collectives_copies_and_streams_cut_runs(tmp_path):
    events = [*stream("gcagca"), *stream("n..n", number=8), *stream("r..r", 5, number=9)]
    assert wb.sequences(opened(tmp_path, events)).is_empty()
    copy = [kernel("Memcpy DtoD", t, 1, cat="gpu_memcpy") for t in (4, 24)]
    events = [*stream("g.a.g.a", gap=1), *copy]
    assert wb.sequences(opened(tmp_path, events)).is_empty()


def test_steps_cut_runs(tmp_path):
    # ga at the end of step 1 and ng at the begin of step 2: "ag" lies across and does not count
    kernels = stream("gaga")
    calls = [call("cudaLaunchKernel", t, 1, c) for c, t in enumerate((0, 2, 52, 54), 1)]
    for number, event in enumerate(kernels, 1):
        event["args"]["correlation"] = number
    trace = opened(tmp_path, [step(1, 0, 50), step(2, 50, 50), *calls, *kernels])
    assert runs(wb.sequences(trace)) == [("ga", False, 2)]
    assert wb.sequences(trace, length=(3, 4)).is_empty()


@pytest.fixture
def operators(tmp_path):
    """Two calls of a block of three kernels, one of them in an operator of its own."""
    events = []
    for i, at in enumerate((0, 100)):
        events += [op("block", at, 60), op("aten::clone", at + 30, 10)]
        for j, (when, name) in enumerate(((5, "g"), (15, "a"), (31, "n"))):
            events += [call("cudaLaunchKernel", at + when, 1, 3 * i + j + 1),
                       kernel(NAMES[name], at + when + 5, 4, 3 * i + j + 1)]  # fmt: skip
    events += [op("aten::sum", 200, 10), call("cudaLaunchKernel", 201, 1, 9),
               kernel(NAMES["r"], 210, 4, 9)]  # fmt: skip
    return opened(tmp_path, events)


def test_under_an_operator(operators):
    assert runs(wb.sequences(operators, under="block")) == [("gan", False, 2), ("an", True, 2)]
    # each call launches one kernel, and no run crosses two calls
    assert wb.sequences(operators, under="aten::clone").is_empty()


def test_what_is_wrong_to_ask(operators):
    with pytest.raises(WorkbenchError, match="block"):
        wb.sequences(operators, under="blok")
    for length in ((1, 4), (5, 4)):
        with pytest.raises(UsageError, match="length must be"):
            wb.sequences(operators, length=length)


def test_a_range_of_time(tmp_path):
    trace = opened(tmp_path, stream("gagaga"))
    found = wb.sequences(trace, within=(0, 17 * US))  # the fourth kernel runs 15-19
    assert runs(found) == [("ga", False, 2)]
    assert found["kernel_ns"].to_list() == [14 * US]


def test_host_execution_has_no_kernels(tmp_path):
    trace = opened(tmp_path, [op("aten::mm", t, 4) for t in range(0, 60, 5)])
    assert wb.sequences(trace).is_empty()
    assert needs.unmet(trace, needs.of("workbench.analysis.sequences"))


tokens = st.lists(st.integers(-1, 2), max_size=24)


@given(
    tokens,
    st.lists(st.booleans(), min_size=24, max_size=24),
    st.integers(2, 5),
    st.sets(st.integers(0, 2), min_size=1),
)
def test_tiled_against_every_run(token, cuts, longest, names):
    token = np.array(token, np.int64)
    segment = np.cumsum(np.array(cuts[: len(token)], np.int64))
    weight = np.arange(3, 3 + len(token)) % 5
    wanted = np.isin(token, list(names))
    found = ngrams.tiled(token, segment, weight, wanted, length=(2, longest), most=100)
    got = [(g.length, g.at.tolist()) for g in found]
    assert got == every_run(token.tolist(), segment.tolist(), weight.tolist(), longest, names)


def every_run(token, segment, weight, longest, names):
    places = {}
    for n in range(2, longest + 2):
        for i in range(len(token) - n + 1):
            run = tuple(token[i : i + n])
            if -1 not in run and segment[i] == segment[i + n - 1]:
                places.setdefault(run, []).append(i)
    candidates = [
        run
        for run, at in places.items()
        if len(at) > 1
        and len(run) <= longest
        and names & set(run)
        and not any(run[p:] == run[:-p] for p in range(1, len(run) // 2 + 1))
        and not (len(run) < longest and extended(run, places))
    ]
    free, out = [True] * len(token), []
    while True:
        ranked = []
        for run in candidates:
            at, after = [], 0
            for i in places[run]:
                if i >= after and all(free[i : i + len(run)]):
                    at.append(i)
                    after = i + len(run)
            if len(at) > 1:
                heavy = sum(sum(weight[i : i + len(run)]) for i in at) * (len(run) - 1) // len(run)
                ranked.append((-heavy, len(run), places[run][0], at))
        if not ranked:
            return out
        _, n, _, at = min(ranked)
        out.append((n, at))
        for i in at:
            free[i : i + n] = [False] * n


def extended(run, places):
    same = len(places[run])
    return any(
        apart(at, len(longer)) >= same
        and len(longer) == len(run) + 1
        and run in (longer[1:], longer[:-1])
        for longer, at in places.items()
    )


def apart(at, n):
    return sum(i == 0 or at[i] - at[i - 1] >= n for i in range(len(at)))


@pytest.mark.corpus
def test_hta_finds_no_run_under_clone_either(corpus):
    source = wb.open(corpus / "traces" / "hta" / "df_index_resolver_v100_rank1_of_2.json.gz")
    assert wb.sequences(source, under="aten::clone", length=(3, 16)).is_empty()
    assert wb.sequences(source, under="aten::clone").is_empty()
    assert not wb.sequences(source).is_empty()


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "layers", "share"),
    [
        ("tracelens/h100_qwen1.5_0.5b_inference.json.gz", 24, 0.284),
        ("tracelens/mi300_qwen1.5_0.5b_inference.json.gz", 24, 0.189),
    ],
)
def test_recorded_layers(corpus, file, layers, share):
    # 24 layers, each with one chain of 13 kernels around attention and two of 9 (its norms)
    found = wb.sequences(wb.open(corpus / "traces" / file), fusible=True)
    counts = dict(found.select("length", "count").rows())
    assert (counts[13], counts[9]) == (layers, 2 * layers)
    (long,) = found.filter(found["length"] == 13)["share"]
    assert long == pytest.approx(share, abs=1e-3)


@pytest.mark.corpus
def test_recorded_by_nsight(corpus):
    found = wb.sequences(wb.open(corpus / "traces" / "nsys" / "nsys_ai_h100_2gpu_1s.sqlite"))
    assert found["device"].n_unique() == 2
    assert found.filter(found["fusible"])["families"].str.contains("gemm").sum() == 0
