"""Which names are public: those that libraries, runtimes and profilers give, by lists of ours.

The lists are data (`data/public_names`). What is in none of them is taken for the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from workbench import resources
from workbench.costs.models import MODELS
from workbench.costs.shapes import DTYPES
from workbench.errors import InputError
from workbench.trace.collectives import DTYPE_BYTES
from workbench.trace.families import STEP, table

_LETTERS = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBER = r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])"
_LITERAL = re.compile(rf"(?:{_NUMBER}|True|False|None|-?inf|nan|[\s,;\[\](){{}}'\"])*")
_RETURNED = re.compile(r"^(?:void |std::enable_if<[^<>]{0,40}>::type )+")
_UNNAMED = re.compile(r"^(?:\(anonymous namespace\)::|<unnamed>::)+")
_INDUCTOR = re.compile(r"triton_(?:poi|red|per|tem|mix|for|foreach|unk|spl)_fused_\w*")
_REGION = re.compile(r"Torch-Compiled Region: \d+/\d+")
_ZEROED = re.compile(r"[# ]*(?:[Oo]ptimizer\.)?zero_grad[# ]*")
_VERSION = re.compile(r"\d+(?:[.:/-]\d+)*")
_IN_FOUR = re.compile(r"(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d)")
"""An address on a network, which is no version."""
_MODEL = re.compile(r"[A-Z]{0,3}\d{1,5}(?:[A-Z]{1,2}|GB|Hz)?|[A-Z]")
"""A model number, a size, a letter of a series."""
_PART = re.compile(r"MI\d{2,3}[A-Z]?|gfx[0-9a-f]{3,4}|(?:GA|GB|GH|AD|TU|GV|[ABHLPTV])\d{1,3}")
"""An accelerator that needs no maker beside it."""
_CALL = re.compile(r"cuda|cu|hip|hsa_|acl|nccl|Memcpy|Memset|AscendCL@|Node@|Hccl@")
_COUNTED = re.compile(r"[A-Za-z0-9_.:/ ()\[\]%]+")
_DEVICE = re.compile(r"(?:cpu|cuda|hip|xpu|mps|meta)(?::\d{1,3})?")
_COLLECTIVE = re.compile(r"(?:nccl|gloo|mpi|ucc|xccl):(\w+)")
_LOADER = re.compile(r"enumerate\(Data(?:Loader|Pipe)\)#(\w+)\.__next__")
_STEP_OF = re.compile(r"Optimizer\.(?:step|zero_grad)#(\w+)\.(?:step|zero_grad)")
_SHORT = 1
"""A single letter says nothing: template parameters, axes, series."""
_LONGEST = 8192


class Lists(NamedTuple):
    """The lists as they stand in the files."""

    operators: frozenset[str]
    classes: frozenset[str]
    names: frozenset[str]
    values: frozenset[str]
    kernel_roots: tuple[str, ...]
    kernel_words: frozenset[str]
    call_words: frozenset[str]
    counter_words: frozenset[str]
    phrase_words: frozenset[str]
    product_words: frozenset[str]


@cache
def lists() -> Lists:
    """Read the lists; InputError when one is missing."""
    folded = ("counter_words", "phrase_words", "product_words")
    words = {n: _words(n) for n in Lists._fields if n != "names"}
    words |= {n: frozenset(w.lower() for w in words[n]) for n in folded}
    return Lists(
        **{n: w for n, w in words.items() if n != "kernel_roots"},
        names=frozenset(_lines("names")),
        kernel_roots=tuple(words["kernel_roots"]),
    )


def _lines(name: str) -> list[str]:
    path = resources.data() / "public_names" / f"{name}.txt"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"The list {path.name} of public names can't be read ({error.strerror}); install the "
            "package again."
        ) from None
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


def _words(name: str) -> frozenset[str]:
    return frozenset(word for line in _lines(name) for word in line.split())


def is_literal(text: str) -> bool:
    """Say whether a text is numbers, truth values and brackets alone, and no network address."""
    return _IN_FOUR.search(text) is None and _LITERAL.fullmatch(text) is not None


def is_kernel(name: str) -> bool:
    """Say whether a kernel is a public library's: how it begins, and all of its words, are known.

    A mangled name is not looked into, so it is not public.
    """
    if name in lists().names:
        return True
    if len(name) > _LONGEST:
        return False
    if _INDUCTOR.fullmatch(name):
        return _all_known(name, lists().kernel_words | _operator_words())
    bare = _UNNAMED.sub("", _RETURNED.sub("", name))
    return bare.startswith(lists().kernel_roots) and _all_known(name, lists().kernel_words)


@cache
def _operator_words() -> frozenset[str]:
    named = (n.partition("::")[2] for n in lists().operators if "::" in n)
    return frozenset(word for name in named for word in _LETTERS.findall(name))


def _all_known(name: str, known: frozenset[str]) -> bool:
    """Say whether all runs of letters are known, and everything else is ASCII."""
    words = _LETTERS.findall(name)
    return name.isascii() and all(len(w) <= _SHORT or w in known for w in words)


def is_operator(name: str) -> bool:
    """Say whether an operator, or what stands among operators, is public."""
    return name in lists().operators or name in MODELS or is_annotation(name)


def is_annotation(name: str) -> bool:
    """Say whether a range is one that torch, a profiler or a communication library sets."""
    held = lists()
    if name in held.names or name in held.operators or STEP.fullmatch(name):
        return True
    if found := _COLLECTIVE.fullmatch(name):
        return found[1] in held.values
    if found := _LOADER.fullmatch(name) or _STEP_OF.fullmatch(name):
        return found[1] in held.classes
    return any(form.fullmatch(name) for form in (_REGION, _ZEROED)) or is_kernel(name)


def is_call(name: str) -> bool:
    """Say whether a runtime or driver call is public: how it begins, and all of its words."""
    known = all(len(w) <= _SHORT or w in lists().call_words for w in _CAMEL.findall(name))
    begins = _CALL.match(name) is not None
    return name in lists().names or (name.isascii() and known and begins)


def is_class(name: str) -> bool:
    """Say whether a class of modules or optimisers is torch's own."""
    return name in lists().classes


