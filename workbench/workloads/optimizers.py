"""Optimisers by name, and LAMB and LARS, which torch has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grad_norm_

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.workloads.options import Options

_MOMENTUM = 0.9
_EPSILON = 1e-6
_CLASSES: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "sgd": partial(torch.optim.SGD, momentum=_MOMENTUM),
    "nesterov": partial(torch.optim.SGD, momentum=_MOMENTUM, nesterov=True),
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
}
_FUSION = {
    "auto": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "off": {"foreach": False},
}


class _Layerwise(torch.optim.Optimizer):
    """An optimiser that updates tensor by tensor, each at a rate of its own."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        raise NotImplementedError


class Lamb(_Layerwise):
    """Layer-wise adaptive moments: Adam's step, scaled by |w| / |step| in each tensor.

    You et al., arXiv 1904.00962, algorithm 2, with bias correction; biases and norms (fewer than
    two dimensions) neither decay nor scale.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "betas": betas, "eps": eps}
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["mean"] = torch.zeros_like(parameter)
            state["square"] = torch.zeros_like(parameter)
        state["step"] += 1
        first, second = group["betas"]
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        mean = state["mean"] / (1 - first ** state["step"])
        square = state["square"] / (1 - second ** state["step"])
        update = mean / (square.sqrt() + group["eps"])
        if parameter.dim() > 1:
            update.add_(parameter, alpha=group["weight_decay"])
            update.mul_(_trust(parameter, update))
        parameter.add_(update, alpha=-group["lr"])


class Lars(_Layerwise):
    """Layer-wise adaptive rates: SGD with momentum, scaled by |w| / |step| in each tensor.

    You et al., arXiv 1708.03888, algorithm 1; biases and norms neither decay nor scale.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        weight_decay: float,
        trust: float = 1e-3,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "trust": trust})

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        update = gradient
        if parameter.dim() > 1:
            update = gradient.add(parameter, alpha=group["weight_decay"])
            update = update * (group["trust"] * _trust(parameter, update))
        state["momentum"].mul_(_MOMENTUM).add_(update, alpha=group["lr"])
        parameter.sub_(state["momentum"])


_OWN: dict[str, Callable[..., torch.optim.Optimizer]] = {"lamb": Lamb, "lars": Lars}


def _trust(parameter: Tensor, update: Tensor) -> Tensor:
    """Return |w| / |u|, and 1 where either is 0; stays on the device."""
    weight, step = parameter.norm(), update.norm()
    return torch.where((weight > 0) & (step > 0), weight / step, torch.ones_like(weight))


def make(spec: Options, module: nn.Module) -> torch.optim.Optimizer:
    """Return the optimiser of a module's trainable parameters, by the options of a spec."""
    trained = [p for p in module.parameters() if p.requires_grad]
    groups = [{"params": part} for part in kinds(trained)]
    common: dict[str, Any] = {"lr": spec.learning_rate, "weight_decay": spec.weight_decay}
    if spec.optimizer in _OWN:
        return _OWN[spec.optimizer](groups, **common)
    return _CLASSES[spec.optimizer](groups, **common, **_FUSION[spec.fusion])


def kinds(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Split tensors into those split over ranks and the others: one kernel takes but one kind."""
    split: tuple[list[Tensor], list[Tensor]] = ([], [])
    for tensor in tensors:
        split[isinstance(tensor, DTensor)].append(tensor)
    return [part for part in split if part]


@torch.no_grad()
def clip(module: nn.Module, greatest: float) -> None:
    """Scale all gradients so that their common norm is at most `greatest`."""
    owners = kinds(p for p in module.parameters() if p.grad is not None)
    if len(owners) == 1:
        clip_grad_norm_(owners[0], greatest)
        return
    total = torch.stack([_whole(clip_grad_norm_(part, math.inf)) for part in owners]).norm()
    share = (greatest / (total + _EPSILON)).clamp(max=1.0)
    for part in owners:
        for parameter in part:
            assert parameter.grad is not None
            parameter.grad.mul_(share)


def _whole(norm: Tensor) -> Tensor:
    return norm.full_tensor() if isinstance(norm, DTensor) else norm
