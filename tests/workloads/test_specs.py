import dataclasses
import subprocess
import sys

import pytest

from workbench import workloads
from workbench.capture import CapturePlan
from workbench.errors import UsageError
from workbench.workloads.fields import check, param
from workbench.workloads.gpt import PRESETS, GptSpec


def test_registry_lists_gpt_with_its_presets():
    assert "gpt" in workloads.names()
    assert list(workloads.get("gpt").presets) == ["tiny", "small", "full"]
    assert set(workloads.get("gpt").preset_help) == set(PRESETS)


def test_registry_needs_no_torch():
    code = "import sys, workbench.workloads as w; w.get('gpt'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UsageError, match="did you mean gpt"):
        workloads.get("gtp")
    with pytest.raises(UsageError, match="did you mean tiny"):
        workloads.get("gpt").preset("tinny")
    with pytest.raises(UsageError, match="did you mean layers"):
        workloads.get("gpt").resolve("tiny", {"layer": "3"})


def test_overrides_are_parsed_by_field_type():
    texts = {"layers": "3", "rope_theta": "5e5", "tied_embeddings": "yes", "precision": "bf16"}
    spec = workloads.get("gpt").resolve("tiny", texts)
    assert (spec.layers, spec.rope_theta, spec.tied_embeddings) == (3, 500_000.0, True)
    assert spec.precision == "bf16"
    assert workloads.get("gpt").resolve("tiny", {"layers": 3}).layers == 3


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("layers", "two", "layers='two' is not a whole number"),
        ("layers", "2.5", "layers='2.5' is not a whole number"),
        ("layers", "0", "layers=0 is below its minimum, 1"),
        ("layers", "9999", "layers=9999 is above its maximum, 1024"),
        ("tied_embeddings", "maybe", "is not true or false"),
        ("precision", "fp8", "precision='fp8' is not one of fp32, tf32, bf16"),
        ("learning_rate", "nan", "not a finite number"),
        ("learning_rate", "", "learning_rate='' is not a number"),
    ],
)
def test_bad_values_are_named(key, text, words):
    with pytest.raises(UsageError) as caught:
        workloads.get("gpt").resolve("tiny", {key: text})
    assert words in str(caught.value)


def test_values_of_a_wrong_type_are_refused():
    with pytest.raises(UsageError, match="layers=True is not a whole number"):
        GptSpec(layers=True)
    with pytest.raises(UsageError, match=r"layers=2\.0 is not a whole number"):
        GptSpec(layers=2.0)


@pytest.mark.parametrize(
    ("values", "first", "second"),
    [
        ({"hidden": 130}, "hidden=130", "heads=4"),
        ({"kv_heads": 3}, "heads=4", "kv_heads=3"),
        ({"hidden": 12}, "hidden=12", "heads=4"),
        ({"positions": "learned", "rope_factor": 8.0}, "positions=learned", "rope_factor=8"),
        ({"cuda_graphs": True, "compile": "reduce-overhead"}, "cuda_graphs=true", "compile="),
        ({"accumulate": 2, "compile": "max-autotune"}, "accumulate=2", "compile=max-autotune"),
        ({"optimizer": "lamb", "fusion": "fused"}, "optimizer=lamb", "fusion=fused"),
    ],
)
def test_cross_field_errors_name_both_fields(values, first, second):
    with pytest.raises(UsageError) as caught:
        GptSpec(**values)
    assert first in str(caught.value)
    assert second in str(caught.value)


def test_settings_are_split_at_the_first_equals_sign():
    assert workloads.split_settings(["layers=3", "kv-heads=1"]) == {"layers": "3", "kv_heads": "1"}
    with pytest.raises(UsageError, match="KEY=VALUE"):
        workloads.split_settings(["layers"])
    with pytest.raises(UsageError, match="layers is set twice"):
        workloads.split_settings(["layers=1", "layers=2"])


def test_description_is_enough_for_a_form():
    infos = {info.name: info for info in workloads.get("gpt").describe("full")}
    assert infos["layers"].default == 32
    assert (infos["layers"].type, infos["layers"].minimum) == (int, 1)
    assert infos["precision"].choices[:3] == ("fp32", "tf32", "bf16")
    assert all(info.help for info in infos.values())
    assert set(infos) == {f.name for f in dataclasses.fields(GptSpec)}


def test_the_shape_of_the_model_stands_before_the_options_of_all_workloads():
    names = [info.name for info in workloads.get("gpt").describe()]
    assert names[:3] == ["layers", "hidden", "heads"]
    assert names.index("batch") < names.index("parallel") < names.index("precision")
    assert names[-1] == "seed"


def test_a_spec_survives_storage_as_plain_values():
    spec = workloads.get("gpt").resolve("small", {"seq": 64})
    assert workloads.get("gpt").spec(dataclasses.asdict(spec)) == spec
    assert hash(spec)


def test_specs_are_frozen_and_keyword_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GptSpec().layers = 3
    with pytest.raises(TypeError):
        GptSpec(3)


def test_check_reads_bounds_from_the_declaration():
    @dataclasses.dataclass(frozen=True)
    class Spec:
        width: "int" = param(8, "width", minimum=4)  # noqa: RUF009 - it makes a field

    check(Spec())
    with pytest.raises(UsageError, match="width=3 is below"):
        check(Spec(width=3))


@pytest.mark.parametrize(
    ("values", "run", "words"),
    [
        ({"precision": "tf32"}, {"device": "cpu"}, ("precision=tf32", "device=cpu")),
        ({"cuda_graphs": True}, {"device": "cpu"}, ("cuda_graphs=true", "device=cpu")),
        ({"compile": "max-autotune"}, {"device": "cpu"}, ("compile=max-autotune", "device=cpu")),
        ({"attention": "efficient"}, {"device": "cpu"}, ("attention=efficient", "device=cpu")),
        ({"cuda_graphs": True}, {"ranks": 2}, ("cuda_graphs=true", "ranks=2")),
        ({"parallel": "tensor"}, {"ranks": 4}, ("kv_heads=2", "ranks=4")),
    ],
)
def test_options_that_cannot_run_there_name_both(values, run, words):
    spec = GptSpec(**values)
    spec.check_run(device="cuda", ranks=1)
    with pytest.raises(UsageError) as caught:
        spec.check_run(**({"device": "cuda", "ranks": 1} | run))
    for word in words:
        assert word in str(caught.value)


def test_a_plan_refuses_what_cannot_run_there():
    with pytest.raises(UsageError, match="kv_heads=2 over ranks=4"):
        CapturePlan(workload="gpt", ranks=4, overrides={"parallel": "tensor"})


def test_specs_of_older_run_folders_are_read():
    older = {"layers": 3, "recompute": True, "fused_optimizer": True}
    assert workloads.get("gpt").spec(older) == GptSpec(layers=3, recompute="full", fusion="fused")
    assert workloads.get("gpt").spec({"recompute": False, "fused_optimizer": False}) == GptSpec()
