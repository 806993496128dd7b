"""From modules without memory to modules on this rank's device: filled, sharded, split, wrapped.

A model is made on the meta device, so that one too large for a rank can be filled and sharded block
by block. Weights come out the same whichever way the ranks share them.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel

from workbench.errors import UsageError
from workbench.workloads import numerics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from workbench.workloads.options import Options


_NAMES = signature(DistributedDataParallel).parameters
_SYNC_BUFFERS = next(n for n in ("forward_sync_buffers", "broadcast_buffers") if n in _NAMES)
"""The option's name: the old one warns since torch 2.13."""


def place(
    module: nn.Module,
    spec: Options,
    *,
    blocks: Iterable[nn.Module],
    plan: Mapping[str, Any],
    device: torch.device,
    world: int,
) -> nn.Module:
    """Fill a module that is on the meta device, and return it as one of `world` ranks holds it.

    `blocks` are sharded one by one; `plan` says how submodules are split, by name.
    """
    if world > 1 and spec.parallel == "fsdp":
        return _shard(module, spec, blocks=list(blocks), device=device, world=world)
    ties = _ties(module)
    fill(module, device, spec)
    if world > 1 and spec.parallel == "tensor":
        _split(module, plan, device=device, world=world)
    _tie(module, ties)
    if world == 1 or spec.parallel == "tensor":
        return module
    # Buffers are constant tables, or statistics that each rank keeps for itself.
    options: dict[str, Any] = {_SYNC_BUFFERS: False, "gradient_as_bucket_view": True}
    if device.type == "cuda":
        options["device_ids"] = [device.index]
    return DistributedDataParallel(module, **options)


def fill(module: nn.Module, device: torch.device, spec: Options) -> None:
    """Give every submodule memory and its first values, in the order in which they are named."""
    for part in module.modules():
        _fill_own(part, device, spec)


@contextmanager
def gradients(module: nn.Module, *, averaged: bool) -> Iterator[None]:
    """Around a forward and backward: average gradients over the ranks, or only add them up."""
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(averaged)
    if isinstance(module, DistributedDataParallel) and not averaged:
        with module.no_sync():
            yield
    else:
        yield


def _split(module: nn.Module, plan: Mapping[str, Any], *, device: torch.device, world: int) -> None:
    """Split submodules by their plan; torch 2.6 forgets there which parameters are frozen."""
    wanted = {name: tensor.requires_grad for name, tensor in module.named_parameters()}
    parallelize_module(module, init_device_mesh(device.type, (world,)), dict(plan))
    for name, tensor in module.named_parameters():
        tensor.requires_grad_(wanted[name])


def _shard(
    module: nn.Module, spec: Options, *, blocks: list[nn.Module], device: torch.device, world: int
) -> nn.Module:
    """Fill and shard block by block, then what is left (FSDP2)."""
    if device.type == "cpu" and not hasattr(torch.cpu.Stream, "record_event"):
        raise UsageError(
            "parallel=fsdp and device=cpu exclude each other in this torch, "
            f"{torch.__version__}; use a newer one, a GPU, or parallel=ddp."
        )
    dtype = numerics.AUTOCAST.get(spec.precision)
    shard = partial(
        fully_shard,
        mesh=init_device_mesh(device.type, (world,)),
        # Tables of positions must not be rounded; autocast casts what enters the products.
        mp_policy=MixedPrecisionPolicy(
            param_dtype=dtype,
            reduce_dtype=torch.float32 if dtype is not None else None,
            cast_forward_inputs=False,
        ),
    )
    ties = _ties(module)
    for part in list(module.modules()):
        if any(part is block for block in blocks):
            fill(part, device, spec)
            shard(part)
        else:
            _fill_own(part, device, spec)
    _tie(module, ties)
    shard(module)
    return module


def _fill_own(part: nn.Module, device: torch.device, spec: Options) -> None:
    """Fill what a module itself holds; its `reset_parameters` sets parameters and buffers."""
    own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
    if all(tensor.device == device for tensor in own):
        return
    reset = getattr(part, "reset_parameters", None)
    if reset is None:
        raise TypeError(f"{type(part).__name__} holds tensors and has no reset_parameters().")
    part.to_empty(device=device, recurse=False)
    reset()
    if getattr(spec, "channels_last", False):
        # Not before: random numbers come in the order of memory.
        for parameter in part.parameters(recurse=False):
            parameter.data = numerics.innermost_channels(parameter.data)
    dtype = numerics.WEIGHTS.get(spec.precision)
    # A module with buffers alone holds tables of positions and the like, which stay exact.
    if dtype is not None and any(True for _ in part.parameters(recurse=False)):
        _cast(part, dtype)


def _cast(part: nn.Module, dtype: torch.dtype) -> None:
    for parameter in part.parameters(recurse=False):
        parameter.data = parameter.data.to(dtype)
    for name, buffer in part.named_buffers(recurse=False):
        if buffer.is_floating_point():
            setattr(part, name, buffer.to(dtype))


def _ties(module: nn.Module) -> list[tuple[str, str]]:
    """Return pairs of names of one shared parameter, the name of the first first."""
    first: dict[int, str] = {}
    named = module.named_parameters(remove_duplicate=False)
    owned = [(first.setdefault(id(tensor), name), name) for name, tensor in named]
    return [(owner, name) for owner, name in owned if owner != name]


def _tie(module: nn.Module, ties: list[tuple[str, str]]) -> None:
    """Share again what filling and splitting gave copies of its own."""
    for owner, name in ties:
        part, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(part), leaf, module.get_parameter(owner))
