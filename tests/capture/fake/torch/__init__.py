"""Just enough of torch for the child process: it starts at once, and can be told to misbehave."""

import functools
import os
from types import SimpleNamespace

__version__ = "0.fake"
version = SimpleNamespace(cuda=os.environ.get("FAKE_CUDA"), hip=None)


class device:
    def __init__(self, name, index=None):
        self.type, self.index = name, index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        cuda.now += 1
        self.at = cuda.now

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return float(end.at - self.at)


def _record_memory_history(enabled="all", **options):
    cuda.memory.history = enabled


def _snapshot():
    frames = [{"filename": "a.py", "line": n, "name": "f"} for n in range(30)]
    event = {"action": "alloc", "addr": 1, "size": 2, "time_us": 3, "frames": frames}
    return {"device_traces": [[event]], "segments": [], "history": cuda.memory.history}


def _say(text):
    print("told the profiler:", text)


cuda = SimpleNamespace(
    memory=SimpleNamespace(_record_memory_history=_record_memory_history, _snapshot=_snapshot),
    now=0,
    is_available=lambda: "FAKE_CUDA" in os.environ,
    device_count=lambda: 2,
    set_device=lambda device: None,
    synchronize=lambda: None,
    get_device_properties=lambda i: SimpleNamespace(name=f"Fake {i}", total_memory=7, uuid=i),
    Event=Event,
    profiler=SimpleNamespace(start=lambda: _say("start"), stop=lambda: _say("stop")),
    nvtx=SimpleNamespace(range_push=_say, range_pop=lambda: _say("pop")),
)


class emit_nvtx:
    def __init__(self, *, record_shapes):
        self.shapes = record_shapes

    def __enter__(self):
        _say(f"operators, shapes {self.shapes}")

    def __exit__(self, *error):
        _say("no operators")


autograd = SimpleNamespace(profiler=SimpleNamespace(emit_nvtx=emit_nvtx))


def get_num_threads():
    return 1


def set_num_threads(number):
    pass


class Optimizer:
    @staticmethod
    def profile_hook_step(step):
        @functools.wraps(step)
        def wrapper(*args, **kwargs):
            return step(*args, **kwargs)

        return wrapper

    def __init__(self):
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True


class SGD(Optimizer):
    def step(self):
        pass


optim = SimpleNamespace(Optimizer=Optimizer, SGD=SGD)
