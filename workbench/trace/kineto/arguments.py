"""The args of events that we read, under the producers' names, in one record for all categories.

One record and one pass: a decode by category would scan the text twice.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, field

Scalar = int | float | str | bool | None
NOTHING = Raw(b"")


class Args(msgspec.Struct, gc=False):
    """What an event's args may say; absent fields are None or empty."""

    # device activity
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
    # recorded waits
    wait_stream: Scalar = field(name="wait_on_stream", default=None)
    wait_record: Scalar = field(name="wait_on_cuda_event_record_corr_id", default=None)
    # calls and operators
    external: Scalar = field(name="External id", default=None)
    external_old: Scalar = field(name="external id", default=None)
    sequence: Scalar = field(name="Sequence number", default=None)
    forward_thread: Scalar = field(name="Fwd thread id", default=None)
    dims: Raw = field(name="Input Dims", default=NOTHING)
    dims_old: Raw = field(name="Input dims", default=NOTHING)
    types: Raw = field(name="Input type", default=NOTHING)
    strides: Raw = field(name="Input Strides", default=NOTHING)
    concrete: Raw = field(name="Concrete Inputs", default=NOTHING)
    kernel_backend: Scalar = None
    kernel_file: Scalar = None
    kernel_hash: Scalar = None
    # collectives: on NCCL kernels and on record_param_comms
    comm_name: Scalar = field(name="Collective name", default=None)
    comm_in: Scalar = field(name="In msg nelems", default=None)
    comm_out: Scalar = field(name="Out msg nelems", default=None)
    comm_size: Scalar = field(name="Group size", default=None)
    comm_dtype: Scalar = field(name="dtype", default=None)
    comm_group: Scalar = field(name="Process Group Name", default=None)
    comm_members: Raw = field(name="Process Group Ranks", default=NOTHING)
    comm_seq: Scalar = field(name="Seq", default=None)
    # allocations
    device_type: Scalar = field(name="Device Type", default=None)
    device_id: Scalar = field(name="Device Id", default=None)
    address: Scalar = field(name="Addr", default=None)
    size: Scalar = field(name="Bytes", default=None)
    allocated: Scalar = field(name="Total Allocated", default=None)
    reserved: Scalar = field(name="Total Reserved", default=None)
    # metadata, Ascend and MTIA
    name: Scalar = None
    connection: Scalar = field(name="connection_id", default=None)
    task_type: Scalar = field(name="Task Type", default=None)
    count: Scalar = None
    data_type: Scalar = None
    dma_size: Scalar = field(name="size", default=None)


class FrameArgs(msgspec.Struct, gc=False):
    """A Python call; read in a pass of its own, since frames are the bulk of many traces."""

    id: Scalar = field(name="Python id", default=None)
    parent: Scalar = field(name="Python parent id", default=None)
    module: Scalar = field(name="Python module id", default=None)
