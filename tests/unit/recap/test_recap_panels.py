"""Which curves share a chart."""

import pytest
from rlinf_npu.recap.panels import arrange, smooth, split
from rlinf_npu.recap.scalars import Series


def series(**curves: list[float]) -> dict[str, Series]:
    return {name.replace("__", "/"): Series(dict(enumerate(values))) for name, values in curves.items()}


def test_training_and_evaluation_of_a_quantity_share_a_chart() -> None:
    sheet = arrange("value_sft", series(eval__loss=[3, 2], train__loss=[2, 1], train__mae=[1, 0]))
    assert [(panel.title, list(panel.curves)) for panel in sheet.panels] == [
        ("loss", ["train", "eval"]),
        ("mae", ["train"]),
    ]


def test_the_important_ones_first_and_times_last() -> None:
    names = ["time__step", "train__accuracy", "train__grad_norm", "train__loss"]
    sheet = arrange("cfg_rl", series(**{name: [number, 5] for number, name in enumerate(names)}))
    assert [panel.title for panel in sheet.panels] == ["loss", "grad_norm", "accuracy", "time/step (s)"]


def test_a_constant_is_text() -> None:
    sheet = arrange("cfg_rl", series(train__loss=[2, 1], train__ratio=[0, 0]))
    assert [panel.title for panel in sheet.panels] == ["loss"]
    assert sheet.constants == {"train/ratio": 0}


def test_a_single_value_is_a_chart() -> None:
    assert [panel.title for panel in arrange("cfg_rl", series(train__loss=[2])).panels] == ["loss"]


def test_the_only_dataset_of_an_evaluation_repeats_it() -> None:
    sheet = arrange("value_sft", series(eval__loss=[2, 1], eval__task__loss=[2, 1], eval__other__loss=[3, 1]))
    assert [list(panel.curves) for panel in sheet.panels] == [["eval", "eval other"]]
    assert sheet.same == {"eval/task/loss": "eval/loss"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train/loss", ("loss", "train")),
        ("eval/a/loss", ("loss", "eval a")),
        ("time/step", ("time/step (s)", "")),
        ("env/x", ("env/x", "")),
    ],
)
def test_split(name: str, expected: tuple[str, str]) -> None:
    assert split(name) == expected


def test_smooth_starts_at_the_first_value_and_follows_slowly() -> None:
    assert smooth([4.0, 4.0, 4.0]) == pytest.approx([4, 4, 4])
    rising = smooth([0.0] * 10 + [1.0] * 10)
    assert rising[9] == 0
    assert 0.3 < rising[-1] < 0.8
