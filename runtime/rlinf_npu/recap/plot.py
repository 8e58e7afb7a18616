"""`recap plot`: the curves of steps 2 and 4 as PNG files and one HTML page."""

import base64
import html
from pathlib import Path
from typing import Any

from rlinf_npu.recap.atomic import beside, write_text
from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.layout import EXPERIMENTS, TITLES, Run
from rlinf_npu.recap.scalars import Scalars, Series
from rlinf_npu.recap.state import load_state

# The curves worth looking at first, by step; whatever else TensorBoard holds follows.
FIRST = {
    "value_sft": (
        "train/loss",
        "eval/loss",
        "train/mae",
        "train/value_spearman",
        "eval/value_spearman",
        "train/grad_norm",
    ),
    "cfg_rl": (
        "train/loss",
        "train/conditional_loss",
        "train/unconditional_loss",
        "train/grad_norm",
        "train/learning_rate",
        "train/conditional_ratio",
    ),
}
COLUMNS = 3
PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px sans-serif;margin:2em;max-width:75em}}img{{max-width:100%}}</style>
<h1>{title}</h1>{sections}
"""


def write_plots(run: Run, out: Path) -> list[Path]:
    """Write <step>.png and index.html; return their paths.

    Raises:
        UsageError: there are no curves yet.
    """
    pictures: list[tuple[str, Path]] = []
    for step in EXPERIMENTS:
        log_dir = load_state(run.state_file(step), step).log_dir
        series = Scalars(log_dir / "tensorboard").refresh().series if log_dir else {}
        if series:
            path = out / f"{step}.png"
            draw(ordered(step, series), TITLES[step], path)
            pictures.append((TITLES[step], path))
    if not pictures:
        raise UsageError(f"{run.root}: no curves yet; steps 2 and 4 make them")
    page = out / "index.html"
    write_text(
        page, PAGE.format(title=html.escape(f"RECAP run {run.root.name}"), sections="".join(map(section, pictures)))
    )
    return [*(path for _, path in pictures), page]


def ordered(step: str, series: dict[str, Series]) -> dict[str, Series]:
    """Put the important curves first."""
    first = [name for name in FIRST[step] if name in series]
    return {name: series[name] for name in (*first, *sorted(series.keys() - set(first)))}


def draw(series: dict[str, Series], title: str, path: Path) -> None:
    """Write one PNG with a small chart for every curve, over global steps."""
    figure_class = _figure_class()
    rows = -(-len(series) // COLUMNS)
    figure = figure_class(figsize=(5 * COLUMNS, 2.6 * rows), layout="constrained")
    figure.suptitle(title)
    for axes, (name, curve) in zip(figure.subplots(rows, COLUMNS, squeeze=False).flat, series.items(), strict=False):
        steps = sorted(curve.values)
        axes.plot(steps, [curve.values[step] for step in steps], marker="." if len(steps) < 50 else "")
        axes.set_title(name, fontsize=9)
        axes.grid(alpha=0.3)
    for axes in figure.axes[len(series) :]:
        axes.axis("off")
    with beside(path) as part:
        figure.savefig(part, format="png", dpi=110)


def _figure_class() -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "matplotlib is not installed: pip install matplotlib, or look at the curves in TensorBoard"
        ) from error

    def make(**options: Any) -> Any:
        figure = Figure(**options)
        FigureCanvasAgg(figure)
        return figure

    return make


def section(picture: tuple[str, Path]) -> str:
    """Return a heading and the picture itself, so that the page can be sent on as one file."""
    title, path = picture
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<h2>{html.escape(title)}</h2><img alt="{html.escape(title)}" src="data:image/png;base64,{data}">'
