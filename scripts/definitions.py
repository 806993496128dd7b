"""Write docs/definitions.md from the docstrings of the functions that compute the numbers."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "definitions.md"
HEAD = """# Definitions

What each number means, in the words of the function that computes it.
`scripts/definitions.py` makes this page from their docstrings; a test holds the two together.
"""
SUBJECTS = {
    "Times": ["workbench.trace.times", "workbench.trace.times:from_doubles"],
    "Host execution": ["workbench.trace.host:applies", "workbench.trace.host:activities"],
    "Nesting and self time": ["workbench.trace.nesting"],
    "Kernels, launches and operators": [
        "workbench.trace.linkage",
        "workbench.trace.linkage:link",
        "workbench.trace.linkage:by_external_id",
        "workbench.trace.oddities:oddities",
    ],
    "Backward, forward and modules": [
        "workbench.trace.partners",
        "workbench.trace.partners:forward",
        "workbench.trace.partners:modules",
    ],
    "Steps": [
        "workbench.trace.steps:host_steps",
        "workbench.trace.steps:device_steps",
        "workbench.trace.steps:with_complete",
        "workbench.analysis.steps:steps",
        "workbench.analysis.step_times:step_times",
        "workbench.analysis.steadiness:outliers",
        "workbench.analysis.steadiness:trend",
    ],
    "Phases": ["workbench.trace.phases:classifier"],
    "Families": [
        "workbench.trace.families:families",
        "workbench.trace.families:classified",
    ],
    "Execution graphs": [
        "workbench.trace.graphs.assembly:build",
        "workbench.trace.graphs.torch:data_dependencies",
    ],
    "Memory": [
        "workbench.trace.memory.snapshot",
        "workbench.trace.memory.snapshot:read",
        "workbench.trace.memory.timeline",
        "workbench.trace.memory.timeline:read",
        "workbench.analysis.pools",
        "workbench.analysis.pools:pools",
        "workbench.analysis.pools:blocks",
        "workbench.analysis.memory:memory",
        "workbench.analysis.memory_timeline:memory_timeline",
        "workbench.analysis.memory_peak:memory_peak",
        "workbench.analysis.allocator:allocator",
        "workbench.analysis.allocator:allocator_causes",
        "workbench.analysis.fragmentation:fragmentation",
    ],
    "Other tools' traces": [
        "workbench.trace.rocprof.tables:kernels",
        "workbench.trace.xplane.tables",
        "workbench.trace.xplane.read:read",
    ],
    "Windows": ["workbench.analysis.window:select", "workbench.analysis.window:judged"],
    "Several files of one rank": [
        "workbench.trace.windows:of_one_run",
        "workbench.trace.windows:merge",
    ],
    "Summary and breakdown": [
        "workbench.analysis.summary:times",
        "workbench.analysis.summary:summary",
        "workbench.analysis.breakdown:breakdown",
        "workbench.analysis.waterfall:waterfall",
        "workbench.analysis.waterfall:waterfall_mean",
        "workbench.analysis.leads:leads",
    ],
    "Idle time": [
        "workbench.analysis.idle:idle",
        "workbench.analysis.idle:idle_causes",
        "workbench.analysis.hostwork:divided",
        "workbench.analysis.waits:of_streams",
        "workbench.analysis.data_wait:input_wait",
        "workbench.analysis.garbage:gc",
    ],
    "Kernels and operators": [
        "workbench.analysis.kernels:kernels",
        "workbench.analysis.kernels:multiprocessors",
        "workbench.analysis.dtypes:of_activities",
        "workbench.analysis.ops:ops",
        "workbench.analysis.op_tree:op_tree",
        "workbench.analysis.only:Only",
        "workbench.analysis.subtree",
    ],
    "Launches, queue, waits and copies": [
        "workbench.analysis.pairs:with_calls",
        "workbench.analysis.launches:launches",
        "workbench.analysis.launches:delays",
        "workbench.analysis.queue:queue_depth",
        "workbench.analysis.queue:queue",
        "workbench.analysis.syncs:sync_calls",
        "workbench.analysis.syncs:syncs",
        "workbench.analysis.copies:copies",
    ],
    "Structure of a step": [
        "workbench.analysis.modules:modules",
        "workbench.analysis.calltree:tree",
        "workbench.analysis.phases:phases",
        "workbench.analysis.frames:frames",
        "workbench.analysis.sequences:sequences",
        "workbench.analysis.ngrams:tiled",
        "workbench.analysis.regions:regions",
        "workbench.analysis.recompute:recompute",
    ],
    "Communication": [
        "workbench.trace.collectives:mark",
        "workbench.trace.collectives:collectives",
        "workbench.analysis.overlap:overlap",
        "workbench.analysis.overlap:exposed",
        "workbench.analysis.groups:groups",
        "workbench.analysis.parallel:dimension",
        "workbench.analysis.parallel:dimensions",
        "workbench.analysis.collectives:collectives",
        "workbench.trace.clocks:offsets",
        "workbench.trace.clocks:corrections",
    ],
    "Roofline": [
        "workbench.analysis.roofline",
        "workbench.analysis.roofline:roofline",
        "workbench.analysis.recoverable:recoverable",
        "workbench.analysis.coverage:coverage",
        "workbench.costs.cost",
        "workbench.costs.levels",
        "workbench.costs.evidence",
        "workbench.costs.related",
        "workbench.costs.matmul",
        "workbench.costs.scaled",
        "workbench.costs.attention",
        "workbench.costs.attention:score_pairs",
        "workbench.costs.convolution",
        "workbench.costs.recurrent",
        "workbench.costs.embedding",
        "workbench.costs.lookup",
        "workbench.costs.elementwise",
        "workbench.costs.activation",
        "workbench.costs.reduction",
        "workbench.costs.loss",
        "workbench.costs.norm",
        "workbench.costs.pooling",
        "workbench.costs.copies",
        "workbench.costs.indexing",
        "workbench.costs.drawing",
        "workbench.costs.optimizer",
        "workbench.costs.fourier",
        "workbench.costs.sparse",
        "workbench.costs.fused",
        "workbench.costs.views",
        "workbench.costs.devices",
        "workbench.costs.devices:match",
        "workbench.costs.hardware:given",
        "workbench.costs.roofs:from_ceilings",
        "workbench.costs.ceilings",
        "workbench.costs.timing",
        "workbench.costs.products",
        "workbench.costs.streams",
        "workbench.costs.sdpa",
    ],
    "Utilisation and energy": [
        "workbench.analysis.mfu",
        "workbench.analysis.mfu:mfu",
        "workbench.analysis.matrix_work:matrix_work",
        "workbench.costs.peaks",
        "workbench.costs.peaks:peak_of",
        "workbench.costs.transformer",
        "workbench.costs.transformer:forward",
        "workbench.costs.transformer:model_flops_per_token",
        "workbench.costs.transformer:hardware_flops_per_token",
        "workbench.costs.transformer:parameters",
        "workbench.costs.model_conventions",
        "workbench.costs.published",
        "workbench.analysis.energy",
        "workbench.analysis.energy:energy",
        "workbench.analysis.energy:integral",
    ],
    "Hardware counters": [
        "workbench.trace.counters.assembly",
        "workbench.trace.counters.ncu",
        "workbench.trace.counters.rocprof_compute",
        "workbench.costs.counted",
        "workbench.costs.counted:measured",
        "workbench.costs.counted:ceiling",
        "workbench.analysis.launch_match",
        "workbench.analysis.counters",
        "workbench.analysis.counters:counters",
        "workbench.analysis.counter_words:explained",
        "workbench.analysis.counter_roofline",
        "workbench.analysis.counter_roofline:counter_roofline",
    ],
    "What a recording can answer": [
        "workbench.analysis.needs",
        "workbench.analysis.trust:trust",
    ],
    "Other tools' rules": [
        "workbench.analysis.definitions:definitions",
        "workbench.analysis.rules.hta",
        "workbench.analysis.rules.tracelens",
        "workbench.analysis.rules.tensorboard",
        "workbench.analysis.rules.nsight",
    ],
    "Comparison": ["workbench.analysis.compare", "workbench.analysis.compare:compare"],
    "Overhead of profiling": [
        "workbench.capture.overhead",
        "workbench.capture.overhead:overhead",
        "workbench.capture.slowdown",
        "workbench.capture.slowdown:profiler_slowdown",
        "workbench.capture.quiet:unquiet",
        "workbench.capture.power:recorded",
        "workbench.capture.power:counted",
    ],
}


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for subject, places in SUBJECTS.items():
        parts.append(f"## {subject}\n")
        parts += [
            f"**`{place.partition(':')[2] or place}`**\n\n{_text(place)}\n" for place in places
        ]
    return "\n".join(parts)


def _text(place: str) -> str:
    module, _, name = place.partition(":")
    thing = importlib.import_module(module)
    text = inspect.getdoc(getattr(thing, name) if name else thing)
    if not text:
        raise SystemExit(f"{place} has no docstring.")
    return _as_markdown(text)


def _as_markdown(text: str) -> str:
    """Turn numpydoc section heads into bold lines; the rest is Markdown already."""
    lines = text.splitlines()
    out: list[str] = []
    for i, line in enumerate(lines):
        if set(line) == {"-"}:
            continue
        under = lines[i + 1] if i + 1 < len(lines) else ""
        out.append(f"*{line}*\n" if under and set(under) == {"-"} else line)
    return "\n".join(out)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.name)
