"""How the parts of a step and the causes of idle time are named and coloured, in every picture."""

from __future__ import annotations

from workbench.views.theme import Theme, blend

PARTS = {
    "compute": ("compute", "compute", 1.0),
    "exposed_communication": ("exposed communication", "communication", 1.0),
    "exposed_copy": ("exposed copy", "copy", 1.0),
}
"""Label, class of `views.theme`, and how much of its colour is left on the page."""
CAUSES = {
    "host_sync": ("host: waiting for the device", "host", 1.0),
    "host_data_loading": ("host: loading data", "step", 1.0),
    "host_garbage_collection": ("host: collecting garbage", "host", 0.8),
    "host_operator": ("host: in an operator", "host", 0.65),
    "host_python": ("host: in Python", "host", 0.5),
    "host_unknown": ("host: unknown", "host", 0.35),
    "host": ("host", "host", 0.65),
    "launch_call": ("launch call", "range", 1.0),
    "launch_latency": ("launch latency", "range", 0.6),
    "dependency": ("waiting for other work", "communication", 0.45),
    "graph": ("between kernels of a graph", "compute", 0.35),
    "edge": ("edge of the window", "idle", 0.5),
    "unknown": ("unknown", "idle", 1.0),
}
"""The same of each cause of idle time, in the order in which they are painted."""
WHOLE = {
    "idle": ("idle", "idle", 0.75),
    "above_roof": ("compute above its roof", "compute", 0.5),
}
"""What is named besides: all idle time together, and what lies within compute."""
EVERY = PARTS | CAUSES | WHOLE


def label(name: str | None) -> str:
    """Return what a part or a cause is called; an unknown name stands for itself."""
    return EVERY[name][0] if name in EVERY else str(name)


def colours(look: Theme) -> dict[str, str]:
    """Return the colour of each part and cause by its label."""
    return {
        text: blend(look.of(meaning), look.background, rest)
        for text, meaning, rest in EVERY.values()
    }
