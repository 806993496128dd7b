"""The records of rocprofv3's JSON.

Field names are those of rocprofiler-sdk's serialisation (source/lib/output/generateJSON.cpp and
include/rocprofiler-sdk/cxx/serialization).
"""

from __future__ import annotations

import msgspec

from workbench.errors import InputError
from workbench.trace.jsontext import NOTHING, UNREADABLE, Raw

TOOL = "rocprofiler-sdk-tool"


class Handle(msgspec.Struct, gc=False):
    """An opaque id: of an agent, a queue, a stream."""

    handle: int = 0


class Dim3(msgspec.Struct, gc=False):
    """Work-items in x, y, z."""

    x: int = 0
    y: int = 0
    z: int = 0


class Correlation(msgspec.Struct, gc=False):
    """`internal` is shared by a call and the work that it caused."""

    internal: int = 0


class Timed(msgspec.Struct, gc=False):
    """What every record has."""

    start_timestamp: int
    end_timestamp: int
    thread_id: int = 0
    kind: int = -1
    operation: int = -1
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class DispatchInfo(msgspec.Struct, gc=False):
    """Where a kernel ran and how large it was."""

    agent_id: Handle
    kernel_id: int
    queue_id: Handle = msgspec.field(default_factory=Handle)
    group_segment_size: int = 0
    workgroup_size: Dim3 = msgspec.field(default_factory=Dim3)
    grid_size: Dim3 = msgspec.field(default_factory=Dim3)


class Dispatch(Timed, kw_only=True, gc=False):
    """A kernel that ran."""

    dispatch_info: DispatchInfo
    stream_id: Handle = msgspec.field(default_factory=Handle)


class Copy(Timed, kw_only=True, gc=False):
    """A copy between host and device or devices."""

    dst_agent_id: Handle = msgspec.field(default_factory=Handle)
    src_agent_id: Handle = msgspec.field(default_factory=Handle)
    stream_id: Handle = msgspec.field(default_factory=Handle)
    bytes: int | None = None


class Agent(msgspec.Struct, gc=False):
    """A processor; type 2 is a GPU."""

    id: Handle
    type: int = 0
    logical_node_type_id: int = -1
    product_name: str = ""
    name: str = ""


class Symbol(msgspec.Struct, gc=False):
    """A kernel of a code object."""

    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    arch_vgpr_count: int = 0
    accum_vgpr_count: int = 0


class Kind(msgspec.Struct, gc=False):
    """A kind of record and the names of its operations, both by number."""

    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct, gc=False):
    """The text of a marker, by its correlation id."""

    key: int
    value: str


class Strings(msgspec.Struct, gc=False):
    """Names by number."""

    buffer_records: Raw = NOTHING
    marker_api: Raw = NOTHING


class Metadata(msgspec.Struct, gc=False):
    """Of the process."""

    pid: int | None = None
    init_time: int | None = None
    fini_time: int | None = None


class Process(msgspec.Struct, gc=False):
    """What one process recorded."""

    metadata: Raw = NOTHING
    agents: Raw = NOTHING
    strings: Raw = NOTHING
    kernel_symbols: Raw = NOTHING
    buffer_records: dict[str, Raw] = {}


def processes(data: bytes, name: str) -> list[Process]:
    """Decode the file down to its arrays of records, which stay text.

    Raises
    ------
    InputError
        The file is cut short or damaged, or isn't of this form.
    """
    try:
        whole = msgspec.json.decode(data, type=dict[str, list[Process]])
    except UNREADABLE as e:
        raise InputError(f"{name} is no whole rocprofv3 JSON file: {e}.") from None
    return whole.get(TOOL, [])
