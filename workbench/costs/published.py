"""Published training throughput (data/published/step_times.csv), and whether its FLOPs close.

A row with tokens a second and TFLOPS (or MFU) of one GPU implies FLOPs per token; the same figure
follows from the configuration under the convention of the source. Conventions are those that the
sources document, one for each source.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import polars as pl

from workbench import resources
from workbench.costs import hardware
from workbench.costs.transformer import Experts, Latent, TransformerConfig, model_flops_per_token
from workbench.errors import InputError

_TEXT, _COUNT, _NUMBER = pl.String(), pl.Int64(), pl.Float64()
SCHEMA = pl.Schema(
    {
        "source": _TEXT,
        "url_or_repo_path": _TEXT,
        "model": _TEXT,
        "params_B": _NUMBER,
        **dict.fromkeys(("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab"), _COUNT),
        **dict.fromkeys(("seq_len", "global_batch", "micro_batch", "gpus"), _COUNT),
        "gpu_type": _TEXT,
        **dict.fromkeys(("tp", "pp", "vpp", "cp", "ep", "dp", "fsdp_zero_stage"), _COUNT),
        "activation_recompute": _TEXT,
        "precision": _TEXT,
        **dict.fromkeys(("tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "step_time_s"), _NUMBER),
        "notes": _TEXT,
        "task": _TEXT,
        "tier": _COUNT,
        **dict.fromkeys(("provenance", "step_src", "tokens_src", "check", "check_note"), _TEXT),
        **dict.fromkeys(("implied_flops_per_token_G", "expected_flops_per_token_G"), _NUMBER),
        "grad_accum": _NUMBER,
        "head_dim": _COUNT,
        "gated_mlp": _COUNT,
        "tied_emb": _COUNT,
        "memory_GiB": _TEXT,
    }
)
"""Of the file; figures are of one GPU, `task` pretrain, sft or lora, and `check` says whether the
row agrees with itself: ok, unchecked or CONFLICT."""
CLOSURE = pl.Schema(
    {
        "source": _TEXT,
        "model": _TEXT,
        "seq_len": _COUNT,
        "gpu_type": _TEXT,
        "precision": _TEXT,
        "convention": _TEXT,
        "configuration": _TEXT,
        "flops_per_token": _NUMBER,
        "implied_flops_per_token": _NUMBER,
        "ratio": _NUMBER,
        "reason": _TEXT,
    }
)
"""`configuration` says where the shape comes from beyond the columns; `reason` why `ratio` is null,
or shows nothing."""
CIRCULAR = "its tokens a second were computed from TFLOPS by the same formula"
_CONVENTIONS = {
    # Its README: "3 * (2 * P * s + 4 * L * h * s^2)", P with embeddings, attention not halved.
    "MosaicML llm-foundry": "llm-foundry",
    # Megatron-LM's counter, which halves causal attention in these releases.
    "NVIDIA Megatron-Bridge performance summary": "megatron",
    # The papers' formula, and the counters of NeMo and Megatron-LM before they halved attention.
    "Korthikanti et al.": "megatron_full",
    "NVIDIA DGX Cloud Benchmarking": "megatron_full",
    "Megatron-Core r0.8": "megatron_full",
}
_PRECISIONS = {"mxfp8": "fp8", "nvfp4": "fp4"}
_EXPERTS = re.compile(
    r"MoE: (?P<routed>\d+) (?:experts|routed) top-(?P<top_k>\d+)(?: \+ (?P<shared>\d+) shared)?, "
    r"expert ffn (?P<width>\d+)(?:, first (?P<dense>\d+) layers dense ffn (?P<ffn>\d+))?"
)
_LATENT = {
    # config.json of deepseek-ai/DeepSeek-V3: q_lora_rank, kv_lora_rank, qk_nope, qk_rope, v.
    "DeepSeek-V3": Latent(
        query_rank=1536, key_value_rank=512, nope_dim=128, rope_dim=64, value_dim=128
    ),
}


@cache
def step_times() -> pl.DataFrame:
    """Return the table of published step times, a row a measured run; see `SCHEMA`."""
    path = resources.data() / "published" / "step_times.csv"
    try:
        found = pl.read_csv(path, schema_overrides=SCHEMA)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"The table {path.name} cannot be read ({error}); restore it from the project."
        ) from error
    if found.schema != SCHEMA:
        raise InputError(f"The table {path.name} has other columns; restore it from the project.")
    return found


def convention_of(source: str) -> str | None:
    """Return the name of the convention that a source of the table documents."""
    return next((name for start, name in _CONVENTIONS.items() if source.startswith(start)), None)


def config_of(row: dict[str, Any]) -> tuple[TransformerConfig, str]:
    """Return the shape of a row's model, and where it comes from.

    `columns`; experts are told by the notes alone, and the widths of latent attention by no column.
    MPT models learn their positions (llm-foundry, `learned_pos_emb`), and training of DeepSeek-V3
    has one module of multi-token prediction unless the notes say "w/o MTP".
    """
    notes = row["notes"] or ""
    found = _EXPERTS.search(notes)
    latent = _LATENT.get(row["model"])
    predicted = row["model"] == "DeepSeek-V3" and "w/o MTP" not in notes
    config = TransformerConfig(
        layers=row["layers"],
        hidden=row["hidden"],
        ffn_hidden=_whole(found["ffn"]) if found else row["ffn_hidden"],
        heads=row["heads"],
        kv_heads=row["kv_heads"],
        head_dim=row["head_dim"] or row["hidden"] // row["heads"],
        vocab=row["vocab"],
        seq_len=row["seq_len"],
        gated_mlp=bool(row["gated_mlp"]),
        tied_embeddings=bool(row["tied_emb"]),
        learned_positions=row["model"].startswith("MPT-"),
        experts=_experts(found) if found else None,
        latent=latent,
        predicted_tokens=int(predicted),
    )
    beyond = ["notes"] * bool(found) + ["config.json"] * bool(latent)
    return config, ", ".join(["columns", *beyond])


def _experts(found: re.Match[str]) -> Experts:
    return Experts(
        routed=int(found["routed"]),
        top_k=int(found["top_k"]),
        ffn_hidden=int(found["width"]),
        shared=int(found["shared"] or 0),
        dense_layers=int(found["dense"] or 0),
    )


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def implied_flops_per_token(row: dict[str, Any]) -> float | None:
    """Return TFLOPS / tokens a second of a row, or MFU x dense peak / tokens a second; else null.

    The peak is the data sheet's (data/hardware.csv) of the row's GPU and precision.
    """
    tokens, rate = row["tokens_per_s_per_gpu"], row["tflops_per_gpu"]
    if not tokens:
        return None
    if rate:
        return float(rate) * hardware.TERA / float(tokens)
    part = next((p for p in hardware.table() if p.part == row["gpu_type"]), None)
    precision = _PRECISIONS.get(row["precision"], row["precision"])
    peak = part.peak(precision, "matrix") if part else None
    return float(row["mfu"]) * peak / float(tokens) if peak and row["mfu"] else None


def closure() -> pl.DataFrame:
    """Return, for each row marked ok with both figures, computed over implied FLOPs per token.

    Both figures: tokens a second, and TFLOPS or MFU. `ratio` is 1 where the row's configuration
    gives what it implies under its source's convention; see `CLOSURE`.
    """
    both = pl.col("tokens_per_s_per_gpu").is_not_null() & (
        pl.col("tflops_per_gpu").is_not_null() | pl.col("mfu").is_not_null()
    )
    rows = step_times().filter((pl.col("check") == "ok") & both)
    return pl.DataFrame([_closed(row) for row in rows.iter_rows(named=True)], schema=CLOSURE)


def _closed(row: dict[str, Any]) -> dict[str, object]:
    name, implied = convention_of(row["source"]), implied_flops_per_token(row)
    known = {n: row[n] for n in ("source", "model", "seq_len", "gpu_type", "precision")}
    if name is None or implied is None:
        missing = "the source documents no convention" if name is None else "no peak of its GPU"
        return known | {"convention": name, "reason": missing}
    config, where = config_of(row)
    computed = model_flops_per_token(config, name)
    return known | {
        "convention": name,
        "configuration": where,
        "flops_per_token": computed,
        "implied_flops_per_token": implied,
        "ratio": computed / implied,
        "reason": CIRCULAR if row["tokens_src"].startswith("derived from TFLOPS") else None,
    }
