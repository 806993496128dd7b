"""What a name says about an event: communication kernels, launch calls, annotation domains.

Only what the first analyses need; the reviewed table of kernel families grows here.
"""

from __future__ import annotations

import re

STEP = re.compile(r"ProfilerStep#(\d+)")
_COLLECTIVE = re.compile(r"nccl|rccl|hccl|oneccl", re.IGNORECASE)
"""Libraries of collectives that put their name into their kernels' names."""
_DOMAINS = ("gloo", "nccl", "mpi", "ucc", "xccl")
_LAUNCH_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("graph_launch", re.compile(r"GraphLaunch")),
    (
        "launch",
        re.compile(r"Launch(Cooperative|Device)?Kernel|LaunchCooperative"),
    ),
    ("sync", re.compile(r"Synchronize")),
    ("copy", re.compile(r"^(cuda|cu|hip)?Memcpy", re.IGNORECASE)),
    ("set", re.compile(r"^(cuda|cu|hip)?Memset", re.IGNORECASE)),
    ("malloc", re.compile(r"Malloc|Free|MemAlloc|MemCreate|MemMap|MemUnmap|MemRelease|HostAlloc")),
)
"""In order; by the names of the CUDA runtime and driver API and of HIP, which mirrors it."""


def is_collective(kernel: str) -> bool:
    """Say whether a kernel's name belongs to a library of collectives."""
    return bool(_COLLECTIVE.search(kernel))


def launch_kind(call: str) -> str:
    """Classify a runtime or driver call by its name."""
    return next((kind for kind, rule in _LAUNCH_RULES if rule.search(call)), "other")


def range_domain(annotation: str) -> str:
    """Name the domain of a host annotation: step, a communication library, or user."""
    if STEP.fullmatch(annotation):
        return "step"
    prefix = annotation.partition(":")[0]
    return prefix if prefix in _DOMAINS and prefix != annotation else "user"
