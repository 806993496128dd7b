"""What a name says about an event: the family of a kernel or operator, launch calls, annotations.

Families are data: `data/families.toml` holds what each means and the patterns, with their sources.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

import polars as pl

from workbench import resources
from workbench.errors import InputError
from workbench.trace import schema

if TYPE_CHECKING:
    from pathlib import Path

STEP = re.compile(r"ProfilerStep#(\d+)")
OTHER = "other"
"""The family of a kernel that no pattern knows."""
COMMUNICATION = "communication"
LONGEST = 2048
"""Characters of a name that are looked at; recorded names state their family before that."""
COMMUNICATION_DOMAINS = ("gloo", "nccl", "mpi", "ucc", "xccl")
HOST_DOMAINS = ("step", "user", *COMMUNICATION_DOMAINS)
"""What `range_domain` may answer."""
_LAUNCH_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("graph_launch", re.compile(r"GraphLaunch")),
    (
        "launch",
        re.compile(
            r"Launch(Cooperative|Device)?Kernel|LaunchCooperative|^Node@launch|^Hccl@|^runFunction"
        ),
    ),
    ("sync", re.compile(r"Synchronize", re.IGNORECASE)),
    ("copy", re.compile(r"^(cuda|cu|hip|.*aclrt|enqueueCommand )?Memcpy", re.IGNORECASE)),
    ("set", re.compile(r"^(cuda|cu|hip)?Memset", re.IGNORECASE)),
    ("malloc", re.compile(r"Malloc|Free|MemAlloc|MemCreate|MemMap|MemUnmap|MemRelease|HostAlloc")),
)
"""In order; by the names of the CUDA runtime and driver API, of HIP, which mirrors it, of Ascend's
CANN and of MTIA's runtime."""

Kind = Literal["kernel", "operator"]
MOST_REMEMBERED = 20_000
_MEMORY: dict[Kind, dict[str, str | None]] = {"kernel": {}, "operator": {}}


class Rule(NamedTuple):
    """A family and one expression that holds all patterns of neighbouring entries of it."""

    family: str
    expression: str


class Table(NamedTuple):
    """The families with their meanings, and the rules in order for kernels and for operators."""

    meanings: dict[str, str]
    rules: dict[str, tuple[Rule, ...]]


def table(path: Path | None = None) -> Table:
    """Return the reviewed table of data/families.toml, or of another file of that form.

    Raises
    ------
    InputError
        The file is missing, broken, or names a family that it doesn't declare.
    """
    return _read(path or resources.data() / "families.toml")


def families(names: pl.Series, of: Kind = "kernel") -> pl.Series:
    """Return the family of each name, in order: the first rule of the table that matches it.

    A kernel that no rule knows is `other`; an operator that no rule knows is null. Only distinct
    names are looked at. The expressions run in linear time, whatever the name.
    """
    names = names.cast(schema.NAME)
    distinct = names.unique().drop_nulls()
    known = _remembered(distinct.cast(pl.String), of)
    found = names.to_physical().replace_strict(
        distinct.to_physical(), known, default=None, return_dtype=schema.NAME
    )
    return found.alias("family")


def family(name: str) -> str:
    """Return the family of one kernel name; for many names `families` is the faster way."""
    return str(families(pl.Series([name], dtype=pl.String))[0])


@lru_cache(maxsize=4096)
def is_collective(kernel: str) -> bool:
    """Say whether a kernel's name belongs to the family `communication`.

    `attribution` asks this of all names at once, so a reader need not.
    """
    one = pl.Series([kernel[:LONGEST]], dtype=pl.String)
    expressions = (r.expression for r in table().rules["kernel"] if r.family == COMMUNICATION)
    return any(one.str.contains(e)[0] for e in expressions) and family(kernel) == COMMUNICATION


def launch_kind(call: str) -> str:
    """Classify a runtime or driver call by its name."""
    return next((kind for kind, rule in _LAUNCH_RULES if rule.search(call)), "other")


def range_domain(annotation: str) -> str:
    """Name the domain of a host annotation: step, a communication library, or user."""
    if STEP.fullmatch(annotation):
        return "step"
    prefix = annotation.partition(":")[0]
    return prefix if prefix in COMMUNICATION_DOMAINS and prefix != annotation else "user"


def classified(activities: pl.DataFrame) -> pl.DataFrame:
    """Fill `family`, and turn the kernels of the family communication into collectives.

    A device's copies, sets and collectives go by their kind: a collective is one by its record
    first, whatever its name. Its other rows go by kernel name, host execution by operator name.
    """
    kind, host = activities["kind"].cast(pl.String), activities["source"] == "host"
    # a trace is host execution or none of it is
    by_name = families(activities["name"], "operator" if host.any() else "kernel")
    family = (
        pl.when(kind == "collective")
        .then(pl.lit(COMMUNICATION, schema.NAME))
        .when(kind.is_in(schema.COPY_KINDS) & ~host)
        .then(kind.cast(schema.NAME))
        .otherwise(by_name)
    )
    named = (kind == "kernel") & (by_name == COMMUNICATION)
    return activities.with_columns(
        family=family, kind=pl.when(named).then(pl.lit("collective")).otherwise(kind)
    )


def _remembered(names: pl.Series, of: Kind) -> pl.Series:
    """Classify distinct names; few names are remembered, since most traces share theirs.

    Compiling the expressions costs more than a thousand names do.
    """
    default = OTHER if of == "kernel" else None
    if len(names) > MOST_REMEMBERED // 4:
        return _classify(names, table().rules[of], default)
    memory = _MEMORY[of]
    new = names.filter(pl.Series([n not in memory for n in names], dtype=pl.Boolean))
    if len(new):
        if len(memory) + len(new) > MOST_REMEMBERED:
            memory.clear()
        memory.update(zip(new, _classify(new, table().rules[of], default), strict=True))
    return pl.Series([memory.get(n, default) for n in names], dtype=pl.String)


def _classify(names: pl.Series, rules: tuple[Rule, ...], default: str | None) -> pl.Series:
    """Try the rules in order, each on the names that none before it matched."""
    left = pl.DataFrame({"name": names.str.head(LONGEST)}).with_row_index("row")
    found = []
    for rule in rules:
        if not left.height:
            break
        hit = left["name"].str.contains(rule.expression)
        found.append(left.filter(hit).select("row", family=pl.lit(rule.family)))
        left = left.filter(~hit)
    found.append(left.select("row", family=pl.lit(default, pl.String)))
    return pl.concat(found).sort("row")["family"]


@cache
def _read(path: Path) -> Table:
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8"))
        meanings = dict(held["families"])
        rules = {of: _rules(held[of], meanings) for of in ("kernel", "operator")}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"The table of families {path.name} cannot be used ({error}); "
            "restore it from the project."
        ) from error
    return Table(meanings, rules)


def _rules(entries: list[dict[str, object]], meanings: dict[str, str]) -> tuple[Rule, ...]:
    """Join neighbouring entries of one family into one expression: fewer passes over the names."""
    joined = []
    for family_name, group in groupby(entries, key=lambda entry: str(entry["family"])):
        meanings[family_name]  # raises KeyError for a family without a meaning
        patterns = [p for entry in group for p in entry["patterns"]]  # type: ignore[attr-defined]
        joined.append(Rule(family_name, "|".join(f"(?:{p})" for p in patterns)))
    return tuple(joined)
