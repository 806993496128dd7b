"""The registry of workloads: names, presets and specs, without importing torch."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError, unknown_name
from workbench.workloads import (
    bert_large,
    deepseekv3_671b,
    dlrm_dcnv2,
    fields,
    flux1,
    gpt,
    gpt3_175b,
    gpt_oss_20b,
    installed,
    llama2_70b_lora,
    llama31_8b,
    llama31_405b,
    options,
    resnet50,
    retinanet,
    rgat,
    unet3d,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from workbench.workloads.fields import FieldInfo, Value


@dataclass(frozen=True)
class Workload:
    """One model family that can be recorded."""

    name: str
    summary: str
    presets: Mapping[str, Any]
    """Preset name to a frozen spec."""
    preset_help: Mapping[str, str]
    module: str
    """Module with the torch model (`training.Family`), the only part that imports torch."""
    parameters: Callable[[Any], int]
    """Parameters of the model of a spec, counted by hand from its configuration."""
    flops: Callable[[Any], int]
    """Matrix FLOPs of one training step on a rank, by the convention of `counting`."""
    distinctive: tuple[str, ...] = ()
    """What makes the family; `tiny` keeps all of it."""
    included: str = ""
    """What `parameters` counts, and what it leaves out."""
    source: str = ""
    """Where the shape of `full` is published, with a date."""

    def preset(self, name: str) -> Any:
        """Return the spec of a preset; an unknown name raises with the nearest."""
        if name not in self.presets:
            raise unknown_name(f"preset of {self.name}", name, self.presets)
        return self.presets[name]

    def resolve(self, preset: str, overrides: Mapping[str, Value] | None = None) -> Any:
        """Return the spec of a preset with overrides; texts are parsed by the field's type."""
        return fields.resolve(self.preset(preset), overrides or {})

    def describe(self, preset: str = "tiny") -> tuple[FieldInfo, ...]:
        """Describe the fields, with the preset's values as defaults."""
        return fields.describe(self.preset(preset))

    def spec(self, values: Mapping[str, Value]) -> Any:
        """Build a spec from all its values, as a run folder stores them."""
        return type(next(iter(self.presets.values())))(**options.current(values))


def _workload(name: str, spec: ModuleType, model: str) -> Workload:
    """Register what a spec module says of its family, with the module of its torch model."""
    return Workload(
        name=name,
        summary=spec.SUMMARY,
        presets=spec.PRESETS,
        preset_help=spec.PRESET_HELP,
        module=f"workbench.workloads.{model}",
        parameters=spec.parameters,
        flops=spec.flops,
        distinctive=spec.DISTINCTIVE,
        included=spec.INCLUDED,
        source=spec.SOURCE,
    )


_WORKLOADS = {
    workload.name: workload
    for workload in (
        _workload("gpt", gpt, "gpt_model"),
        _workload("llama31_8b", llama31_8b, "gpt_model"),
        _workload("llama31_405b", llama31_405b, "gpt_model"),
        _workload("gpt3_175b", gpt3_175b, "gpt_model"),
        _workload("llama2_70b_lora", llama2_70b_lora, "llama2_70b_lora_model"),
        _workload("deepseekv3_671b", deepseekv3_671b, "deepseekv3_671b_model"),
        _workload("gpt_oss_20b", gpt_oss_20b, "gpt_oss_20b_model"),
        _workload("flux1", flux1, "flux1_model"),
        _workload("dlrm_dcnv2", dlrm_dcnv2, "dlrm_dcnv2_model"),
        _workload("retinanet", retinanet, "retinanet_model"),
        _workload("rgat", rgat, "rgat_model"),
        _workload("bert_large", bert_large, "bert_large_model"),
        _workload("resnet50", resnet50, "resnet50_model"),
        _workload("unet3d", unet3d, "unet3d_model"),
    )
}


def names() -> tuple[str, ...]:
    """Return the names of all workloads: our own, then those of other packages."""
    return (*_WORKLOADS, *_installed()[0])


def get(name: str) -> Workload:
    """Return a workload by name; an unknown name raises with the nearest, a broken one says why."""
    if name in _WORKLOADS:
        return _WORKLOADS[name]
    others, broken = _installed()
    if name in broken:
        raise UsageError(broken[name])
    if name not in others:
        raise unknown_name("workload", name, names())
    return others[name]


def faults() -> tuple[str, ...]:
    """Return a sentence for each workload of another package that can't be used."""
    return tuple(_installed()[1].values())


@functools.cache
def _installed() -> tuple[dict[str, Workload], dict[str, str]]:
    return installed.load(Workload, _WORKLOADS)
