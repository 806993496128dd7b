"""Another profiler around the process: switched on for the traced steps, told where they begin."""

from __future__ import annotations

from typing import Any

STEP = "ProfilerStep#{}"


class RangedTracer:
    """Steps as NVTX ranges named as torch's profiler names them, operators as ranges within them.

    The profiler that was started around this process records from `cudaProfilerStart` to
    `cudaProfilerStop`; it writes its report after this process has ended.
    """

    def __init__(self, torch: Any, *, active: int, shapes: bool, operators: bool) -> None:
        self.torch, self.active = torch, active
        self.operators = operators
        self.number = 0
        self.running = False
        self._emitting: Any = None
        self._shapes = shapes

    def start(self) -> None:
        """Begin to name operators, in the step before the first that is recorded."""
        self.running = True
        if self.operators:
            emit = self.torch.autograd.profiler.emit_nvtx
            self._emitting = emit(record_shapes=self._shapes)
            self._emitting.__enter__()

    def advance(self) -> int | None:
        """Go on to the next step; return its number, None once all are recorded."""
        nvtx = self.torch.cuda.nvtx
        if self.number:
            nvtx.range_pop()
        else:
            self.torch.cuda.profiler.start()
        if self.number == self.active:
            self._stop()
            return None
        self.number += 1
        nvtx.range_push(STEP.format(self.number))
        return self.number

    def _stop(self) -> None:
        self.torch.cuda.synchronize()
        self.torch.cuda.profiler.stop()
        if self._emitting is not None:
            self._emitting.__exit__(None, None, None)
