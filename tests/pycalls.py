"""Python calls for tiny traces: one line a call, times in microseconds."""

from itertools import count

from tinytrace import op

_ids = count(1)


def function(name, ts, dur, tid=1, parent=None, **args):
    """A call with an id of the interpreter; `parent` is the event of its caller."""
    ids = {"Python id": next(_ids), **args}
    if parent is not None:
        ids["Python parent id"] = parent["args"]["Python id"]
    return op(name, ts, dur, tid, **ids) | {"cat": "python_function"}


def module(name, ts, dur, tid=1, parent=None):
    return function(f"nn.Module: {name}", ts, dur, tid, parent, **{"Python module id": 0})
