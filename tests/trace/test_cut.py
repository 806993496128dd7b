"""A trace cut to some steps: worked out by hand, and the same figures on whole recordings."""

import polars as pl
import pytest
from sametrace import plain
from tinytrace import call, kernel, mark, op, step, write

import workbench as wb
from workbench.errors import InputError, UsageError
from workbench.trace.open import open_source
from workbench.trace.synthetic import SyntheticSpec, generate
from workbench.trace.write import chrome, cut

# host   step 1 0---100   step 2 100--200   step 3 200--300   step 4 300--400
# call   a@10  z@90       b@110  d@150      e@210             f@310 g@350
# gpu    a 20-60  z 95--------------170      e 230-250         f 320-330  g 360-380
#                   b (stream 8) 120-140  d 180-190
STEPS = [step(k, 100 * (k - 1), 100) for k in (1, 2, 3, 4)]
CALLS = {"a": 10, "z": 90, "b": 110, "d": 150, "e": 210, "f": 310, "g": 350}
WORK = {"a": (20, 40), "z": (95, 75), "b": (120, 20), "d": (180, 10), "e": (230, 20),
        "f": (320, 10), "g": (360, 20)}  # fmt: skip
OPS = [op("outer", 105, 60), op("inner", 108, 20), op("late", 205, 30), op("old", 80, 15)]


@pytest.fixture
def source(tmp_path):
    events = [*STEPS, *OPS]
    for k, name in enumerate(WORK, 1):
        events.append(call("cudaLaunchKernel", CALLS[name], 2, k))
        events.append(kernel(name, *WORK[name], k, stream=8 if name == "b" else 7))
    events.append(mark("Optimizer.step#SGD.step", 85, 10))
    events.append(mark("elsewhere", 10, 20))
    return write(tmp_path, events)


@pytest.fixture
def trace(source):
    return open_source(source)


def cut_to(trace, folder, first, last):
    path = chrome.write(trace, folder / "cut.json", part=cut.steps(trace, first, last), force=True)
    return open_source(path, cache=False)


def names(frame):
    return sorted(frame["name"].cast(pl.String).to_list())


def test_what_stays_of_one_step(trace, tmp_path):
    # device step 2 is [S(2), S(3)) = [120, 230): z of step 1 still runs in it, and so stays with
    # its call, the operator and range around that; e tells where the step ends
    again = cut_to(trace, tmp_path, 2, 2)
    assert names(again.activities) == ["b", "d", "e", "z"]
    assert again.activities["start_ns"].to_list() == [95_000, 120_000, 180_000, 230_000]
    assert again.launches["start_ns"].to_list() == [90_000, 110_000, 150_000, 210_000]
    assert names(again.ops) == ["inner", "late", "old", "outer"]
    assert names(again.ranges) == ["Optimizer.step#SGD.step", "ProfilerStep#2", "ProfilerStep#3"]
    assert again.host_steps.select("step", "complete").rows() == [(2, True), (3, False)]
    assert again.steps.select("step", "start_ns", "dur_ns", "complete", "tail").rows() == [
        (2, 120_000, 110_000, True, False), (3, 230_000, 20_000, False, True),
    ]  # fmt: skip
    assert again.activities["step"].to_list() == [None, 2, 2, 3]  # step 1 has lost its mark
    assert again.origin_ns == trace.origin_ns


def test_the_last_step_needs_no_follower(trace, tmp_path):
    again = cut_to(trace, tmp_path, 4, 4)
    assert names(again.activities) == ["f", "g"]
    assert again.steps.select("step", "start_ns", "dur_ns", "tail").rows() == [
        (4, 320_000, 60_000, True)
    ]
    assert again.ops.height == 0
    assert again.origin_ns == trace.origin_ns  # the time axis stays that of the source


