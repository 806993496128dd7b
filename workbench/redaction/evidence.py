"""What analyses read in a name, so that a pseudonym can be held to tell them the same.

Each function takes names and returns what each of them tells. Two names of which it returns equal
things are one to every analysis, apart from being another name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import polars as pl

from workbench.analysis import compiled, copies, definitions, dtypes, hostwork, parallel
from workbench.analysis.allocator import QUERIES
from workbench.costs import evidence, models, precision, views
from workbench.costs.models import model_of
from workbench.trace import families, phases
from workbench.trace.collectives import collective_name
from workbench.trace.families import COMMUNICATION_DOMAINS, Kind, launch_kind, range_domain

_TF32, _FP32 = re.compile(precision.TF32_NAME), re.compile(precision.FP32_NAME)
_TRAINS, _EVALUATES = re.compile(evidence.TRAINS), re.compile(evidence.EVALUATES)
_TYPES, _GATHER = re.compile(evidence.TYPES), re.compile(evidence.GATHER)
_DRIVER = re.compile(r"cu[A-Z]")
_ELSEWHERE = tuple(re.compile(expression) for expression in definitions.EXPRESSIONS)


class Kernel(NamedTuple):
    """What a kernel's name tells."""

    family: str | None
    dtype: str | None
    is_tf32: bool
    is_fp32: bool
    collective: str
    trains: bool
    evaluates: bool
    types: tuple[str | None, str | None]
    gather: tuple[str, ...]
    direction: str | None
    memory: str | None
    is_inductor: bool
    elsewhere: tuple[bool, ...]
    """Whether each expression by which other tools sort kernels is found in it."""


class Operator(NamedTuple):
    """What an operator's name tells."""

    annotation: Annotation
    model: object
    wraps: bool
    is_view: bool
    is_node: bool
    is_foreach: bool


class Annotation(NamedTuple):
    """What the name of a range tells."""

    phase: str | None
    domain: str
    is_collection: bool
    is_gil: bool
    waits: bool
    is_step: bool
    compiled: str | None
    is_nccl: bool


class Call(NamedTuple):
    """What the name of a runtime call tells."""

    kind: str
    blocks: bool
    queries: bool
    is_async: bool
    is_hip: bool
    is_driver: bool


def kernels(names: Sequence[str]) -> list[Kernel]:
    """Return what names of kernels tell."""
    return _work(names, "kernel")


def operators(names: Sequence[str]) -> list[Operator]:
    """Return what names of operators tell, the work itself aside."""
    return [
        Operator(
            annotation=told,
            model=model_of(name),
            wraps=name in models.WRAPPERS or name.removesuffix("_") in models.WRAPPERS,
            is_view=views.is_one(name),
            is_node=name.startswith(phases.BACKWARD_NODE),
            is_foreach="::_foreach_" in name,
        )
        for name, told in zip(names, ranges(names), strict=True)
    ]


def executed(names: Sequence[str]) -> list[tuple[Operator, Kernel]]:
    """Return what names of operators tell that host threads execute: they are the work, too."""
    return list(zip(operators(names), _work(names, "operator"), strict=True))


def ranges(names: Sequence[str]) -> list[Annotation]:
    """Return what names of ranges tell."""
    return [
        Annotation(
            phase=phases.stated(name),
            domain=range_domain(name),
            is_collection=hostwork.is_collection(name),
            is_gil=hostwork.is_gil(name),
            waits=hostwork.is_gil(name) and "wait" in name.lower(),
            is_step="ProfilerStep" in name,
            compiled=compiled.kind_of(name),
            is_nccl=name.startswith("nccl"),
        )
        for name in names
    ]


def calls(names: Sequence[str]) -> list[Call]:
    """Return what names of runtime calls tell."""
    return [
        Call(
            kind=launch_kind(name),
            blocks=hostwork.blocks(name),
            queries=QUERIES in name,
            is_async="Async" in name,
            is_hip=name.startswith("hip"),
            is_driver=_DRIVER.match(name) is not None,
        )
        for name in names
    ]


def domains(names: Sequence[str]) -> list[tuple[bool, bool]]:
    """Return what names of domains tell: the interpreter's lock, a communication library."""
    foreign = {"step", "overhead", *COMMUNICATION_DOMAINS}
    return [(hostwork.is_gil(n), n.lower() in foreign) for n in names]


def groups(names: Sequence[str]) -> list[str | None]:
    """Return what descriptions of process groups tell: the dimension of parallelism."""
    return [parallel.dimension(n) for n in names]


def nothing(names: Sequence[str]) -> list[None]:
    """Return that names tell nothing."""
    return [None] * len(names)


Reading = Callable[[Sequence[str]], Sequence[object]]


def _work(names: Sequence[str], of: Kind) -> list[Kernel]:
    found = families.families(pl.Series(names, dtype=pl.String), of).to_list()
    return [_told(name, family) for name, family in zip(names, found, strict=True)]


def _told(name: str, family: str | None) -> Kernel:
    gathered = _GATHER.search(name)
    return Kernel(
        family=family,
        dtype=dtypes.of_name(name),
        is_tf32=_TF32.search(name) is not None,
        is_fp32=_FP32.search(name) is not None,
        collective=collective_name(name),
        trains=_TRAINS.search(name) is not None,
        evaluates=_EVALUATES.search(name) is not None,
        types=_made_for(name),
        gather=gathered.groups() if gathered else (),
        direction=copies.direction(name),
        memory=copies.host_memory(name),
        is_inductor=compiled.is_inductor(name),
        elsewhere=tuple(rule.search(name) is not None for rule in _ELSEWHERE),
    )


def _made_for(name: str) -> tuple[str | None, str | None]:
    found = _TYPES.search(name)
    if found is None:
        return None, None
    return evidence.element_type(found["first"]), evidence.element_type(found["second"])
