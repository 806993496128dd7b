"""Workloads that other packages bring, by an entry point of the group `workbench.workloads`.

    [project.entry-points."workbench.workloads"]
    my_model = "my_package.spec:WORKLOAD"

`WORKLOAD` is a `workbench.workloads.Workload` of that name; its specs extend `options.Options`, and
its `module` holds the torch model. A recording needs the package in the training environment too.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError
from workbench.workloads.options import Options

if TYPE_CHECKING:
    from collections.abc import Collection

GROUP = "workbench.workloads"


def load(kind: type, taken: Collection[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the workloads that can be used, and for each other one the sentence why not.

    `kind` is their class, `taken` are names that are given away.
    """
    found: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        try:
            if point.name in taken or point.name in found:
                raise UsageError(f"there is a workload named {point.name} already")  # noqa: TRY301
            workload = point.load()
            _check(workload, point.name, kind)
        except Exception as error:  # noqa: BLE001 - another package's code may raise anything
            faults[point.name] = _sentence(point, error)
        else:
            found[point.name] = workload
    return found, faults


def _check(workload: Any, name: str, kind: type) -> None:
    """Ask it everything that a form and a list ask, so that these can't fail."""
    if not isinstance(workload, kind):
        raise UsageError(f"it is a {type(workload).__name__}, and not a Workload")
    whole: Any = workload
    if whole.name != name:
        raise UsageError(f"it calls itself {whole.name!r}")
    if not whole.presets:
        raise UsageError("it has no presets")
    for preset, spec in whole.presets.items():
        if not isinstance(spec, Options):
            raise UsageError(f"its preset {preset} does not extend options.Options")
        whole.describe(preset)
        for count in (whole.parameters(spec), whole.flops(spec)):
            if not isinstance(count, int):
                raise UsageError(f"its parameters or FLOPs of {preset} are no whole number")


def _sentence(point: metadata.EntryPoint, error: Exception) -> str:
    reason = " ".join(str(error).split()) or "no reason given"
    kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
    package = point.dist.name if point.dist else "an unknown package"
    return (
        f"The workload {point.name} of {package} ({point.value}) can't be used: {kind}{reason}; "
        "repair that package, or uninstall it."
    )
