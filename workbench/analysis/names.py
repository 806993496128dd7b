"""The analyses by name, with the module that answers each."""

from __future__ import annotations

ANALYSES = {
    "summary": "workbench.analysis.summary",
    "trust": "workbench.analysis.trust",
    "breakdown": "workbench.analysis.breakdown",
    "steps": "workbench.analysis.steps",
    "step_times": "workbench.analysis.step_times",
    "kernels": "workbench.analysis.kernels",
    "ops": "workbench.analysis.ops",
    "overlap": "workbench.analysis.overlap",
    "exposed": "workbench.analysis.overlap",
    "groups": "workbench.analysis.groups",
    "collectives": "workbench.analysis.collectives",
    "launches": "workbench.analysis.launches",
    "delays": "workbench.analysis.launches",
    "queue": "workbench.analysis.queue",
    "queue_depth": "workbench.analysis.queue",
    "syncs": "workbench.analysis.syncs",
    "sync_calls": "workbench.analysis.syncs",
    "copies": "workbench.analysis.copies",
    "memory": "workbench.analysis.memory",
    "memory_timeline": "workbench.analysis.memory_timeline",
    "memory_peak": "workbench.analysis.memory_peak",
    "allocator": "workbench.analysis.allocator",
    "allocator_causes": "workbench.analysis.allocator",
    "fragmentation": "workbench.analysis.fragmentation",
    "roofline": "workbench.analysis.roofline",
    "definitions": "workbench.analysis.definitions",
}
