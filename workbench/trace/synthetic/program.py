"""The training step that is generated: data, forward, backward, optimiser, then planted gaps.

Each rank is a generator: it yields a collective (its own start and how long the transfer takes
once all are there) and is sent the end, so that all ranks leave a collective together.
"""

from __future__ import annotations

import json
import random
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from workbench.trace.synthetic import layers
from workbench.trace.synthetic.inputs import Sizes
from workbench.trace.synthetic.planting import plant_gaps
from workbench.trace.synthetic.recorder import AUTOGRAD, CALL_NS, MAIN, Recorder

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

    from workbench.trace.synthetic.layers import Operation
    from workbench.trace.synthetic.recorder import HostEvent
    from workbench.trace.synthetic.spec import SyntheticSpec

COMPUTE, COMMUNICATION, COPY = 7, 20, 24
WIRE_BYTES_PER_NS = 200
BYTES_PER_ELEMENT = 2
KEPT = 4
"""Tensors that outlast a step for each weight: itself, its gradient, and AdamW's two moments."""
DATA_NS = 30_000
INPUT_COPY_NS = 20_000
SWITCH_NS = 5_000
BETWEEN_STEPS_NS = 3_000
WARM_UP_NS = 100_000
OVERRUN_NS = 200_000
"""Kernel that ends an odd step and still runs when the next step's first copy starts."""

Meeting = tuple[int, int]


