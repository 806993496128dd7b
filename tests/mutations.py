"""Damage to small files from a fixed seed, and the one promise that holds for all of it."""

import random
import re

from workbench import show
from workbench.errors import InputError
from workbench.trace import schema
from workbench.trace.open import open_source

_VALUE = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?|\"[^\"\\]*\"|true|false|null|\[\]|\{\}")
OTHERS = (b"null", b'"x"', b"-1", b"1.5", b"[[1]]", b"{}", b"true", b"99999999999999999999")
ANALYSES = ("summary", "ops", "kernels", "collectives", "breakdown", "roofline")


def mutated(data, seed, *, is_json):
    """Return the bytes with a bit flipped, a piece cut out, the end cut off or a value swapped."""
    chance = random.Random(seed)
    how = chance.choice(["bit", "bit", "cut", "end", "value" if is_json else "byte"])
    at = chance.randrange(len(data))
    if how == "bit":
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if how == "byte":
        return data[:at] + chance.choice([b"\0", b"\xff", b"\x7f"]) + data[at + 1 :]
    if how == "cut":
        return data[:at] + data[at + chance.randrange(1, 9) :]
    if how == "end":
        return data[:at]
    spot = chance.choice(list(_VALUE.finditer(data)))
    return data[: spot.start()] + chance.choice(OTHERS) + data[spot.end() :]


def opened_or_refused(path):
    try:
        return open_source(path), ""
    except InputError as refusal:
        return None, str(refusal)


def assert_opens_or_is_refused(path, data, *, is_json, count=60):
    """Mutate `count` times: every file opens and can be shown, or is refused in one sentence.

    Returns how many opened, so that a test can see that not all were refused.
    """
    opened = 0
    for seed in range(count):
        path.write_bytes(mutated(data, seed, is_json=is_json))
        trace, sentence = opened_or_refused(path)
        assert "\n" not in sentence, (seed, sentence)
        if trace is None:
            continue
        opened += 1
        for name in ANALYSES:
            show.frame(trace, name, show.Choice())
        for name in schema.TABLES:
            assert getattr(trace, name) is not None, (seed, name)
    return opened
