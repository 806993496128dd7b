"""The spec of the `dlrm_dcnv2` workload: click prediction from 26 embedding tables. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from workbench.errors import UsageError
from workbench.workloads import products
from workbench.workloads.fields import param
from workbench.workloads.options import Options
from workbench.workloads.products import Product, linear

DENSE_FEATURES = 13
# mlcommons/training recommendation_v2/torchrec_dlrm/README (2023): num_embeddings_per_feature and
# multi_hot_sizes. Criteo's identifiers, taken modulo 40,000,000, and how many each sample has.
ROWS = (
    40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282,
    10, 2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108,
    36,
)  # fmt: skip
BAGS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


@dataclass(frozen=True, kw_only=True)
class DlrmSpec(Options):
    """Tables, layers and optimiser; the defaults are the preset `tiny`."""

    most_rows: int = param(
        1000, "rows of a table at most: larger identifiers wrap round", minimum=1
    )
    embedding: int = param(32, "width of an embedding", minimum=1)
    dense_hidden: int = param(
        64, "width of the first of three layers for dense features", minimum=4
    )
    cross_layers: int = param(3, "layers of the cross network", minimum=1, maximum=64)
    cross_rank: int = param(64, "rank of the cross network's matrices", minimum=1)
    over_hidden: int = param(256, "width of the first two of five last layers", minimum=4)
    sparse_gradients: bool = param(
        False, "gradients of the rows that were looked up, not of whole tables"
    )
    parallel: str = param("ddp", "how several ranks share the work", choices=("ddp",))

    def __post_init__(self) -> None:
        """Check each field, then what sparse gradients exclude."""
        super().__post_init__()
        if self.sparse_gradients:
            self._check_sparse()

    def _check_sparse(self) -> None:
        excluded = {
            "fusion": self.fusion in ("fused", "foreach"),
            "weight_decay": self.weight_decay > 0,
            "clip_norm": self.clip_norm > 0,
            "cuda_graphs": self.cuda_graphs,
        }
        if self.optimizer not in ("adagrad", "sgd"):
            raise UsageError(
                f"optimizer={self.optimizer} cannot use sparse_gradients=true; "
                "choose adagrad or sgd, or leave sparse_gradients off."
            )
        for name in (name for name, is_set in excluded.items() if is_set):
            raise UsageError(
                f"{name}={str(getattr(self, name)).lower()} and sparse_gradients=true exclude each "
                "other: it needs the gradient of every row; leave one of them off."
            )

    def check_run(self, *, device: str, ranks: int) -> None:
        """Refuse what cannot run here: only gloo averages sparse gradients."""
        super().check_run(device=device, ranks=ranks)
        if self.sparse_gradients and ranks > 1 and device != "cpu":
            raise UsageError(
                f"sparse_gradients=true and ranks={ranks} exclude each other on GPUs: NCCL "
                "averages dense gradients alone; use one of them."
            )

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the rows of each table."""
        return tuple(min(rows, self.most_rows) for rows in ROWS)

    @property
    def crossed(self) -> int:
        """Return the width of the cross network: all embeddings and the dense features' layers."""
        return (len(ROWS) + 1) * self.embedding


DISTINCTIVE = (
    "26 embedding tables, sums of 1 to 100 rows each (Criteo's multi-hot sizes)",
    "layers for 13 dense features",
    "low-rank cross network of three layers (DCN v2)",
    "five last layers, binary cross-entropy, Adagrad",
)
_spec = partial(DlrmSpec, optimizer="adagrad", weight_decay=0.0)
PRESETS = {
    "tiny": _spec(batch=256, learning_rate=0.005),
    "small": _spec(
        most_rows=1_000_000,
        embedding=128,
        dense_hidden=512,
        cross_rank=512,
        over_hidden=1024,
        batch=8192,
        learning_rate=0.005,
        sparse_gradients=True,
    ),
    # The same README: dense 512-256-128, over 1024-1024-512-256-1, three cross layers of rank 512,
    # 65,536 samples on 8 GPUs.
    "full": _spec(
        most_rows=40_000_000,
        embedding=128,
        dense_hidden=512,
        cross_rank=512,
        over_hidden=1024,
        batch=8192,
        learning_rate=0.005,
    ),
}
SUMMARY = "DLRM with DCN v2: 26 embedding tables, low-rank cross network, MLPs, Adagrad"
INCLUDED = "all 26 tables (26,135,627,264) and the dense layers"
SOURCE = "mlcommons/training recommendation_v2/torchrec_dlrm, README (2023)"
PRESET_HELP = {
    "tiny": "all tables, of 1,000 rows at most",
    "small": "tables of a million rows at most, for one GPU",
    "full": "DLRM-DCNv2 of MLPerf Training; its fp32 weights alone need 105 GB",
}


def layers(spec: DlrmSpec) -> Iterator[Product]:
    """Yield what a sample passes; looking rows up and adding them is no product."""
    for width in dense_widths(spec):
        yield linear(*width, passes=width[0] != DENSE_FEATURES)
    for _ in range(spec.cross_layers):
        yield linear(spec.crossed, spec.cross_rank, bias=False)
        yield linear(spec.cross_rank, spec.crossed)
    for width in over_widths(spec):
        yield linear(*width)


def dense_widths(spec: DlrmSpec) -> list[tuple[int, int]]:
    """Return inputs and outputs of each layer for the dense features."""
    hidden = spec.dense_hidden
    return _pairs(DENSE_FEATURES, hidden, hidden // 2, spec.embedding)


def over_widths(spec: DlrmSpec) -> list[tuple[int, int]]:
    """Return inputs and outputs of each of the last layers."""
    hidden = spec.over_hidden
    return _pairs(spec.crossed, hidden, hidden, hidden // 2, hidden // 4, 1)


def _pairs(*widths: int) -> list[tuple[int, int]]:
    return list(pairwise(widths))


def parameters(spec: DlrmSpec) -> int:
    """Count the parameters from the configuration, all tables included."""
    return sum(spec.rows) * spec.embedding + products.parameters(layers(spec))


def flops(spec: DlrmSpec) -> int:
    """Count the matrix FLOPs of a step on a rank: forward, and backward without the data's own."""
    return spec.batch * spec.accumulate * products.flops(layers(spec))