def figures_stay(trace, again, first, last):
    """The figures of the steps are those of the source, the window beside them included."""
    chosen = pl.col("step").is_between(first, last)
    if trace.steps.filter(chosen).height:
        assert wb.steps(again, step=(first, last)).equals(wb.steps(trace, step=(first, last)))
    if trace.steps.filter(chosen & pl.col("complete")).height:
        wanted = wb.summary(trace, step=(first, last))
        assert wb.summary(again, step=(first, last)).equals(wanted)
        assert wb.summary(again).equals(wanted)  # so nothing else counts as a step
    columns = ["name", "start_ns", "dur_ns", "self_ns", "depth", "phase"]
    ops = [t.ops.filter(chosen).select(columns) for t in (trace, again)]
    assert all(plain(ops[0][c]).equals(plain(ops[1][c])) for c in columns)


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 2), (2, 3), (3, 4), (1, 4)])
def test_the_figures_of_the_steps_stay(trace, tmp_path, first, last):
    figures_stay(trace, cut_to(trace, tmp_path, first, last), first, last)


def test_steps_told_by_time_stay_so(tmp_path):
    # no call is linked: steps are host ranges, work belongs by start; k2 starts in step 1
    work = [kernel(f"k{k}", ts, 30) for k, ts in enumerate((10, 80, 120, 210))]
    trace = open_source(write(tmp_path, [*STEPS, *work]))
    again = cut_to(trace, tmp_path, 2, 2)
    assert names(again.activities) == ["k1", "k2"]  # k1 runs until 110
    assert again.steps.select("step", "start_ns", "dur_ns").rows() == [(2, 100_000, 100_000)]
    figures_stay(trace, again, 2, 2)


def test_work_that_was_launched_in_a_step_told_by_time_stays(tmp_path):
    # without the record of its call's work, which ran in step 3, step 2 would read as incomplete
    work = [kernel(f"k{k}", ts, 5) for k, ts in enumerate((10, 120, 130))]
    late = [call("cudaLaunchKernel", 190, 2, 9), kernel("late", 210, 5, 9)]
    trace = open_source(write(tmp_path, [*STEPS, *work, *late]))
    again = cut_to(trace, tmp_path, 2, 2)
    assert names(again.activities) == ["k1", "k2", "late"]
    figures_stay(trace, again, 2, 2)


def test_what_began_in_a_step_keeps_all_that_is_in_it(tmp_path):
    # long 190-230 began in step 2: its self time is 40 less child 215-220 less call 225-228
    inside = [op("long", 190, 40), op("child", 215, 5), call("cudaLaunchKernel", 225, 3, 4)]
    work = [call("cudaLaunchKernel", 110, 2, 5), kernel("k", 120, 5, 5)]
    trace = open_source(write(tmp_path, [*STEPS, *inside, *work]))
    again = cut_to(trace, tmp_path, 2, 2)
    assert again.ops.select("name", "self_ns").cast({"name": pl.String}).rows() == [
        ("long", 32_000), ("child", 5_000),
    ]  # fmt: skip


def test_steps_that_only_the_rest_can_tell_are_refused(tmp_path):
    # in the whole most work is linked, in step 2 alone none: a reader would tell it by time
    linked = [e for k in range(1, 9) for e in
              (call("cudaLaunchKernel", 10 + k, 1, k), kernel("k", 20 + k, 1, k))]  # fmt: skip
    lost = [kernel(f"lost{k}", 120 + k, 1) for k in range(4)]
    trace = open_source(write(tmp_path, [*STEPS, *linked, *lost]))
    with pytest.raises(InputError, match=r"Steps 2-2 of \S*t.json can't be cut out.*export it"):
        cut.steps(trace, 2, 2)


def test_an_unfinished_step_stays_unfinished(tmp_path):
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x"}
    work = [e for k in (1, 2) for e in (call("cudaLaunchKernel", 100 * k - 90, 1, k),
                                        kernel("k", 100 * k - 50, 5, k))]  # fmt: skip
    trace = open_source(write(tmp_path, [*STEPS[:2], *work, span | {"ts": 5, "dur": 150}]))
    assert trace.host_steps["complete"].to_list() == [False, False]
    for k in (1, 2):
        again = cut_to(trace, tmp_path, k, k)
        assert again.host_steps.filter(step=k)["complete"].to_list() == [False]


