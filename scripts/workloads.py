"""Write docs/workloads.md: what each built-in workload is, its size, and where its shape is from.

Run it as `python scripts/workloads.py`; it needs no torch.
"""

from __future__ import annotations

from pathlib import Path

from workbench.workloads import FieldInfo, get, names
from workbench.workloads.fields import describe
from workbench.workloads.options import Options

PAGE = Path(__file__).parents[1] / "docs" / "workloads.md"
GIGA = 1e9
HEAD = """# Workloads

`workbench record NAME --preset tiny|small|full --set KEY=VALUE` trains one of these on synthetic
data of the right shape; `workbench workloads NAME` lists its parameters. `full` has the published
shape, `small` fits one GPU, `tiny` keeps what makes the family in a step of a fraction of a second
on two cores. `scripts/workloads.py` makes this page from the specs, and tests hold them: the
parameters on the model itself, built without memory, and against a sum by hand; the FLOPs, to the
last one, against the operators that a recording of `tiny` has. `rgat` samples a graph of another
size for every batch: its FLOPs are those to expect on average.

FLOPs are those of one training step on one rank, forward and backward: matrix products and
convolutions, 2 a multiply-add, no biases; of causal attention the unmasked half, of a window the
keys in it; gradients as far as they are needed; nothing twice, neither recomputation nor the scores
that a fused attention's backward computes again. A tool that counts all scores, as PaLM's
convention does, gets more.

## Parameters of the published shape

| workload | parameters of `full` | counted | shape from |
| --- | ---: | --- | --- |
"""
SIZES = """
## Presets

| workload | preset | parameters | samples a step and rank | tokens | GFLOP | |
| --- | --- | ---: | ---: | ---: | ---: | --- |
"""
KEPT = """
## What `tiny` keeps

| workload | is made of |
| --- | --- |
"""
OPTIONS = """
## Options of all workloads

Beside these a workload has the fields of its shape. Combinations that mean nothing are refused, by
the names of both fields. Models with attention have `attention` (the back end), those made of
convolutions `channels_last`; dense transformers can be split over ranks (`parallel=tensor`).

| option | allowed | |
| --- | --- | --- |
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.name)


def page() -> str:
    """Return the text of the page."""
    return HEAD + _published() + SIZES + _sizes() + KEPT + _kept() + OPTIONS + _options()


def _published() -> str:
    rows = ((n, get(n)) for n in names())
    return "".join(
        f"| `{n}` | {w.parameters(w.preset('full')):,} | {w.included} | {w.source} |\n"
        for n, w in rows
    )


def _sizes() -> str:
    return "".join(_size(name, preset) for name in names() for preset in get(name).presets)


def _size(name: str, preset: str) -> str:
    workload = get(name)
    spec = workload.preset(preset)
    each = spec.tokens_per_sample
    tokens = "" if each is None else f"{spec.samples_per_step * each:,}"
    return (
        f"| `{name}` | `{preset}` | {workload.parameters(spec):,} | {spec.samples_per_step:,} "
        f"| {tokens} | {workload.flops(spec) / GIGA:,.1f} | {workload.preset_help[preset]} |\n"
    )


def _kept() -> str:
    return "".join(f"| `{n}` | {'; '.join(get(n).distinctive)} |\n" for n in names())


def _options() -> str:
    return "".join(f"| `{i.name}` | {_allowed(i)} | {i.help} |\n" for i in describe(Options()))


def _allowed(info: FieldInfo) -> str:
    if info.choices:
        return ", ".join(map(str, info.choices))
    if info.type is bool:
        return "true, false"
    least = "" if info.minimum is None else f"from {info.minimum:,}"
    return least if info.maximum is None else f"{least} to {info.maximum:,}"


if __name__ == "__main__":
    main()
