"""FLOPs and bytes of table-batched embedding lookups and their fused backwards (FBGEMM).

All tables lie in one flat tensor. Which rows are looked up is in the values of the indices, which
no recording holds: rows are taken to be different, up to the whole table, and tables of different
widths to share the lookups evenly (mean width = columns of the output / tables). Pooled sums are
counted only where every table is known to have the same width; the division of a mean is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.costs import arguments
from workbench.costs.cost import Cost
from workbench.costs.lookup_calls import BACKWARDS, DENSE, FORWARDS, Lookup, signature
from workbench.costs.shapes import Call, ShapeError, Tensor

if TYPE_CHECKING:
    from workbench.costs.cost import Model

UNKNOWN = "which rows, of which width, are looked up and added up is not recorded"
FLOATS = frozenset({"fp64", "fp32", "fp16", "bf16"})


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one lookup works on; counts are elements."""

    weights: Tensor
    table: int
    lookups: int
    bags: int
    tables: int
    columns: int
    """Width of one row of the output, all tables beside each other."""
    asked_bytes: int
    """Indices, offsets and sample weights."""
    weighted: bool
    uniform: bool
    """Every table has the same width."""

    @property
    def touched(self) -> int:
        """Return the elements of the rows that are looked up."""
        return min(self.lookups * self.columns // self.tables, self.table)

    @property
    def adds(self) -> int | None:
        """Return a multiply-add or an add for each element looked up; None: not known."""
        each = 2 if self.weighted else 1
        return each * self.lookups * self.columns // self.tables if self.uniform else None


def _batch(call: Call, form: Lookup, grad: Tensor | None) -> _Batch:
    parts = [t for t in (call.optional(p) for p in form.weights) if t is not None and t.elements]
    if not parts:
        raise ShapeError("the tables were not recorded")
    indices, offsets = call.tensor(form.indices), call.tensor(form.offsets)
    tables = call.tensor(form.widths).elements - 1
    bags = (offsets.elements - 1) // tables if tables > 0 else 0
    if bags < 1 or bags * tables != offsets.elements - 1:
        raise ShapeError("the offsets do not fit the number of tables")
    table = sum(t.elements for t in parts)
    columns = _columns(call, form, grad, bags) or _width_of_one(call, form, tables, table)
    if columns is None:
        raise ShapeError("the width of the tables was not recorded")
    samples = call.optional(form.sample_weights)
    asked = [indices, offsets, *([samples] if samples else [])]
    return _Batch(
        weights=parts[0],
        table=table,
        lookups=indices.elements,
        bags=bags,
        tables=tables,
        columns=columns,
        asked_bytes=sum(t.distinct_bytes for t in asked),
        weighted=samples is not None,
        uniform=tables == 1 or _widest(call, form) == columns / tables,
    )


def _columns(call: Call, form: Lookup, grad: Tensor | None, bags: int) -> int | None:
    """Return the width of the output: an argument, or that of the gradient in the backward."""
    if call.concrete is not None:
        return arguments.integer(call, form.total_width)
    fits = grad is not None and len(grad.dims) == 2 and grad.dims[0] == bags  # noqa: PLR2004
    return grad.dims[1] if grad is not None and fits else None


def _width_of_one(call: Call, form: Lookup, tables: int, table: int) -> int | None:
    """Return the width of the only table: its elements over the rows of a row-wise state."""
    state = None if form.state is None else call.optional(form.state)
    rows = state.elements if state else 0
    return table // rows if tables == 1 and rows and table % rows == 0 else None


def _widest(call: Call, form: Lookup) -> int | None:
    return None if call.concrete is None else arguments.integer(call, form.max_width)


def _forward(kind: str) -> Model:
    form = signature(kind)

    def model(call: Call) -> Cost:
        """Price the sums of looked-up rows: lookups * width adds (2 FLOPs with sample weights).

        Reads indices, offsets and the rows, writes bags * columns elements.
        """
        name, other = call.partner or ("", None)
        grad = other.optional(0) if other is not None and BACKWARDS.get(name) == kind else None
        batch = _batch(call, form, grad)
        written = _written(call, form, batch, grad)
        pools = _pools(call, form, grad)
        flops = None if pools is None else batch.adds if pools else 0
        read = batch.asked_bytes + batch.touched * batch.weights.dtype.bytes
        return _cost(batch, flops, read, written)

    return model


UNPOOLED = 2
"""The pooling mode that gives a row for each lookup."""


def _pools(call: Call, form: Lookup, grad: Tensor | None) -> bool | None:
    """Say whether rows are added up in bags; the backward of a lookup without has another name."""
    if call.concrete is not None:
        return arguments.integer(call, form.pooling) != UNPOOLED
    return None if grad is None else True


def _written(call: Call, form: Lookup, batch: _Batch, grad: Tensor | None) -> int | None:
    if grad is not None:
        return grad.elements * grad.dtype.bytes
    pools = _pools(call, form, grad)
    if pools is None:
        return None
    rows = batch.bags if pools else batch.lookups / batch.tables
    # The output is fp32 unless asked otherwise, whatever the tables hold.
    return round(rows * batch.columns) * 4


def _backward(kind: str) -> Model:
    form = signature(kind)

    def model(call: Call) -> Cost:
        """Price the update of the looked-up rows and of the optimiser's state for them.

        Reads the gradient, indices and offsets; rows and state are read and written. The dense
        form writes a gradient for the whole table instead. FLOPs depend on how many rows are
        different, which is not recorded.
        """
        grad = call.tensor(0)
        name, other = call.partner or ("", None)
        if other is None or FORWARDS.get(name) != kind:
            raise ShapeError("the lookup that it belongs to was not found")
        batch = _batch(other, form, grad)
        asked = grad.distinct_bytes + batch.asked_bytes
        size = batch.weights.dtype.bytes
        if kind == DENSE:
            return _cost(batch, None, asked, batch.table * size)
        touched = batch.touched * size + _state_bytes(other, form, batch)
        return _cost(batch, None, asked + touched, touched)

    return model


def _state_bytes(call: Call, form: Lookup, batch: _Batch) -> int:
    """Return the bytes of the optimiser's state for the touched part of the table."""
    state = [t for t in call.tensors[form.state :] if isinstance(t, Tensor)]
    known = [t for t in state if t.dtype.precision in FLOATS and len(t.dims) == 1]
    whole = sum(t.elements * t.dtype.bytes for t in known)
    return whole * batch.touched // batch.table


def _cost(batch: _Batch, flops: int | None, read: int, written: int | None) -> Cost:
    return Cost(
        flops=flops,
        read_bytes=read,
        write_bytes=written,
        precision=batch.weights.dtype.precision,
        unit="vector",
        model="embedding",
        unknown=UNKNOWN if None in {flops, written} else None,
    )


MODELS: dict[str, Model] = {
    **{name: _forward(kind) for name, kind in FORWARDS.items()},
    **{name: _backward(kind) for name, kind in BACKWARDS.items()},
}
WRAPPERS = frozenset[str]()
