"""Which curves share a chart, which come first, and which say nothing of their own."""

from dataclasses import dataclass, field

from rlinf_npu.recap.scalars import Series

# The charts worth looking at first, by step; whatever else TensorBoard holds follows, times last.
FIRST = {
    "value_sft": ("loss", "mae", "value_spearman", "grad_norm", "lr", "predicted_value_mean"),
    "cfg_rl": (
        "loss", "conditional_loss", "unconditional_loss", "grad_norm", "learning_rate", "conditional_ratio",
    ),
}  # fmt: skip
SMOOTHING = 0.95


@dataclass
class Panel:
    """One chart: a quantity, as trained, as evaluated, as evaluated on each dataset."""

    title: str
    curves: dict[str, Series] = field(default_factory=dict)


@dataclass
class Sheet:
    """All charts of a step; curves that never change, and curves that are copies of others, as text only."""

    panels: list[Panel] = field(default_factory=list)
    constants: dict[str, float] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)


def arrange(step: str, series: dict[str, Series]) -> Sheet:
    """Put TensorBoard's scalars (`train/loss`, `eval/loss`, `eval/<dataset>/loss`, `time/step`) into charts."""
    sheet, panels, seen = Sheet(), dict[str, Panel](), dict[tuple[tuple[int, float], ...], str]()
    for name in sorted(series, key=lambda name: _rank(step, name)):
        curve = series[name]
        key = tuple(sorted(curve.values.items()))
        if len(set(curve.values.values())) == 1 and len(curve.values) > 1:
            sheet.constants[name] = curve.last
        elif key in seen:
            sheet.same[name] = seen[key]
        else:
            seen[key] = name
            quantity, label = split(name)
            panels.setdefault(quantity, Panel(quantity)).curves[label] = curve
    sheet.panels = list(panels.values())
    return sheet


def split(name: str) -> tuple[str, str]:
    """Return (chart, label) of a scalar: `eval/task/loss` -> (`loss`, `eval task`)."""
    place, _, rest = name.partition("/")
    if place not in ("train", "eval"):
        return (f"{name} (s)" if place == "time" else name), ""
    dataset, _, quantity = rest.rpartition("/")
    return quantity, f"{place} {dataset}".strip()


def _rank(step: str, name: str) -> tuple[int, int, int, str]:
    quantity, label = split(name)
    first = FIRST[step]
    place = first.index(quantity) if quantity in first else len(first)
    # Training before evaluation, the whole before its datasets.
    return place, int(name.startswith("time/")), 2 * label.count(" ") + int(label.startswith("eval")), name


def smooth(values: list[float]) -> list[float]:
    """Return the moving average that TensorBoard draws: exponential, corrected for its start."""
    smoothed, last, weight = [], 0.0, 0.0
    for value in values:
        last = SMOOTHING * last + (1 - SMOOTHING) * value
        weight = SMOOTHING * weight + (1 - SMOOTHING)
        smoothed.append(last / weight)
    return smoothed
