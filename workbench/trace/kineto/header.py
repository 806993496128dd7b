"""The fields beside the events: devices, ranks, groups, versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from workbench.trace.core import Device, ProcessGroup
from workbench.trace.kineto import repair
from workbench.trace.kineto.arguments import NOTHING, Args
from workbench.trace.kineto.columns import as_int
from workbench.trace.kineto.events import UNREADABLE, Event
from workbench.trace.problems import Problem


class Header(msgspec.Struct):
    """The fields beside the events that we use, each decoded later and alone."""

    schemaVersion: Raw = NOTHING  # noqa: N815 - the producer's name
    deviceProperties: Raw = NOTHING  # noqa: N815
    distributedInfo: Raw = NOTHING  # noqa: N815
    baseTimeNanoseconds: Raw = NOTHING  # noqa: N815
    displayTimeUnit: Raw = NOTHING  # noqa: N815
    traceName: Raw = NOTHING  # noqa: N815
    trace_id: Raw = NOTHING
    record_shapes: Raw = NOTHING
    profile_memory: Raw = NOTHING
    with_stack: Raw = NOTHING
    with_flops: Raw = NOTHING
    with_modules: Raw = NOTHING
    cuda_runtime_version: Raw = NOTHING
    cuda_driver_version: Raw = NOTHING
    cupti_version: Raw = NOTHING
    hip_runtime_version: Raw = NOTHING
    hip_driver_version: Raw = NOTHING
    roctracer_version: Raw = NOTHING
    generated: Raw = NOTHING
    workbench: Raw = NOTHING


_PRODUCER_FIELDS = tuple(
    f
    for f in Header.__struct_fields__
    if f not in {"deviceProperties", "distributedInfo", "baseTimeNanoseconds", "workbench"}
)


def says_partial(header: Header, problems: list[Problem]) -> bool:
    """Say whether this is our own export of a recording that wasn't whole, and note it."""
    ours = lenient(header.workbench)
    if not isinstance(ours, dict) or ours.get("partial") is not True:
        return False
    problems.append(
        Problem(
            code="exported_partial",
            count=1,
            first_example=str(ours.get("exported_from"))[:200],
            effect="this was exported from a recording of which a part is missing; "
            "totals are partial",
        )
    )
    return True


class Carried(msgspec.Struct):
    """What our own copy of a recording says that reading the recording met."""

    truncated: bool = False
    device_kind: Literal["cuda", "rocm", "mtia", "npu", "xpu", "hpu", "cpu"] | None = None
    problems: list[Problem] = []


def carried(header: Header) -> Carried:
    """Return it; nothing for a file of others, and for one whose words are not of this form."""
    try:
        return msgspec.json.decode(header.workbench or b"{}", type=Carried)
    except UNREADABLE:
        return Carried()


class HeaderFields(NamedTuple):
    """What the header says, in our terms."""

    base_ns: int
    rank: int | None
    world_size: int | None
    devices: tuple[Device, ...]
    groups: tuple[ProcessGroup, ...]
    producer: dict[str, object]


def decode_header(whole: bytes, before: bytes, problems: list[Problem]) -> Header:
    """Decode the object around the events, or only what stands before them when the rest is broken.

    `before` is known to be an object, if only after mending.
    """
    for text in (whole, repair.mend(whole)[0]):
        try:
            return msgspec.json.decode(text, type=Header)
        except UNREADABLE:
            continue
    effect = "fields after the events can't be read; what they say is unknown"
    example = whole[len(before) - 1 :][:60].decode(errors="replace")
    problems.append(Problem(code="damaged_header", count=1, first_example=example, effect=effect))
    try:
        return msgspec.json.decode(repair.mend(before)[0], type=Header)
    except UNREADABLE:
        return Header()


def lenient(raw: Raw) -> object:
    """Decode one header field; a field that is absent or broken is None."""
    try:
        return msgspec.json.decode(raw) if bytes(raw) else None
    except UNREADABLE:
        return None


def header_fields(header: Header, problems: list[Problem]) -> HeaderFields:
    """Decode the header; fields that are broken read as absent and are noted."""
    info = lenient(header.distributedInfo)
    info = info if isinstance(info, dict) else {}
    base = as_int(_scalar(lenient(header.baseTimeNanoseconds)))
    if bytes(header.baseTimeNanoseconds) and base is None:
        problems.append(
            Problem(
                code="bad_base_time",
                count=1,
                first_example=bytes(header.baseTimeNanoseconds)[:40].decode(errors="replace"),
                effect="times are relative to an unknown moment; ranks can't be aligned",
            )
        )
    return HeaderFields(
        base_ns=base or 0,
        rank=_index(info.get("rank")),
        world_size=_index(info.get("world_size")),
        devices=_devices(lenient(header.deviceProperties)),
        groups=_groups(info.get("pg_config")),
        producer={
            name: value
            for name in _PRODUCER_FIELDS
            if (value := _scalar(lenient(getattr(header, name)))) is not None
        },
    )


def _scalar(value: object) -> int | float | str | bool | None:
    return value if isinstance(value, int | float | str) else None


def _index(value: object) -> int | None:
    number = as_int(_scalar(value))
    return number if number is not None and 0 <= number < 2**31 else None


def _devices(properties: object) -> tuple[Device, ...]:
    items = properties if isinstance(properties, list) else []
    return tuple(
        Device(index=index, name=str(d["name"]) if d.get("name") else None, properties=d)
        for d in items
        if isinstance(d, dict) and (index := _index(d.get("id"))) is not None
    )


def _groups(config: object) -> tuple[ProcessGroup, ...]:
    items = config if isinstance(config, list) else []
    return tuple(
        ProcessGroup(
            name=str(g.get("pg_name")),
            description=str(g["pg_desc"]) if g.get("pg_desc") else None,
            ranks=tuple(r for r in map(_index, g.get("ranks") or ()) if r is not None),
        )
        for g in items
        if isinstance(g, dict) and isinstance(g.get("ranks"), list | None)
    )


def metadata_names(metadata: Sequence[Event[Args]], kind: str) -> dict[tuple[Any, Any], str]:
    """Read the names that metadata events give: kind is process_name or thread_name."""
    return {
        (e.pid, e.tid): str(e.args.name)
        for e in metadata
        if e.name == kind and e.args is not None and e.args.name
    }


def device_kind(
    categories: set[str | None], devices: Sequence[Device], launches: pl.DataFrame
) -> str:
    """Name the sort of accelerator: cuda, rocm, mtia, npu, xpu."""
    if any(str(c).startswith("mtia") for c in categories):
        return "mtia"
    if any(str(c).startswith("xpu") for c in categories):
        return "xpu"
    if categories & {"async_npu", "HostToDevice"}:
        return "npu"
    calls = launches["name"].unique().cast(pl.String)
    amd = any("AMD" in (d.name or "") or "Instinct" in (d.name or "") for d in devices)
    return "rocm" if amd or bool(calls.str.starts_with("hip").any()) else "cuda"