def test_a_stretch_of_time(trace, tmp_path):
    part = cut.between(trace, 150_000, 260_000)
    again = open_source(chrome.write(trace, tmp_path / "cut.json", part=part), cache=False)
    # z and d and e run in it; the call of z came before; a step that reaches beyond has no mark
    assert names(again.activities) == ["d", "e", "z"]
    assert again.host_steps.height == 0
    assert again.origin_ns == trace.origin_ns
    part = cut.between(trace, 100_000, 300_000)
    assert [n for n in part.tables["ranges"]["name"] if "Step" in n] == [
        "ProfilerStep#2", "ProfilerStep#3",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="is empty"):
        cut.between(trace, 5, 5)


def test_a_step_that_is_not_there_is_named(trace, tmp_path):
    with pytest.raises(UsageError, match=r"t.json has no step in 9-12; its steps are 1 to 4\.$"):
        cut.steps(trace, 9, 12)
    bare = open_source(write(tmp_path, [kernel("k", 1, 1)]))
    with pytest.raises(UsageError, match="none is marked in it"):
        cut.steps(bare, 1, 2)


@pytest.mark.parametrize(
    ("text", "wanted"), [("3-5", (3, 5)), ("3:5", (3, 5)), ("7", (7, 7)), (" 0-0 ", (0, 0))]
)
def test_step_numbers(text, wanted):
    assert cut.step_numbers(text) == wanted


@pytest.mark.parametrize("text", ["", "a-b", "5-3", "-3", "3-", "1-2-3", "1e3", "9" * 99])
def test_step_numbers_that_are_none(text):
    with pytest.raises(UsageError, match=r"^--steps .*\.|\?$"):
        cut.step_numbers(text)


def test_milliseconds():
    assert cut.milliseconds("1.5:40") == (1_500_000, 40_000_000)
    assert cut.milliseconds("0.000001:7") == (1, 7_000_000)
    for text in ("", "5", "a:b", "1:1e999999999", "nan:3", "0.0000001:1"):
        with pytest.raises(UsageError, match="--range"):
            cut.milliseconds(text)


# ---- recordings ----------------------------------------------------------------------------


def every_cut(trace):
    numbers = trace.host_steps["step"].to_list()
    middle = numbers[len(numbers) // 2]
    return sorted({(numbers[0],) * 2, (numbers[0], middle), (middle,) * 2, (numbers[-1],) * 2})


@pytest.mark.parametrize("name", ["generated_gpu_2ranks", "gpt_tiny_cpu", "gpt_tiny_cpu_2ranks"])
def test_the_figures_of_the_sample_data_stay(tmp_path, name, request):
    for trace in open_source(request.config.rootpath / "data" / name).ranks:
        for first, last in every_cut(trace):
            again = cut_to(trace, tmp_path, first, last)
            figures_stay(trace, again, first, last)
            assert again.ops.height < trace.ops.height


def test_the_figures_of_a_generated_run_with_faults_stay(tmp_path):
    faults = ("clock_inversion", "missing_launch", "same_stream_overlap")
    generate(SyntheticSpec(ranks=1, steps=4, faults=faults)).write(tmp_path / "run")
    (trace,) = open_source(tmp_path / "run").ranks
    for first, last in every_cut(trace):
        figures_stay(trace, cut_to(trace, tmp_path, first, last), first, last)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    ["hta/nccl_args_resnet_a100_rank0_of_2", "tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8",
     "hta/cpu_only_rank34_of_300"],
)  # fmt: skip
def test_the_figures_of_recordings_stay(corpus, tmp_path, name):
    trace = open_source(corpus / "traces" / f"{name}.json.gz")
    for first, last in every_cut(trace):
        figures_stay(trace, cut_to(trace, tmp_path, first, last), first, last)