def is_value(text: str) -> bool:
    """Say whether a text in an argument, a type, a kind or a domain is public."""
    held = lists()
    known = (held.values, held.names, DTYPES, table().meanings)
    if any(text in names for names in known) or text.lower() in DTYPE_BYTES:
        return True
    return is_literal(text) or _DEVICE.fullmatch(text) is not None


def is_counter(name: str) -> bool:
    """Say whether a counter or its unit is one that a tool gives."""
    if name in lists().names:
        return True
    return _COUNTED.fullmatch(name) is not None and _folded(name, lists().counter_words)


def is_phrase(text: str) -> bool:
    """Say whether a sentence holds this project's words, numbers and versions alone."""
    return _IN_FOUR.search(text) is None and _folded(text, lists().phrase_words)


def is_version(text: str) -> bool:
    """Say whether a text is a version, a date or a number."""
    return _IN_FOUR.search(text) is None and _VERSION.fullmatch(text) is not None


def _folded(text: str, known: frozenset[str]) -> bool:
    words = _LETTERS.findall(text)
    longer = [w.lower() for w in words if len(w) > _SHORT]
    return all(w in known for w in longer) and bool(longer or not words)


def is_product(name: str) -> bool:
    """Say whether a name is that of an accelerator or processor: known words, model numbers."""
    pieces = [p for p in re.split(r"[\s()/_,@-]+|(?<=\w)\.(?=\d)", name) if p]
    known = lists().product_words
    named = [p.lower() in known or _PART.fullmatch(p) is not None for p in pieces]
    return any(named) and all(n or _MODEL.fullmatch(p) for n, p in zip(named, pieces, strict=True))


def any_of(*tests: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a test that holds where any of some does."""
    return lambda text: any(test(text) for test in tests)
