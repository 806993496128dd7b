import pytest
import torch

from workbench.errors import UsageError
from workbench.workloads import get
from workbench.workloads.dlrm_dcnv2 import BAGS, PRESETS, ROWS
from workbench.workloads.dlrm_dcnv2_model import Cross, batch
from workbench.workloads.training import Training

CPU = torch.device("cpu")


def test_dlrm_of_mlperf_by_hand():
    # tables     204,184,588 rows x 128                                        = 26,135,627,264
    # dense      13x512+512 + 512x256+256 + 256x128+128                        =        171,392
    # cross      3 x (2 x 3456 x 512 + 3456), 3456 = 27 x 128                  =     10,627,200
    # over       3456x1024+1024 + 1024x1024+1024 + 1024x512+512 + 512x256+256
    #            + 256+1                                                       =      5,245,953
    assert get("dlrm_dcnv2").parameters(PRESETS["full"]) == 26_151_671_809


def test_there_are_26_tables_and_214_rows_a_sample():
    assert (len(ROWS), len(BAGS)) == (26, 26)
    assert sum(BAGS) == 214
    # The largest identifiers wrap round at the number of rows that a table may have.
    assert get("dlrm_dcnv2").resolve("full", {"most_rows": 1000}).rows[:6] == (
        1000, 1000, 1000, 1000, 1000, 3,
    )  # fmt: skip


def test_a_cross_layer_by_hand():
    # x = (1, 2); V = (1 1), W = (1, 1), b = (0, 1): W V x + b = (3, 4); x + x * that = (4, 10).
    cross = Cross(2, 1, 1)
    cross.narrow[0].weight.data = torch.tensor([[1.0, 1.0]])
    cross.widen[0].weight.data = torch.tensor([[1.0], [1.0]])
    cross.widen[0].bias.data = torch.tensor([0.0, 1.0])
    assert cross(torch.tensor([[1.0, 2.0]])).tolist() == [[4.0, 10.0]]


def test_a_bag_is_the_sum_of_its_rows():
    training = Training(get("dlrm_dcnv2"), PRESETS["tiny"], device=CPU)
    table = training.module.tables[0]
    rows = torch.tensor([[3, 3, 5]])
    expected = 2 * table.weight[3] + table.weight[5]
    torch.testing.assert_close(table(rows)[0], expected)


def test_each_table_is_asked_for_rows_that_it_has():
    features, rows, clicks = batch(PRESETS["tiny"], torch.Generator().manual_seed(0))
    assert features.shape == (256, 13)
    assert rows.shape == (256, 214)
    highest = [part.max().item() for part in rows.split(list(BAGS), dim=1)]
    assert all(most < count for most, count in zip(highest, PRESETS["tiny"].rows, strict=True))
    assert set(clicks.tolist()) == {0.0, 1.0}


def test_sparse_gradients_train_like_dense_ones():
    def losses(**overrides):
        spec = get("dlrm_dcnv2").resolve("tiny", overrides)
        training = Training(get("dlrm_dcnv2"), spec, device=CPU)
        return [training.step().item() for _ in range(3)]

    assert losses(sparse_gradients=True) == pytest.approx(losses(), rel=1e-5)


@pytest.mark.parametrize(
    ("values", "other"),
    [
        ({"optimizer": "adamw"}, "optimizer=adamw"),
        ({"fusion": "fused"}, "fusion=fused"),
        ({"weight_decay": 0.1}, "weight_decay=0.1"),
        ({"clip_norm": 1.0}, "clip_norm=1.0"),
        ({"cuda_graphs": True}, "cuda_graphs=true"),
    ],
)
def test_what_sparse_gradients_exclude_is_named(values, other):
    with pytest.raises(UsageError) as caught:
        get("dlrm_dcnv2").resolve("tiny", {"sparse_gradients": True, **values})
    assert other in str(caught.value)
    assert "sparse_gradients=true" in str(caught.value)


def test_several_gpus_average_dense_gradients():
    spec = get("dlrm_dcnv2").resolve("tiny", {"sparse_gradients": True})
    spec.check_run(device="cpu", ranks=2)
    spec.check_run(device="cuda", ranks=1)
    with pytest.raises(UsageError, match="sparse_gradients=true and ranks=2"):
        spec.check_run(device="cuda", ranks=2)
