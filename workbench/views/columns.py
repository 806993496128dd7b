"""What the tables of the explorer show of each analysis: columns, headings, units, meanings."""

from __future__ import annotations

from workbench.views.tables import Column

_PLACE = Column("place", "where", "place", "rank and device")
_NOTED = Column("noted", "note", hint="what people noted on this name", spare=True)


def noted(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of a table of names, with what people noted on each beside it."""
    return columns[0], _NOTED, *columns[1:]


KERNELS = (
    Column("name", "kernel", hint="name as recorded; under host execution an operator's"),
    Column("kind", "kind"),
    _PLACE,
    Column("share", "share of all", "share", "of the sum of all rows of the same device"),
    Column("total_ns", "total", "time", "durations inside the window, summed"),
    Column("count", "count", "count", "how many start in the window"),
    Column("mean_ns", "mean", "time", "of those that start in the window, whole"),
    Column("median_ns", "median", "time", "of those that start in the window, whole"),
    Column("min_ns", "shortest", "time", "of those that start in the window, whole"),
    Column("max_ns", "longest", "time", "of those that start in the window, whole"),
)
OPS = (
    Column("name", "operator"),
    Column("rank", "rank", "count"),
    Column("device_share", "share of device time", "share", "of the sum of self device times"),
    Column("self_device_ns", "self device", "time", "device time of what it launched itself"),
    Column("total_device_ns", "total device", "time", "with what the operators it calls launched"),
    Column("calls", "calls", "count"),
    Column("self_host_ns", "self host", "time", "host time without operators and calls inside it"),
    Column("total_host_ns", "total host", "time", "host time from begin to end"),
)
STEPS = (
    Column("step", "step", "count", "number as recorded"),
    _PLACE,
    Column("dur_ns", "step time", "time", "from its first work on the device to the next step's"),
    Column("compute_ns", "compute", "time", "compute kernels, their union"),
    Column(
        "exposed_communication_ns",
        "exposed communication",
        "time",
        "communication while nothing computes",
    ),
    Column("exposed_copy_ns", "exposed copy", "time", "copies while nothing else runs"),
    Column("idle_ns", "idle", "time", "nothing runs on the device"),
    Column("host_dur_ns", "host range", "time", "the step as the host thread went through it"),
    Column("complete", "complete", "flag", "recorded from begin to end; only these count"),
    Column("tail", "last", "flag", "ends with its latest work; not in step-time statistics"),
)
COLLECTIVES = (
    Column("name", "collective", hint="what ran"),
    _PLACE,
    Column("step", "step", "count"),
    Column("group_size", "ranks", "count", "ranks in the process group"),
    Column("bytes", "size", "bytes", "message size as nccl-tests counts it"),
    Column("dur_ns", "time", "time"),
    Column("exposed_ns", "exposed", "time", "while nothing computes"),
    Column("wait_ns", "wait", "time", "for the last rank to start; unknown without all ranks"),
    Column("bus_bytes_per_s", "bus bandwidth", "rate", "as nccl-tests counts it"),
)
_GROUPED = (
    Column("operator", "operator", spare=True),
    Column("group", "group", hint="without a name: what belongs to no group", spare=True),
    Column("kind", "kind of work", hint="of a group: of what took most of its time"),
    Column("shapes", "shapes", "long", spare=True),
)
ROOFLINE = (
    *_GROUPED,
    _PLACE,
    Column("share_of_device_time", "share of device time", "share"),
    Column("time_ns", "time", "time"),
    Column("calls", "calls", "count"),
    Column("ratio_to_roof", "of its roof", "share", "time its roofs allow / time it took"),
    Column("bound", "bound by", spare=True),
    Column("reason", "why unknown", "long", "why there is no ratio to the roof"),
)
RECOVERABLE = (
    *_GROUPED,
    _PLACE,
    Column("recoverable_ns", "above its roof", "time", "time it took - time its roofs allow"),
    Column("recoverable_share", "share of device time", "share", "of the device's busy time"),
    Column("time_ns", "time", "time"),
    Column("calls", "calls", "count"),
    Column("ratio_to_roof", "of its roof", "share", "time its roofs allow / time it took"),
    Column("bound", "bound by", spare=True),
    Column("reason", "why unknown", "long", "why there is no ratio to the roof", spare=True),
)
CAUSES = (
    Column("cause", "cause", "cause", "what the device waited for"),
    _PLACE,
    Column("share", "share of idle time", "share", "of the same device"),
    Column("time_ns", "idle", "time", "adds up to the idle time of the window"),
    Column("gaps", "gaps", "count", "that hold some of it; a gap may have several causes"),
    Column("longest_ns", "longest", "time", "the most of it in one gap"),
    Column("reason", "what is missing", "long", "why causes can't be told apart", spare=True),
)
GAPS = (
    Column("cause", "cause", "cause", "the one that fills most of the gap"),
    _PLACE,
    Column("step", "step", "count", "that launched what ended the gap", spare=True),
    Column("dur_ns", "idle", "time"),
    Column("host_ns", "host", "time", "the host had not called yet"),
    Column("launch_call_ns", "call", "time", "while the host was in the call that launched"),
    Column("device_ns", "device", "time", "launched and not begun, or the call is not known"),
    Column("blocked_by", "host was in", "long", "what filled most of its part", spare=True),
    Column("ended_by", "ended by", "long", "the activity that ran next"),
    Column("call", "launched by", hint="the call that launched what ended the gap", spare=True),
)
LAUNCHES = (
    Column("name", "call", hint="without a name: work whose call is not recorded"),
    Column("kind", "kind"),
    _PLACE,
    Column("calls", "calls", "count"),
    Column("activities", "work", "count", "activities that they launched; a graph launches many"),
    Column("call_total_ns", "calls, total", "time", "host time inside the calls"),
    Column("call_median_ns", "call, median", "time"),
    Column("queue_median_ns", "queue, median", "time", "from the call's end to the work's start"),
    Column("queue_p95_ns", "queue, p95", "time", "from the call's end to the work's start"),
    Column("execution_median_ns", "runs, median", "time", "of each activity"),
    Column("execution_total_ns", "runs, total", "time", "added up over activities"),
    Column("short", "short", "count", "calls that took longer than their work ran"),
    Column("inverted", "too early", "count", "work that starts before its call, by the clocks"),
)
MODULES = (
    Column("path", "module", hint="from the outermost; the last row is time of no module"),
    Column("rank", "rank", "count", spare=True),
    Column("device_share", "share of busy time", "share"),
    Column("total_device_ns", "device", "time", "with all modules inside it"),
    Column("self_device_ns", "itself", "time", "without the modules inside it"),
    Column("forward_device_ns", "forward", "time", "of the device time"),
    Column("backward_device_ns", "backward", "time", "of the device time"),
    Column("recompute_device_ns", "recomputed", "time", "forward again, by checkpointing"),
    Column("calls", "calls", "count", spare=True),
    Column("total_host_ns", "host", "time", "with all modules inside it", spare=True),
)
PHASES = (
    Column("phase", "phase", hint="of the host position that launched the work"),
    _PLACE,
    Column(
        "busy_share", "share of busy time", "share", "phases overlap, so more than 100 % in all"
    ),
    Column("busy_ns", "busy", "time", "the union of what it launched"),
    Column("count", "activities", "count", "that start in the window"),
    Column("idle_share", "share of idle time", "share", "of gaps that work of the phase ends"),
    Column("idle_ns", "idle before it", "time", "gaps that work of the phase ends"),
    Column("host_ns", "host", "time", "of the whole rank, inside operators", spare=True),
)
PEAK = (
    Column("name", "held by"),
    Column("by", "grouped by", hint="the bytes of each grouping add up to the peak"),
    _PLACE,
    Column("share", "share of the peak", "share", spare=True),
    Column("bytes", "at the peak", "bytes"),
    Column("blocks", "blocks", "count", spare=True),
    Column("reason", "why it has no name", "long", spare=True),
)
GROUPS = (
    Column("group", "process group"),
    Column("dimension", "parallelism", spare=True),
    _PLACE,
    Column("group_size", "ranks", "count", spare=True),
    Column("collectives", "collectives", "count"),
    Column("bytes", "moved", "bytes", "known message sizes, added up", spare=True),
    Column("communication_ns", "communication", "time", "the union of the group's collectives"),
    Column("overlap_share", "overlapped", "share", "of it, beside compute"),
    Column("exposed_ns", "exposed", "time", "nothing computes; groups may be so at one time"),
    Column("alone_ns", "alone", "time", "nor does another group communicate; may be added up"),
)
PROBLEMS = (
    Column("code", "problem", "word", hint="each with its meaning in docs/reading.md"),
    Column("rank", "rank", "count", spare=True),
    Column("count", "times", "count"),
    Column("first_example", "first", "sentence", "where it was met first"),
    Column("effect", "what it means for the figures", "sentence"),
)
TRUST = (
    Column("aspect", "what", "word"),
    Column(
        "state",
        "recorded",
        "word",
        hint="partly: on some ranks, or not all of it",
    ),
    Column("detail", "in detail", "sentence"),
    Column("advice", "what to do, or to know", "sentence", spare=True),
    Column("concerns", "who needs it", "sentence", "analyses that cannot do without", spare=True),
)
NOTES = (
    Column("name", "note"),
    Column("text", "what it says", "sentence"),
    Column("kind", "on", "word", "a span or point of time, an event, all kernels or operators"),
    Column("target", "about", "long"),
    Column("start_ns", "at", "time", "in the recording's time"),
    Column("author", "by", "word"),
    Column("changed", "changed (UTC)", "word"),
    Column("reason", "where it is", "word", "where it isn't found", spare=True),
    Column("conflict", "two sides", "sentence", "also changed by another, unseen", spare=True),
)
LEADS = (
    Column("lead", "what", "cause", hint="parts of the mean step, and compute above its roof"),
    Column("share", "share of the step", "share", "of the mean step; compute above its roof too"),
    Column("time_ns", "a step", "time", "mean over steps and devices: what could be won at most"),
    Column("name", "longest: what", "long", "the activity or operator; of a gap what the host did"),
    Column("dur_ns", "longest", "time"),
    Column("step", "step", "count", "of the longest", spare=True),
    Column("rank", "rank", "count", "of the longest", spare=True),
)
EXPOSED = (
    Column("collective", "collective", hint="what fills most of the stretch"),
    _PLACE,
    Column("step", "step", "count"),
    Column("dur_ns", "exposed", "time", "nothing computes meanwhile"),
    Column("dimension", "parallelism", spare=True),
    Column("group", "process group", spare=True),
    Column("bytes", "size", "bytes", "message size as nccl-tests counts it", spare=True),
)
MFU = (
    Column("rank", "rank", "count", "without a number: all together", spare=True),
    Column("devices", "devices", "count"),
    Column("mfu", "MFU", "share", "model FLOPs of a step / (step time x dense peak)"),
    Column("hfu", "HFU", "share", "the same with recomputation"),
    Column("mfu_by_config", "MFU by configuration", "share", spare=True),
    Column("step_ns", "step", "time", "median of complete steps but the last"),
    Column("coverage_pct", "% with a model", "count", "of the time with recorded shapes"),
    Column("precision", "precision", spare=True),
    Column("peak_source", "peak from", "long", spare=True),
    Column("tokens_per_s", "tokens a second", "count", spare=True),
    Column("reason", "what is not known", "sentence", spare=True),
)
ENERGY = (
    Column("part", "part of the step"),
    _PLACE,
    Column("share", "share of time", "share"),
    Column("time_ns", "time", "time", "mean of a step"),
    Column("joules_per_step", "J a step", "count", spare=True),
    Column("joules_per_token", "J a token", "count", spare=True),
    Column("flops_per_joule", "FLOP/J", "count", spare=True),
    Column("mean_power_w", "mean power in W", "count", spare=True),
    Column("reason", "why unknown", "sentence", spare=True),
)
COUNTERS = (
    Column("kernel", "kernel"),
    _PLACE,
    Column("launches", "launches", "count"),
    Column("time_ns", "time", "time"),
    Column("flops", "FLOPs", "count", "counted", spare=True),
    Column("precision", "precision", spare=True),
    Column("memory_bytes", "memory", "bytes", "read and written", spare=True),
    Column("achieved_bytes_per_s", "bandwidth", "rate", spare=True),
    Column("flops_ratio", "FLOPs, counted / model", "count", spare=True),
    Column("bytes_ratio", "bytes, counted / model", "count", spare=True),
    Column("difference", "where they differ", "sentence", spare=True),
    Column("reason", "what is not known", "sentence", spare=True),
)
COMPARED = (
    Column("name", "what", "cause"),
    _PLACE,
    Column("difference_ns", "change", "time", "after - before, in a mean step"),
    Column("share_of_change", "share of the change", "share", "of the step's", spare=True),
    Column("a_ns", "before", "time", "in a mean step"),
    Column("b_ns", "after", "time", "in a mean step"),
    Column("a_count", "times before", "count", "in a mean step"),
    Column("b_count", "times after", "count", "in a mean step"),
)