class Program:
    """One rank's run of the training loop."""

    def __init__(self, spec: SyntheticSpec, rank: int) -> None:
        self.spec = spec
        self.rank = rank
        weights = spec.layers * layers.MATRICES * spec.hidden**2
        sizes = Sizes(spec.tokens, spec.hidden, spec.layers)
        kept = KEPT * weights * BYTES_PER_ELEMENT
        self.recorder = Recorder(rank * spec.rank_skew_ns, kept, sizes)
        self.random = random.Random(f"{spec.seed}/{rank}")  # noqa: S311
        self.steps: list[HostEvent] = []
        self.seq = 0
        self._sequence = 0
        self._forward: list[tuple[Operation, HostEvent, int]] = []

    def jittered(self, ns: int) -> int:
        """Change a duration by at most the specified share."""
        if not self.spec.jitter:
            return ns
        return round(ns * (1 + self.random.uniform(-self.spec.jitter, self.spec.jitter)))

    def frame(self, name: str) -> AbstractContextManager[HostEvent | None]:
        """Hold a Python frame open, when stacks are recorded."""
        if not self.spec.stacks:
            return nullcontext()
        return self.recorder.event("python_function", name, "python")

    def run(self) -> Generator[Meeting, int, None]:
        """Warm up outside steps, run the steps, and synchronise."""
        recorder = self.recorder
        with recorder.op("aten::to"), recorder.op("aten::copy_"):
            self.copy(COMPUTE, INPUT_COPY_NS)
        recorder.synchronize(None, recorder.device_end + BETWEEN_STEPS_NS)
        start = recorder.now
        recorder.advance(WARM_UP_NS)
        recorder.plant("host_unknown", start)
        for index in range(self.spec.steps + self.spec.partial_step):
            start = recorder.now
            recorder.advance(BETWEEN_STEPS_NS)
            recorder.plant("host_unknown", start)
            with recorder.event(
                "user_annotation", f"ProfilerStep#{self.spec.first_step + index}"
            ) as s:
                self.steps.append(s)
                yield from self.step(index)
        recorder.synchronize(None, recorder.device_end + BETWEEN_STEPS_NS)

    def step(self, index: int) -> Generator[Meeting, int, None]:
        """Run one step; in the partial one device records end with the forward pass."""
        partial = index == self.spec.steps
        self.load()
        with self.frame("train.py(31): forward"):
            self.forward()
        self.recorder.lost |= partial
        with self.frame("torch/autograd/__init__.py(270): backward"):
            yield from self.backward()
        with self.frame("torch/optim/optimizer.py(484): wrapper"):
            yield from self.optimize()
        self.item()
        plant_gaps(self)
        if index % 2:
            with self.recorder.op("aten::_foreach_lerp_"):
                self.recorder.launch("overrun_kernel", COMPUTE, OVERRUN_NS)

    def load(self) -> None:
        """Fetch a batch and copy its two tensors on the copy stream; computing waits for them."""
        recorder = self.recorder
        start = recorder.now
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        with recorder.event("user_annotation", name, "data_loading"):
            recorder.advance(DATA_NS + self.rank * self.spec.rank_skew_ns)
        recorder.plant("host_data_loading", start)
        for _ in range(2):
            with recorder.op("aten::to"), recorder.op("aten::copy_"):
                self.copy(COPY, INPUT_COPY_NS)
        recorder.wait(COMPUTE, COPY)

    def copy(self, stream: int, ns: int, name: str = "Memcpy HtoD (Pinned -> Device)") -> None:
        """Copy the tokens of a batch between host and device."""
        call = self.recorder.call("cudaMemcpyAsync", CALL_NS)
        size = self.spec.tokens * 8
        start = self.recorder.ready(call, stream)
        self.recorder.run(call, "copy", name, stream, start=start, ns=ns, bytes=size)

    def forward(self) -> None:
        """Run the layers; every operator that needs a gradient takes a sequence number."""
        for _ in range(self.spec.layers):
            for operation in layers.LAYER:
                sequence = {"Sequence number": self._sequence, "Fwd thread id": 0}
                outer = self.recorder.op(operation.outer) if operation.outer else nullcontext()
                with outer, self.recorder.op(operation.inner, **sequence) as event:
                    self.allocate(1)
                    self.recorder.launch(operation.kernel, COMPUTE, self.jittered(operation.ns))
                self._forward.append((operation, event, self._sequence))
                self._sequence += 1

    def allocate(self, sign: int) -> None:
        """Take (+1) or give back (-1) one activation, when memory is recorded."""
        if self.spec.memory:
            self.recorder.allocate(sign * self.spec.tokens * self.spec.hidden * BYTES_PER_ELEMENT)

    def backward(self) -> Generator[Meeting, int, None]:
        """Run the backward pass on the autograd thread; each layer's gradients are one bucket."""
        recorder = self.recorder
        recorder.switch(AUTOGRAD, SWITCH_NS)
        last = len(layers.LAYER)
        while self._forward:
            self.node(*self._forward.pop())
            if len(self._forward) % last == 0:
                yield from self.accumulate()
        recorder.wait(COMPUTE, COMMUNICATION)
        recorder.switch(MAIN, SWITCH_NS)

    def node(self, operation: Operation, forward: HostEvent, sequence: int) -> None:
        """Run one backward node and tie it to its forward operator."""
        recorder = self.recorder
        name = f"autograd::engine::evaluate_function: {operation.node}"
        args: dict[str, Any] = {"Sequence number": sequence, "Fwd thread id": 1}
        with recorder.op(name, **args), recorder.op(operation.node, **args) as event:
            recorder.flows.append((forward, event))
            for op, kernel, ns in operation.backward:
                with recorder.op(op):
                    recorder.launch(kernel, COMPUTE, self.jittered(ns))
            self.allocate(-1)

    def accumulate(self) -> Generator[Meeting, int, None]:
        """Accumulate the gradients of a layer and start their all-reduce."""
        node = "torch::autograd::AccumulateGrad"
        elements = 8 * self.spec.hidden**2
        with (
            self.recorder.op(f"autograd::engine::evaluate_function: {node}"),
            self.recorder.op(node),
        ):
            kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            yield from self.collective("allreduce", kernel, "all_reduce", elements, elements)

    def collective(
        self, name: str, kernel: str, title: str, sent: int, received: int
    ) -> Generator[Meeting, int, None]:
        """Launch a collective on the communication stream behind the work computed so far."""
        recorder = self.recorder
        self.seq += 1
        ranks = self.spec.ranks
        args = {
            "Collective name": name,
            "In msg nelems": sent,
            "Out msg nelems": received,
            "Group size": ranks,
            "dtype": "BFloat16",
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": json.dumps(list(range(ranks))),
            "Rank": self.rank,
            "Seq": self.seq,
        }
        annotation = recorder.event("user_annotation", f"nccl:{title}")
        with recorder.op("record_param_comms", **args), annotation:
            recorder.wait(COMMUNICATION, COMPUTE)
            call = recorder.call("cudaLaunchKernelExC", CALL_NS)
            start = recorder.ready(call, COMMUNICATION)
            transfer = max(sent, received) * BYTES_PER_ELEMENT // WIRE_BYTES_PER_NS
            end = yield start, transfer
            recorder.run(
                call, "collective", kernel, COMMUNICATION, start=start, ns=end - start, **args
            )

    def optimize(self) -> Generator[Meeting, int, None]:
        """Update the parameters, clear the gradients, gather the updated shards."""
        recorder = self.recorder
        step = recorder.event("user_annotation", "Optimizer.step#AdamW.step")
        with step, recorder.op("aten::_fused_adamw_"):
            recorder.launch(layers.ADAMW, COMPUTE, self.jittered(60_000))
        clear = recorder.event("user_annotation", "Optimizer.zero_grad#AdamW.zero_grad")
        with clear, recorder.op("aten::zero_"), recorder.op("aten::fill_"):
            call = recorder.call("cudaMemsetAsync", CALL_NS)
            start = recorder.ready(call, COMPUTE)
            size = 8 * self.spec.hidden**2 * BYTES_PER_ELEMENT
            recorder.run(call, "set", "Memset (Device)", COMPUTE, start=start, ns=5_000, bytes=size)
        shard = self.spec.hidden**2
        kernel = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        gathered = shard * self.spec.ranks
        yield from self.collective("_allgather_base", kernel, "_all_gather_base", shard, gathered)

    def item(self) -> None:
        """Bring the loss to the host, which waits until the device has nothing left to do."""
        recorder = self.recorder
        recorder.wait(COMPUTE, COMMUNICATION)
        with recorder.op("aten::item"), recorder.op("aten::_local_scalar_dense"):
            self.copy(COMPUTE, 2_000, "Memcpy DtoH (Device -> Pinned)")
            recorder.synchronize(COMPUTE, recorder.device_end + 2_000)


def simulate(spec: SyntheticSpec) -> list[Program]:
    """Run all ranks side by side; a collective ends for all when the last has come and sent."""
    programs = [Program(spec, rank) for rank in range(spec.ranks)]
    running = [program.run() for program in programs]
    meetings = [next(one) for one in running]
    while meetings:
        end = max(start for start, _ in meetings) + meetings[0][1]
        meetings = [met for one in running if (met := _resume(one, end)) is not None]
    return programs


def _resume(one: Generator[Meeting, int, None], end: int) -> Meeting | None:
    """Send a rank the end of its collective; None when it has none after it."""
    try:
        return one.send(end)
    except StopIteration:
        return None
