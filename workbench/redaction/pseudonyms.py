"""Names to pseudonyms: what is public stays, the rest is renamed and tells analyses the same."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from workbench.redaction import evidence, leads, vocabulary
from workbench.redaction.evidence import Reading
from workbench.redaction.key import Key

_AUTOGRAD = r"autograd::engine::evaluate_function: |torch::autograd::"
_COMPILED = (
    r"(?:## Call )?CompiledFxGraph |Torch-Compiled Region:? ?|TorchDynamo Cache Lookup|"
    r"Pregraph bytecode|AOTDispatcher "
)
_TORCH = (
    r"Optimizer\.(?:step|zero_grad)#|enumerate\(Data(?:Loader|Pipe)\)#|nn\.Module: |"
    r"FSDP::(?:pre|post)_(?:forward|backward) \("
)
_COMMUNICATION = r"(?:nccl|gloo|mpi|ucc|xccl):|c10d::"
_ENDS = r"(?:Backward\d{0,2}|\.(?:step|zero_grad|__next__)| ##|\))"
_ANNOTATED = re.compile(
    rf"(?s)((?:{_AUTOGRAD}|{_COMPILED}|{_TORCH}|{_COMMUNICATION})*)(.*?)({_ENDS}?)"
)
_GENERATED = re.compile(r"(?s)((?:triton_(?:poi|red|per|tem|mix|for|foreach|spl|unk)_)?)(.*)()")
_INSTANCE = re.compile(r"(?s)((?:nn\.Module: )?)(.*?)((?:_\d{1,9})?)")
_SOURCE_FILE = re.compile(r"(?s)()(.*?)((?:\.py|\.cpp|\.cu)?)")
_ON_THREAD = re.compile(r"(?s)((?:[Tt]hread -?\d{1,10} \()?)(.*?)((?:_\d{1,4})?\)?)")
_WHOLE = re.compile(r"(?s)()(.*)()")
_FEW, _MANY = 6, 400
"""Leads that are tried at first, and at most."""


@dataclass(frozen=True)
class Kind:
    """A kind of names: its word, what of it is public, how it is built, what it tells."""

    word: str
    is_public: Callable[[str], bool]
    form: re.Pattern[str] = _WHOLE
    """Three groups: a public beginning, the name itself, a public end."""
    reading: Reading = evidence.nothing
    leads: Callable[[Any], Iterator[str]] = leads.none


KERNEL = Kind("kernel", vocabulary.is_kernel, _GENERATED, evidence.kernels, leads.of_kernel)
OPERATOR = Kind("op", vocabulary.is_operator, _ANNOTATED, evidence.operators, leads.of_operator)
EXECUTED = Kind("op", vocabulary.is_operator, _ANNOTATED, evidence.executed, leads.of_executed)
"""Operators of a recording without an accelerator."""
RANGE = Kind("range", vocabulary.is_annotation, _ANNOTATED, evidence.ranges, leads.of_annotation)
CALL = Kind("call", vocabulary.is_call, _WHOLE, evidence.calls, leads.of_call)
MODULE = Kind("Module", vocabulary.is_class, _INSTANCE)
DOMAIN = Kind("domain", vocabulary.is_value, _WHOLE, evidence.domains, leads.of_domain)
GROUP = Kind("group", vocabulary.is_value)
GROUP_TEXT = Kind("about", vocabulary.is_value, reading=evidence.groups, leads=leads.of_group)
THREAD = Kind("thread", vocabulary.is_value, _ON_THREAD)
VALUE = Kind("value", vocabulary.is_value)
FILE = Kind("file", vocabulary.is_literal, _SOURCE_FILE)
COUNTER = Kind("counter", vocabulary.is_counter)
PHRASE = Kind("text", vocabulary.any_of(vocabulary.is_phrase, vocabulary.is_version))
PRODUCT = Kind("device", vocabulary.is_product)
EXAMPLE = Kind("example", vocabulary.any_of(vocabulary.is_literal, vocabulary.is_operator))
UNIT = Kind("u", vocabulary.is_counter)
"""A short word: readers take a unit of at most twelve characters for one."""
NOTE = Kind(
    "note",
    vocabulary.any_of(
        vocabulary.is_phrase, vocabulary.is_version, vocabulary.is_value, vocabulary.is_product
    ),
)
UUID = Kind("uuid", lambda text: not text)


class _Parts(NamedTuple):
    begin: str
    name: str
    end: str


@dataclass
class Names:
    """Renames names by kind, each the same way every time."""

    key: Key
    on_host: bool = False
    """Operators are the work itself in some of what is renamed."""
    renamed: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """By kind, what each name became that was renamed."""
    kept: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By kind, the names that are public."""

    def one(self, kind: Kind, name: str) -> str:
        """Return the public name or the pseudonym of one name."""
        return self.several(kind, [name])[name]

    def several(self, kind: Kind, names: Iterable[str]) -> dict[str, str]:
        """Return what each of some names becomes."""
        kind = EXECUTED if kind is OPERATOR and self.on_host else kind
        names = list(dict.fromkeys(names))
        renamed, kept = self.renamed[kind.word], self.kept[kind.word]
        fresh = [n for n in names if n not in renamed and n not in kept]
        open_ = {n: parts for n in fresh if (parts := _secret(kind, n)) is not None}
        kept.update(n for n in fresh if n not in open_)
        renamed.update(self._pseudonyms(kind, open_))
        return {n: renamed.get(n, n) for n in names}

    def _pseudonyms(self, kind: Kind, open_: dict[str, _Parts]) -> dict[str, str]:
        """Give each name the first lead with which it tells the same, else the closest."""
        told = dict(zip(open_, kind.reading(list(open_)), strict=True))
        found: dict[str, str] = {}
        for most in (_FEW, _MANY):
            left = {n: parts for n, parts in open_.items() if n not in found}
            best = self._best(kind, left, told, most)
            found |= {
                n: self._named(kind, open_[n], lead)
                for n, (unlike, lead) in best.items()
                if not unlike or most == _MANY
            }
        return found

    def _best(
        self, kind: Kind, open_: dict[str, _Parts], told: dict[str, object], most: int
    ) -> dict[str, tuple[int, str]]:
        """Return for each name how much it tells otherwise with its best lead, and that lead."""
        leads = {n: dict.fromkeys(["", *islice(kind.leads(told[n]), most)]) for n in open_}
        pairs = [(n, lead) for n, some in leads.items() for lead in some]
        tells = kind.reading([_joined(kind, open_[n], lead, self.key) for n, lead in pairs])
        best: dict[str, tuple[int, str]] = {}
        for (n, lead), new in zip(pairs, tells, strict=True):
            unlike = _unlike(told[n], new)
            if n not in best or unlike < best[n][0]:
                best[n] = unlike, lead
        return best

    def _named(self, kind: Kind, parts: _Parts, lead: str) -> str:
        return parts.begin + self.key.pseudonym(kind.word, parts.name, lead) + parts.end


def _joined(kind: Kind, parts: _Parts, lead: str, key: Key) -> str:
    """Return a pseudonym as it would be, without keeping it."""
    return f"{parts.begin}{lead}{kind.word}_{key.token(kind.word, parts.name)}{parts.end}"


def _unlike(one: object, other: object) -> int:
    """Count the things that two names tell differently; what stands first counts most."""
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return int(one != other)
    pairs = zip(reversed(one), reversed(other), strict=True)
    return sum((a != b) << place for place, (a, b) in enumerate(pairs))


def _secret(kind: Kind, name: str) -> _Parts | None:
    """Return a name in parts, the middle to be renamed; None when all of it is public."""
    found = kind.form.fullmatch(name)
    parts = _Parts(*found.groups()) if found else _Parts("", name, "")
    public = kind.is_public
    rest = parts.name + parts.end
    if not rest or public(name) or public(rest) or not parts.name or public(parts.name):
        return None
    return parts
