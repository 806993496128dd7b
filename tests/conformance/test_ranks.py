"""Collectives across ranks on traces with exact answers; README.md says how to ask another tool."""

import pytest
from conformance import traces as made
from conformance.asking import ask, ours, tool

from workbench.analysis.rules import tracelens


@pytest.mark.parametrize("made_as", [made.shifted_windows, made.skewed_clocks])
def test_waits_survive_shifted_windows_and_clocks(tmp_path, made_as):
    case = made_as(tmp_path)
    assert ask("waits", case.files) == case.waits


def test_bandwidth_is_in_bytes_a_second(tmp_path):
    case = made.bandwidth(tmp_path)
    for seq, rates in case.bandwidths.items():
        assert ask("bandwidths", case.files)[seq] == pytest.approx(rates)


@ours
def test_tracelens_pairs_what_stands_in_the_same_place(tmp_path):
    # rank 0's collective k with rank 1's k + 1: 1000 us further on, besides the true 200
    found = tracelens.collectives(tool.opened(made.shifted_windows(tmp_path).files))
    assert set(found["skew_in_start_ns"]) == {1_200_000}
    assert set(found["skew_in_end_ns"]) == {1_000_000}


@ours
def test_tracelens_trusts_raw_clocks(tmp_path):
    found = tracelens.collectives(tool.opened(made.skewed_clocks(tmp_path).files))
    assert set(found["skew_in_start_ns"]) == {5_200_000}


@ours
def test_tracelens_prints_gib_as_gb(tmp_path):
    # 536,870,912 bytes are 0.5 GiB: 1000 GiB/s, where nccl-tests says 1073.7 GB/s
    found = tracelens.collectives(tool.opened(made.bandwidth(tmp_path).files))
    assert found["algorithm_gib_per_s"].to_list() == pytest.approx([1000])
    ((rate, _),) = tool.bandwidths(made.bandwidth(tmp_path).files).values()
    assert round(rate / 1e9, 1) == 1073.7
