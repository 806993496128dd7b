"""The one training loop of all workloads: model, data and optimiser by a spec, step by step."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch import Tensor, nn

from workbench.workloads import data, execution, numerics, optimizers, parallel
from workbench.workloads.options import GRAPHED_MODES

if TYPE_CHECKING:
    from workbench.workloads.data import Batch
    from workbench.workloads.registry import Workload


class Family(Protocol):
    """What the torch module of a workload offers.

    Optional: `tensor_plan(module)`, how submodules are split over ranks, and `after_step(module)`,
    what the model does once the optimiser has stepped.
    """

    def model(self, spec: Any) -> nn.Module:
        """Return the model, whose `forward(*batch)` is the mean loss of a micro-batch.

        It is made on the meta device: each module that holds tensors sets them in
        `reset_parameters`, and random weights are drawn there.
        """
        ...

    def blocks(self, module: Any) -> list[nn.Module]:
        """Return what is computed again, sharded and compiled one by one."""
        ...

    def batch(self, spec: Any, generator: torch.Generator) -> Batch:
        """Return one synthetic micro-batch."""
        ...


class Training:
    """A workload on one rank; `step()` runs one training step.

    With `world` above 1 the process group must stand. UsageError: options that cannot run here.
    """

    def __init__(
        self, workload: Workload, spec: Any, *, device: torch.device, rank: int = 0, world: int = 1
    ) -> None:
        spec.check_run(device=device.type, ranks=world)
        self.workload, self.spec, self.device, self.world = workload, spec, device, world
        self._channels_last = getattr(spec, "channels_last", False)
        family = cast("Family", import_module(workload.module))
        numerics.set_products(spec)
        self.module = self._model(family)
        self.parameters = _count(self.module)
        self.trained = _count(self.module, trained=True)
        self._after_step = getattr(family, "after_step", None)
        blocks = family.blocks(self.module)
        execution.prepare(blocks, spec)
        torch.manual_seed(spec.seed)
        plan = getattr(family, "tensor_plan", _no_plan)(self.module)
        self.model = parallel.place(
            self.module, spec, blocks=blocks, plan=plan, device=device, world=world
        )
        self.optimizer = optimizers.make(spec, self.module)
        self.scaler = numerics.scaler(spec, device)
        # The ranks of a split model see the same data.
        stream = 0 if spec.parallel == "tensor" else rank
        torch.manual_seed(spec.seed + 1 + stream)
        self._batches = iter(data.loader(data.Batches(spec, family.batch, stream), device))
        self._graph: execution.Graph | None = None

    def step(self) -> Tensor:
        """Run one optimiser step over `accumulate` micro-batches; return the last loss."""
        spec = self.spec
        with numerics.attention(spec):
            for micro in range(spec.accumulate):
                is_last = micro == spec.accumulate - 1
                with parallel.gradients(self.model, averaged=is_last):
                    loss = self._micro_step(self.next_batch())
        self._update()
        return loss

    def next_batch(self) -> Batch:
        """Load a micro-batch and bring it to the device, floats in the type of the weights."""
        return tuple(self._placed(tensor) for tensor in next(self._batches))

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss of a micro-batch."""
        with numerics.autocast(self.spec, self.device):
            return cast("Tensor", self.model(*batch))

    def facts(self) -> dict[str, Any]:
        """Return what the run folder should know: parameters, shape, and a step's work on a rank.

        `transformer` has the fields of `costs.transformer`. The ranks of a split model share the
        samples; null where they do not divide.
        """
        spec = self.spec
        share = self.world if spec.parallel == "tensor" else 1
        samples = spec.samples_per_step
        found: dict[str, Any] = {
            "parameters": self.parameters,
            "trained_parameters": self.trained,
            "samples_per_step_and_rank": _shared(samples, share),
            "flops_per_step_and_rank": _shared(self.workload.flops(spec), share),
        }
        if spec.tokens_per_sample is not None:
            found["tokens_per_step_and_rank"] = _shared(samples * spec.tokens_per_sample, share)
        if (shape := spec.transformer()) is not None:
            found["transformer"] = shape
        return found

    def _model(self, family: Family) -> nn.Module:
        with torch.device("meta"):
            return family.model(self.spec)

    def _placed(self, tensor: Tensor) -> Tensor:
        weights = numerics.WEIGHTS.get(self.spec.precision)
        is_float = tensor.is_floating_point()
        dtype = weights if weights is not None and is_float else tensor.dtype
        moved = tensor.to(self.device, dtype, non_blocking=True)
        return numerics.innermost_channels(moved) if self._channels_last and is_float else moved

    def _micro_step(self, batch: Batch) -> Tensor:
        if not self.spec.cuda_graphs:
            return self._forward_and_backward(batch)
        if self._graph is None:
            self._graph = execution.Graph(self._forward_and_backward, batch)
            self.optimizer.zero_grad(set_to_none=False)  # what capturing has added up
        return self._graph(batch).clone()

    def _forward_and_backward(self, batch: Batch) -> Tensor:
        if self.spec.compile in GRAPHED_MODES:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        loss = self.loss(batch)
        torch.autograd.backward(self.scaler.scale(loss / self.spec.accumulate))
        return loss.detach()

    def _update(self) -> None:
        if self.spec.clip_norm:
            self.scaler.unscale_(self.optimizer)
            optimizers.clip(self.module, self.spec.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=not self.spec.cuda_graphs)
        if self._after_step is not None:
            self._after_step(self.module)


def _count(module: nn.Module, *, trained: bool = False) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not trained)


def _no_plan(_module: nn.Module) -> dict[str, Any]:
    return {}


def _shared(amount: int, ranks: int) -> int | None:
    return None if amount % ranks else amount // ranks
