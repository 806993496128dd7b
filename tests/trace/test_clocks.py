"""Clock offsets between ranks by the ends of collectives, worked out by hand."""

import pytest
from tinytrace import kernel, op, write

import workbench as wb

US = 1000


def reduce(ts, dur, seq, members="[0, 1]", group="0"):
    args = {"Collective name": "allreduce", "In msg nelems": 10, "Out msg nelems": 10,
            "Group size": 2, "dtype": "Float", "Process Group Name": group,
            "Process Group Ranks": members, "Seq": seq}  # fmt: skip
    return kernel("ncclDevKernel_AllReduce_Sum", ts, dur, stream=20, **args)


def job(folder, *ranks):
    for rank, events in enumerate(ranks):
        write(folder, [op("first", 0, 1), *events], f"r{rank}.json",
              distributedInfo={"rank": rank, "world_size": len(ranks)})  # fmt: skip
    return wb.open(folder)


def waits(source):
    return wb.collectives(source).sort("rank", "seq")["wait_ns"].to_list()


def codes(source):
    return source.problems["code"].to_list()


def test_the_median_of_the_differences_of_ends(tmp_path):
    # ends 110, 210, 310, 410 against 1110, 1211, 1313, 1420: 1000, 1001, 1003, 1010
    ends = (1110, 1211, 1313, 1420)
    mine = [reduce(100 * i, 10, i) for i in (1, 2, 3, 4)]
    theirs = [reduce(end - 8, 8, i) for i, end in enumerate(ends, 1)]
    found = job(tmp_path, mine, theirs)
    assert found.clock_offsets.rows() == [(0, 0, None, None), (1, 1002 * US, 4, 10 * US)]


def test_a_rank_behind(tmp_path):
    found = job(tmp_path, [reduce(500, 50, 1), reduce(900, 50, 2)],
                [reduce(120, 30, 1), reduce(530, 20, 2)])  # fmt: skip
    # ends 550, 950 against 150, 550: rank 1 is 400 behind; aligned starts 520 and 930
    assert found.clock_offsets["offset_ns"].to_list() == [0, -400 * US]
    assert waits(found) == [20 * US, 30 * US, 0, 0]
    (note,) = found.problems.rows(named=True)
    assert (note["rank"], note["code"], note["count"]) == (1, "clock_offset", 2)
    assert note["first_example"] == (
        "rank 1 is 400,000 ns behind rank 0 by the ends of 2 collectives"
    )
    assert wb.collectives(found)["start_ns"].to_list() == [120_000, 500_000, 530_000, 900_000]


def test_clocks_that_may_be_right_are_left_alone(tmp_path):
    # ends differ by 5 and by 7, but the records overlap: waits are of recorded times
    found = job(tmp_path, [reduce(100, 50, 1), reduce(300, 50, 2)],
                [reduce(120, 35, 1), reduce(310, 47, 2)])  # fmt: skip
    assert found.clock_offsets["offset_ns"].to_list() == [0, 6 * US]
    assert waits(found) == [20 * US, 10 * US, 0, 0]
    assert codes(found) == []


def test_one_collective_is_no_evidence(tmp_path):
    found = job(tmp_path, [reduce(100, 50, 1)], [reduce(900, 50, 1)])
    assert found.clock_offsets["collectives"].to_list() == [None, 1]
    assert waits(found) == [None, None]
    assert codes(found) == []


def test_differences_that_do_not_agree_are_no_evidence(tmp_path):
    # ends 150, 350, 550 against 1000, 5000, 9000: no offset lets two of them overlap
    found = job(tmp_path, [reduce(t, 50, i) for i, t in enumerate((100, 300, 500))],
                [reduce(t - 50, 50, i) for i, t in enumerate((1000, 5000, 9000))])  # fmt: skip
    assert waits(found) == [None] * 6
    assert codes(found) == []


def test_groups_that_number_alike_are_not_matched(tmp_path):
    found = job(tmp_path, [reduce(100, 50, i, group="dp") for i in (1, 2)],
                [reduce(900, 50, i, group="fsdp") for i in (1, 2)])  # fmt: skip
    assert found.clock_offsets["offset_ns"].to_list() == [0, None]
    assert "clock_offset" not in codes(found)


def test_a_rank_is_reached_over_another(tmp_path):
    # 1 is 1000 ahead of 0; 2 shares with 1 alone and is 300 ahead of it; nothing ties 3
    a, b = "[0, 1]", "[1, 2]"
    found = job(
        tmp_path,
        [reduce(100, 10, 1, a), reduce(200, 10, 2, a)],
        [reduce(1100, 10, 1, a), reduce(1200, 10, 2, a),
         reduce(1300, 10, 1, b), reduce(1400, 10, 2, b)],
        [reduce(1600, 10, 1, b), reduce(1700, 10, 2, b)],
        [reduce(1600, 10, 1, "[3]")],
    )  # fmt: skip
    assert found.clock_offsets["offset_ns"].to_list() == [0, 1000 * US, 1300 * US, None]
    notes = found.problems.select("rank", "code").rows()
    assert notes == [(1, "clock_offset"), (2, "clock_offset")]


def test_only_groups_that_need_it_are_aligned(tmp_path):
    # [0, 1] fits as recorded though its ends differ by 6; [0, 2] is 1000 off
    near, far = "[0, 1]", "[0, 2]"
    found = job(
        tmp_path,
        [reduce(100, 50, 1, near), reduce(200, 50, 2, near),
         reduce(300, 50, 1, far), reduce(400, 50, 2, far)],
        [reduce(120, 36, 1, near), reduce(220, 36, 2, near)],
        [reduce(1310, 40, 1, far), reduce(1410, 40, 2, far)],
    )  # fmt: skip
    frame = wb.collectives(found)
    of_one = frame.filter(frame["rank"] == 1)["wait_ns"].to_list()
    assert of_one == [0, 0]
    of_zero = frame.filter(frame["rank"] == 0)["wait_ns"].to_list()
    assert of_zero == [20 * US, 20 * US, 10 * US, 10 * US]
    assert found.problems["rank"].to_list() == [2]


@pytest.mark.parametrize(
    "members", ["[0, 1, ...]", "0, 1", "[]", '["a"]', "[99999999999999999999]"]
)
def test_members_that_are_no_list_of_ranks(tmp_path, members):
    found = job(tmp_path, [reduce(1, 5, 1, members)], [reduce(1, 5, 1, members)])
    assert found.clock_offsets["offset_ns"].to_list() == [0, None]
    assert waits(found) == [None, None]
