"""What a click on a row does where the row has no place in time.

A lead may have no instance: a cause that only ever is a part of gaps is no gap's own. A step that
ran nothing on a device has no stretch there.
"""

import polars as pl
import pytest

from workbench.panels.choice import STRETCHES
from workbench.panels.links import Act, act

UNTIMED = {"rank": 0, "activity": None, "start_ns": None, "dur_ns": None}


@pytest.mark.parametrize("table", ["leads", *STRETCHES])
def test_a_row_without_a_time_does_nothing(table):
    frame = pl.DataFrame([UNTIMED])
    assert act({table: frame}, table, 0) == Act()
    assert act({table: frame.with_columns(start_ns=pl.lit(5))}, table, 0) == Act()


def test_a_step_without_a_time_is_chosen_all_the_same():
    frame = pl.DataFrame([UNTIMED | {"step": 7, "complete": True}])
    assert act({"steps": frame}, "steps", 0) == Act(step=7)
    timed = frame.with_columns(start_ns=pl.lit(5), dur_ns=pl.lit(4))
    assert act({"steps": timed}, "steps", 0) == Act(step=7, window=[5, 9])
