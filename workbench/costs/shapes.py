"""Operands of an operator call, from the shape columns of `ops`.

The profiler writes one entry an argument: `[]` for what is not a tensor, one list deeper for a list
of tensors. The text is decoded as JSON and checked entry by entry; what does not fit is unknown,
with the reason, and never executed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

MAX_TEXT_CHARS = 1_000_000
MAX_DIMS = 64
MAX_EXTENT = 2**62
LIST = "TensorList"
"""What profilers write as the type of a list of tensors, whatever these are."""


class ShapeError(ValueError):
    """A recorded shape cannot be used; the message is the reason that tables show."""


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: the precision that peaks are listed under, and how elements are stored."""

    precision: str
    bytes: int
    packed: int = 1
    """Elements in one stored unit, as two 4-bit numbers in a byte."""
    is_complex: bool = False


DTYPES = {
    "double": DType("fp64", 8),
    "float": DType("fp32", 4),
    "c10::Half": DType("fp16", 2),
    "c10::BFloat16": DType("bf16", 2),
    "c10::Float8_e4m3fn": DType("fp8", 1),
    "c10::Float8_e4m3fnuz": DType("fp8", 1),
    "c10::Float8_e5m2": DType("fp8", 1),
    "c10::Float8_e5m2fnuz": DType("fp8", 1),
    "c10::Float8_e8m0fnu": DType("fp8", 1),
    "c10::Float4_e2m1fn_x2": DType("fp4", 1, packed=2),
    "c10::complex<double>": DType("fp64", 16, is_complex=True),
    "c10::complex<float>": DType("fp32", 8, is_complex=True),
    "c10::complex<c10::Half>": DType("fp16", 4, is_complex=True),
    "bool": DType("bool", 1),
    # A byte of unsigned integers: torch writes the 8-bit floats by their own names.
    "unsigned char": DType("uint8", 1),
    "signed char": DType("int8", 1),
    "short": DType("int16", 2),
    "short int": DType("int16", 2),
    "unsigned short": DType("uint16", 2),
    "short unsigned int": DType("uint16", 2),
    "int": DType("int32", 4),
    "unsigned int": DType("uint32", 4),
    "long": DType("int64", 8),
    "long int": DType("int64", 8),
    "long long": DType("int64", 8),
    "__int64": DType("int64", 8),
    "unsigned long": DType("uint64", 8),
    "long unsigned int": DType("uint64", 8),
    "unsigned __int64": DType("uint64", 8),
    "c10::qint8": DType("int8", 1),
    "c10::quint8": DType("uint8", 1),
    "c10::qint32": DType("int32", 4),
    # Kernels that only move elements name their size alone.
    **{f"OpaqueType<{n}u>": DType(f"{n}-byte", n) for n in (1, 2, 4, 8, 16)},
}
"""Element types by the name that the profiler writes (`caffe2::TypeMeta` names on Linux, macOS and
Windows)."""

