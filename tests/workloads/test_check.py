"""`make workloads-check`: what it records of a workload, and what it says of one that fails."""

from __future__ import annotations

import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "workloads_check.py"


@pytest.fixture
def check():
    spec = util.spec_from_file_location("workloads_check", SCRIPT)
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_two_ranks_share_in_each_way_that_the_workload_can(check):
    assert check.ways("gpt", one_rank=False) == [(1, "-"), (2, "ddp"), (2, "fsdp")]
    assert check.ways("rgat", one_rank=False) == [(1, "-"), (2, "ddp")]
    assert check.ways("gpt", one_rank=True) == [(1, "-")]


@pytest.mark.slow
def test_one_that_fails_is_a_row_with_its_sentence(check, tmp_path):
    (tmp_path / "gpt-1--").mkdir()
    (tmp_path / "gpt-1--" / "mine.txt").touch()
    row = check.recorded("gpt", 1, "-", tmp_path)
    assert "exists already" in row.status
    assert row.events == "-"


@pytest.mark.slow
def test_three_workloads_are_recorded_in_a_minute_each():
    # a decoder, a convolution, and tables of embeddings; `make workloads-check` has them all
    command = [sys.executable, str(SCRIPT), "gpt", "resnet50", "dlrm_dcnv2", "--one-rank"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row.split() for row in done.stdout.splitlines()]
    assert [row[0] for row in rows[1:4]] == ["gpt", "resnet50", "dlrm_dcnv2"]
    assert all(row[-1] == "done" for row in rows[1:4])
    assert rows[4] == ["3", "of", "3", "recordings", "are", "done"]
