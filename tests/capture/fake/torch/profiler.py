import os
import time
from pathlib import Path


def supported_activities():
    return {"cpu"}


def schedule(*, wait, warmup, active, repeat):
    assert (wait, warmup, repeat) == (0, 1, 1)
    return active


class ExecutionTraceObserver:
    def register_callback(self, path):
        self.path = Path(path)

    def unregister_callback(self):
        self.path.write_text('{"schema": "1", "nodes": []}')


class profile:
    def __init__(self, *, schedule=None, on_trace_ready=None, **switches):
        self.active, self.on_trace_ready, self.number = schedule, on_trace_ready, 0

    def __enter__(self):
        print("an empty profile")

    def __exit__(self, *error):
        pass

    def start(self):
        pass

    def stop(self):
        pass

    def step(self):
        self.number += 1
        if self.number == self.active + 1:
            self.on_trace_ready(self)

    def export_chrome_trace(self, path):
        Path(path).write_text("[")
        time.sleep(float(os.environ.get("FAKE_EXPORT_S", "0")))
        if os.environ.get("FAKE_EXPORT") == "nothing":
            Path(path).unlink()  # as Kineto does where the disk is full
            return
        padding = " " * int(os.environ.get("FAKE_PADDING", "0"))
        name = os.environ.get("FAKE_STEP", "ProfilerStep#1")
        Path(path).write_text(f'[{{"name": "{name}"}}{padding}]')
