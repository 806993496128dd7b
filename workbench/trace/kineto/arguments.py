"""The args of each category of event that we read, under the producers' names."""

from __future__ import annotations

import msgspec
from msgspec import field

from workbench.trace.kineto.events import NOTHING, Raw, Scalar


class CommunicationArgs(msgspec.Struct, gc=False):
    """What the profiler adds to a collective: on NCCL kernels and on record_param_comms."""

    comm_name: Scalar = field(name="Collective name", default=None)
    comm_in: Scalar = field(name="In msg nelems", default=None)
    comm_out: Scalar = field(name="Out msg nelems", default=None)
    comm_size: Scalar = field(name="Group size", default=None)
    comm_dtype: Scalar = field(name="dtype", default=None)
    comm_group: Scalar = field(name="Process Group Name", default=None)
    comm_members: Raw = field(name="Process Group Ranks", default=NOTHING)
    comm_seq: Scalar = field(name="Seq", default=None)


class ActivityArgs(CommunicationArgs, gc=False):
    """A kernel, copy or set."""

    device: Scalar = None
    stream: Scalar = None
    correlation: Scalar = None
    registers: Scalar = field(name="registers per thread", default=None)
    shared: Scalar = field(name="shared memory", default=None)
    occupancy: Scalar = field(name="est. achieved occupancy %", default=None)
    graph_node: Scalar = field(name="graph node id", default=None)
    grid: list[int | float] | None = None
    block: list[int | float] | None = None
    bytes: Scalar = None


class LaunchArgs(msgspec.Struct, gc=False):
    """A runtime or driver call."""

    correlation: Scalar = None
    external: Scalar = field(name="External id", default=None)
    external_old: Scalar = field(name="external id", default=None)


class OperatorArgs(CommunicationArgs, gc=False):
    """A framework operator or annotation."""

    external: Scalar = field(name="External id", default=None)
    sequence: Scalar = field(name="Sequence number", default=None)
    forward_thread: Scalar = field(name="Fwd thread id", default=None)
    dims: Raw = field(name="Input Dims", default=NOTHING)
    types: Raw = field(name="Input type", default=NOTHING)
    strides: Raw = field(name="Input Strides", default=NOTHING)
    concrete: Raw = field(name="Concrete Inputs", default=NOTHING)
    kernel_backend: Scalar = None
    kernel_file: Scalar = None
    kernel_hash: Scalar = None


class MemoryArgs(msgspec.Struct, gc=False):
    """An allocation or free."""

    device_type: Scalar = field(name="Device Type", default=None)
    device: Scalar = field(name="Device Id", default=None)
    address: Scalar = field(name="Addr", default=None)
    bytes: Scalar = field(name="Bytes", default=None)
    allocated: Scalar = field(name="Total Allocated", default=None)
    reserved: Scalar = field(name="Total Reserved", default=None)


class FrameArgs(msgspec.Struct, gc=False):
    """A Python call."""

    id: Scalar = field(name="Python id", default=None)
    parent: Scalar = field(name="Python parent id", default=None)
    module: Scalar = field(name="Python module id", default=None)


class NameArgs(msgspec.Struct, gc=False):
    """A metadata event's name."""

    name: Scalar = None
