"""Tables as HTML: units in the headings, bars behind shares, long names cut but whole on hover.

`html_table` writes any frame by a list of `Column`; the lists for the analyses stand below. Names
come from foreign files, so every text is escaped.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import polars as pl

from workbench import units
from workbench.views.breakdown_places import place

LONGEST_NAME = 90
TIME_UNITS = ((units.NS_PER_S, "s"), (units.NS_PER_MS, "ms"), (units.NS_PER_US, "us"), (1, "ns"))
FEW = 2_000
"""Rows that a table shows at most; the frame has all of them."""
