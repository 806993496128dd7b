"""Time, overlap and classes on traces with exact answers; see README.md to ask another tool."""

import pytest
from conformance import traces as made
from conformance.asking import ask, ours, tool

from workbench.analysis.rules import account, hta, tracelens
from workbench.trace.synthetic import SyntheticSpec, generate


def check_times(case):
    found = ask("times", case.files)
    for key, want in case.times.items():
        assert {n: found[key][n] for n in want} == want, key


@pytest.mark.parametrize("with_wait", [False, True])
def test_a_waiting_stream_is_idle(tmp_path, with_wait):
    check_times(made.two_kernels(tmp_path, with_wait=with_wait))


def test_a_waiting_host_is_no_device_work(tmp_path):
    check_times(made.host_waits(tmp_path))


def test_kernels_of_a_microsecond_keep_their_time(tmp_path):
    check_times(made.short_kernels(tmp_path))


def test_kernels_of_a_graph_count_each(tmp_path):
    check_times(made.graph(tmp_path))


@pytest.mark.parametrize("seed", range(5))
def test_overlapping_streams_on_several_devices(tmp_path, seed):
    check_times(made.random_streams(tmp_path, seed))


def test_the_overlap_of_nothing_is_no_number(tmp_path):
    case = made.no_communication(tmp_path)
    assert ask("overlap_share", case.files) == case.share


@pytest.mark.parametrize("made_as", [made.amd_names, made.other_collectives])
def test_what_a_kernel_is_does_not_hang_on_nccl_in_its_name(tmp_path, made_as):
    case = made_as(tmp_path)
    found = ask("sorts", case.files)
    assert {name: found[name] for name in case.sorts} == case.sorts


def test_collectives_without_nccl_are_communication_in_time(tmp_path):
    check_times(made.other_collectives(tmp_path))


@pytest.mark.parametrize(
    "spec",
    [
        SyntheticSpec(),
        SyntheticSpec(ranks=3, layers=1, jitter=0.3, seed=4),
        SyntheticSpec(ranks=1, faults=("same_stream_overlap", "missing_launch")),
    ],
    ids=["two ranks", "three ranks", "faults"],
)
def test_a_generated_training_run(tmp_path, spec):
    run = generate(spec)
    found = ask("times", run.write(tmp_path))
    for rank in run.answers.ranks:
        want = rank.windows["all"]
        got = found[rank.rank, rank.device]
        assert got == {name: getattr(want, f"{name}_ns") for name in got}


# ---- what other tools' rules say of the same traces -----------------------------------------


def temporal(files):
    return hta.temporal(hta.events(tool.opened(files)))


@ours
def test_hta_counts_the_wait_as_busy(tmp_path):
    # idle 7 of 9 ms is 77.8 %; with the wait as a kernel 1 of 9 is left: 11.1 %
    for with_wait, percent in ((False, 77.8), (True, 11.1)):
        folder = tmp_path / str(with_wait)
        folder.mkdir()
        found = temporal(made.two_kernels(folder, with_wait=with_wait).files)
        assert round(100 * found.idle_ns / found.kernel_time_ns, 1) == percent


@ours
def test_hta_rounds_short_kernels_away(tmp_path):
    # 100.25 to 101.75 becomes 101 to 101: all 200 kernels have no time left
    found = temporal(made.short_kernels(tmp_path).files)
    assert (found.compute_ns, found.idle_ns) == (0, found.kernel_time_ns)


@ours
def test_hta_takes_hip_for_communication(tmp_path):
    names = tool.opened(made.amd_names(tmp_path).files).activities["name"]
    assert set(hta.sorts(names, "0.6").tolist()) == {account.COMMUNICATION}


@ours
def test_hta_takes_collectives_without_nccl_for_compute(tmp_path):
    trace = tool.opened(made.other_collectives(tmp_path).files)
    for version in hta.CLASSES:
        assert set(hta.sorts(trace.activities["name"], version).tolist()) == {account.COMPUTE}
    assert hta.overlap(hta.events(trace)) == (0, 0)


@ours
def test_hta_divides_by_no_communication(tmp_path):
    # 0 / 0: HTA prints NaN
    trace = tool.opened(made.no_communication(tmp_path).files)
    assert hta.overlap(hta.events(trace)) == (0, 0)


@ours
def test_tracelens_knows_one_of_these_collectives(tmp_path):
    activities = tool.opened(made.other_collectives(tmp_path).files).activities
    found = dict(zip(activities["name"].cast(str), tracelens.sorts(activities), strict=True))
    known = [n for n in made.NOT_NCCL if found[n] == account.COMMUNICATION]
    assert known == ["void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>"]