SCALAR_TYPES = {
    0: "unsigned char",
    1: "signed char",
    2: "short",
    3: "int",
    4: "long",
    5: "c10::Half",
    6: "float",
    7: "double",
    8: "c10::complex<c10::Half>",
    9: "c10::complex<float>",
    10: "c10::complex<double>",
    11: "bool",
    15: "c10::BFloat16",
    23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn",
    25: "c10::Float8_e5m2fnuz",
    26: "c10::Float8_e4m3fnuz",
    44: "c10::Float8_e8m0fnu",
    45: "c10::Float4_e2m1fn_x2",
}
"""Codes of a `dtype=` argument in the concrete inputs (torch `c10/core/ScalarType.h`)."""
_CODES = {str(code): DTYPES[name] for code, name in SCALAR_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor argument: extents, element type name, strides in elements (None: not recorded)."""

    dims: tuple[int, ...]
    type_name: str
    strides: tuple[int, ...] | None = None

    @property
    def dtype(self) -> DType:
        """Return the element type; unknown names raise `ShapeError`."""
        if self.type_name not in DTYPES:
            raise ShapeError(f"element type {self.type_name[:60]!r} is not known")
        return DTYPES[self.type_name]

    @property
    def elements(self) -> int:
        """Return the number of elements that it shows."""
        return math.prod(self.dims)

    @property
    def distinct_elements(self) -> int:
        """Return the number of different elements behind it.

        An expanded dimension (stride 0) counts once; overlapping windows count at most the span
        1 + sum((extent - 1) * stride). Without recorded strides: `elements`.
        """
        if self.strides is None or not self.elements:
            return self.elements
        moves = [(n, s) for n, s in zip(self.dims, self.strides, strict=True) if s]
        span = 1 + sum((n - 1) * abs(s) for n, s in moves)
        return min(math.prod(n for n, _ in moves), span)

    @property
    def distinct_bytes(self) -> int:
        """Return the compulsory bytes to read it once."""
        return self.distinct_elements * self.dtype.bytes


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one operator call, by position in its schema."""

    tensors: tuple[Tensor | tuple[Tensor, ...] | None, ...]
    concrete: tuple[str, ...] | None = None
    """Text of the other arguments, empty for tensors; None when it was not recorded."""
    partner: tuple[str, Call] | None = None
    """Name and arguments of the operator that recorded what this one left out: the backward of a
    convolution, the lookup of an embedding's backward (see `costs.related`)."""

    def tensor(self, position: int) -> Tensor:
        """Return the tensor at a position, or raise `ShapeError`."""
        found = self.tensors[position] if position < len(self.tensors) else None
        if not isinstance(found, Tensor):
            raise ShapeError(f"argument {position} has no recorded tensor")
        return found

    def optional(self, position: int) -> Tensor | None:
        """Return the tensor at a position, or None when the argument was left out."""
        found = self.tensors[position] if position < len(self.tensors) else None
        return found if isinstance(found, Tensor) else None

    def text(self, position: int) -> str | None:
        """Return the recorded text of an argument; None when it was not recorded."""
        if self.concrete is None or not 0 <= position < len(self.concrete):
            return None
        return self.concrete[position]

    def flag(self, position: int) -> bool:
        """Return a boolean argument, or raise `ShapeError` when it was not recorded."""
        text = self.text(position)
        if text not in {"True", "False"}:
            raise ShapeError(f"argument {position} (true or false) was not recorded")
        return text == "True"


def parse(
    dims: str | None, types: str | None, strides: str | None = None, concrete: str | None = None
) -> Call:
    """Read the four JSON columns of one operator; raise `ShapeError` with the reason if unusable.

    An entry that cannot be used leaves its own argument unknown; only dims and types that are no
    lists of equal length make the whole call unknown.
    """
    if dims is None or types is None:
        raise ShapeError("shapes were not recorded")
    extents, names = _array(dims, "input dims"), _array(types, "input types")
    if len(extents) != len(names):
        raise ShapeError(f"{len(extents)} input dims but {len(names)} input types")
    steps = _optional_array(strides, len(extents))
    tensors = tuple(_entry(e, n, s) for e, n, s in zip(extents, names, steps, strict=True))
    return Call(tensors, _texts(concrete))


def broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the extents of two tensors taken together element by element (NumPy's rules).

    (2,1,4) and (3,1): (2,3,4). Raises `ShapeError` where two extents differ and neither is 1.
    """
    width = max(len(left), len(right))
    pairs = zip((1,) * (width - len(left)) + left, (1,) * (width - len(right)) + right, strict=True)
    out = []
    for a, b in pairs:
        if a != b and 1 not in (a, b):
            raise ShapeError(f"{list(left)} and {list(right)} do not broadcast")
        out.append(b if a == 1 else a)
    return tuple(out)


def coded(text: str | None) -> DType | None:
    """Return the type that the text of a `dtype=` argument names; None when it names none."""
    return _CODES.get(text or "")


def label(call: Call) -> str:
    """Write the tensors of a call as in `[128,512] bf16 x [512,512] bf16`; others are left out."""
    return " x ".join(_label(t) for t in call.tensors if t is not None) or "no tensors"


def _label(tensor: Tensor | tuple[Tensor, ...]) -> str:
    if isinstance(tensor, tuple):
        return f"{len(tensor)} tensors"
    extents = ",".join(str(n) for n in tensor.dims)
    known = DTYPES.get(tensor.type_name)
    return f"[{extents}] {known.precision if known else tensor.type_name[:60]}"


def _array(text: str, what: str) -> list[object]:
    if len(text) > MAX_TEXT_CHARS:
        raise ShapeError(f"{what} are longer than {MAX_TEXT_CHARS} characters")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ShapeError(f"{what} are not JSON") from error
    if not isinstance(value, list):
        raise ShapeError(f"{what} are not a list")
    return value


def _optional_array(text: str | None, length: int) -> list[object]:
    try:
        value = [] if text is None else _array(text, "input strides")
    except ShapeError:
        value = []
    return value if len(value) == length else [None] * length


def _texts(text: str | None) -> tuple[str, ...] | None:
    try:
        value = None if text is None else _array(text, "concrete inputs")
    except ShapeError:
        return None
    return None if value is None else tuple(v if isinstance(v, str) else "" for v in value)


def _entry(dims: object, name: object, strides: object) -> Tensor | tuple[Tensor, ...] | None:
    if isinstance(dims, list) and dims and all(isinstance(d, list) for d in dims):
        return _tensor_list(dims, name, strides)
    return _tensor(dims, name, strides)


def _tensor(dims: object, name: object, strides: object) -> Tensor | None:
    if not isinstance(dims, list):
        return None
    extents = _integers(dims)
    # `[]` is a tensor without dimensions only when its type says that it is a tensor.
    if extents is None or not isinstance(name, str) or (not dims and name not in DTYPES):
        return None
    return Tensor(extents, name, _fitting(strides, len(extents)))


def _tensor_list(dims: list[object], name: object, strides: object) -> tuple[Tensor, ...] | None:
    names = name if isinstance(name, list) else [name] * len(dims)
    steps = strides if isinstance(strides, list) and len(strides) == len(dims) else []
    parts = [
        _tensor(d, n, s) for d, n, s in zip(dims, names, steps or [None] * len(dims), strict=False)
    ]
    tensors = tuple(p for p in parts if p is not None)
    return tensors if len(tensors) == len(dims) else None


def _integers(values: list[object]) -> tuple[int, ...] | None:
    if len(values) > MAX_DIMS:
        return None
    good = tuple(v for v in values if type(v) is int and 0 <= v < MAX_EXTENT)
    return good if len(good) == len(values) and math.prod(good) < MAX_EXTENT else None


def _fitting(strides: object, length: int) -> tuple[int, ...] | None:
    if not isinstance(strides, list) or len(strides) != length:
        return None
    good = tuple(v for v in strides if type(v) is int and abs(v) < MAX_EXTENT)
    return good if len(good) == length else None
