"""Host threads are numbered by what they are, not by where a file mentions them first."""

import random

import pytest
from sametrace import differences
from tinytrace import call, kernel, mark, op, step, write

from workbench.trace.core import Thread
from workbench.trace.open import open_source

EVENTS = [
    *(op(f"a{t}", 10 * t, 5, tid=t) for t in (12, 3, 7)),
    *(mark(f"m{t}", 10 * t, 5, tid=t) for t in (7, 3, 21)),
    call("cudaLaunchKernel", 31, 2, 5, tid=3), kernel("k", 40, 5, 5), step(1, 0, 300),
]  # fmt: skip


def test_threads_stand_by_process_and_number_and_texts_after_numbers(tmp_path):
    texts = [op("t", 500, 1, tid="main"), op("t", 500, 1, tid="aux")]
    trace = open_source(write(tmp_path, [*texts, *EVENTS]))
    assert [t.tid for t in trace.meta.threads] == [1, 3, 7, 12, 21, "aux", "main"]
    assert trace.meta.threads[1] == Thread(9, 3)
    assert trace.launches["thread"].to_list() == [1]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_file_changes_nothing(tmp_path, seed):
    shuffled = random.Random(seed).sample(EVENTS, len(EVENTS))
    one = open_source(write(tmp_path, EVENTS, name="a.json"))
    other = open_source(write(tmp_path, shuffled, name="b.json"))
    assert differences(one, other) == []
    assert one.meta.threads == other.meta.threads
