"""No operator above its roof: a run recorded here, held against roofs measured here.

    python benchmarks/roofs.py [--full] [--run FOLDER]

Records the workload `gpt`, preset `tiny`, on this processor (or takes a run that it recorded),
measures the roofs anew, and lists every operator of 50 us or more a call that lies more than 5 %
above the roof of the smallest memory level that holds its working set, with what is known to cause
that. Exit 1 when a cause is not known. On a busy machine both the run and the roofs are disturbed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from workbench.analysis.roofline import roofline
from workbench.costs import ceilings
from workbench.trace.open import open_source

LEAST_NS = 50_000
ABOVE = 1.05
SHOWN = ["operator", "shapes", "precision", "calls", "call_us", "call_mb", "memory_level"]
CAUSES = {
    "in cache": "its working set is larger than the last cache, of which a part stays there",
    "in place": "it reads and writes the same memory: half of its bytes are its working set",
    "cost": "not known: see its cost model, and measure again on a quiet machine",
}


def main() -> None:
    """Record, measure, compare; print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the full sweep of roofs")
    parser.add_argument("--run", type=Path, help="a run that this machine recorded")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = given.run or _recorded(Path(folder) / "run")
        found = ceilings.ceilings("cpu", refresh=True, full=given.full)
        compared = roofline(open_source(run), ceilings=found)
    timed = compared.with_columns(
        call_us=pl.col("time_ns") / pl.col("calls") / 1e3,
        call_mb=pl.col("bytes") / pl.col("calls") / 1e6,
    ).filter(pl.col("call_us") >= LEAST_NS / 1e3)
    held = timed.filter(pl.col("ratio_to_roof").is_not_null())
    above = held.filter(pl.col("ratio_to_roof") > ABOVE).with_columns(cause=_cause(found))
    _print(timed, held, above, found)
    sys.exit(int(above.filter(pl.col("cause") == CAUSES["cost"]).height > 0))


def _recorded(folder: Path) -> Path:
    command = "from workbench.cli import main; main()"
    options = ["record", "gpt", "--preset", "tiny", "--device", "cpu", "-o", str(folder)]
    subprocess.run([sys.executable, "-c", command, *options], check=True)
    return folder


def _cause(found: ceilings.Ceilings) -> pl.Expr:
    last = max((c.bytes for c in found.caches), default=0)
    is_near = (pl.col("memory_level") == "memory") & (pl.col("call_mb") * 1e6 < 4 * last)
    is_in_place = pl.col("operator").str.contains(r"_$|^Optimizer|_foreach|_fused")
    return (
        pl.when(is_near)
        .then(pl.lit(CAUSES["in cache"]))
        .when(is_in_place)
        .then(pl.lit(CAUSES["in place"]))
        .otherwise(pl.lit(CAUSES["cost"]))
    )


def _print(
    timed: pl.DataFrame, held: pl.DataFrame, above: pl.DataFrame, found: ceilings.Ceilings
) -> None:
    with pl.Config(tbl_rows=100, tbl_cols=20, tbl_width_chars=220, fmt_str_lengths=70):
        print(ceilings.frame(found))
        print({k: v for k, v in ceilings.about(found).items() if v is not None})
        print(held.sort("ratio_to_roof", descending=True).select(*SHOWN, "ratio_to_roof").head(15))
        print(f"{timed.height} operators of 50 us a call or more, {held.height} with a ratio")
        print(f"{above.height} more than 5 % above their roof:")
        print(above.select(*SHOWN, "ratio_to_roof", "cause"))


if __name__ == "__main__":
    main()
