"""`recap plot`: the curves of steps 2 and 4 as PNG files and one HTML page."""

import base64
import html
from pathlib import Path
from typing import Any

from rlinf_npu.recap.atomic import beside, write_text
from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.layout import EXPERIMENTS, TITLES, Run
from rlinf_npu.recap.panels import Panel, Sheet, arrange, smooth
from rlinf_npu.recap.scalars import Scalars
from rlinf_npu.recap.state import load_state

COLUMNS = 3
DOTS_UP_TO = 50  # steps; more would run together
COLOURS = {"train": "tab:blue", "eval": "tab:orange", "": "tab:blue"}
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px sans-serif;margin:2em auto;max-width:85em}}img{{max-width:100%}}
table{{border-collapse:collapse}}td,th{{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}}
td.n{{text-align:right;font-variant-numeric:tabular-nums}}</style>
<h1>{title}</h1>{sections}</html>
"""


def write_plots(run: Run, out: Path) -> list[Path]:
    """Write <step>.png and index.html; return their paths.

    Raises:
        UsageError: there are no curves yet.
    """
    sections, written = [], []
    for step in EXPERIMENTS:
        log_dir = load_state(run.state_file(step), step).log_dir
        series = Scalars(log_dir / "tensorboard").refresh().series if log_dir else {}
        if series:
            sheet, path = arrange(step, series), out / f"{step}.png"
            draw(sheet, f"{run.root.name}: {TITLES[step]}", path)
            sections.append(section(TITLES[step], sheet, path))
            written.append(path)
    if not written:
        raise UsageError(f"{run.root}: no curves yet; steps 2 and 4 make them")
    page = out / "index.html"
    write_text(page, PAGE.format(title=html.escape(f"RECAP run {run.root.name}"), sections="".join(sections)))
    return [*written, page]


def draw(sheet: Sheet, title: str, path: Path) -> None:
    """Write one PNG with a chart for every panel, over global steps."""
    figure_class = _figure_class()
    rows = max(1, -(-len(sheet.panels) // COLUMNS))
    figure = figure_class(figsize=(5 * COLUMNS, 2.8 * rows), layout="constrained")
    figure.suptitle(title)
    for axes, panel in zip(figure.subplots(rows, COLUMNS, squeeze=False).flat, sheet.panels, strict=False):
        _draw_panel(axes, panel)
    for axes in figure.axes[len(sheet.panels) :]:
        axes.axis("off")
    with beside(path) as part:
        figure.savefig(part, format="png", dpi=110)


def _draw_panel(axes: Any, panel: Panel) -> None:
    for label, curve in panel.curves.items():
        steps = sorted(curve.values)
        values = [curve.values[step] for step in steps]
        look = {"color": COLOURS.get(label), "label": label}
        if len(steps) <= DOTS_UP_TO:
            axes.plot(steps, values, marker=".", **look)
        else:
            (raw,) = axes.plot(steps, values, color=COLOURS.get(label), alpha=0.25, linewidth=0.8)
            axes.plot(steps, smooth(values), **{**look, "color": raw.get_color()})
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel("global step", fontsize=8)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    if len(panel.curves) > 1:
        axes.legend(fontsize=8)


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


def section(title: str, sheet: Sheet, picture: Path) -> str:
    """Return heading, picture and last values, all in one file, so that the page can be sent on."""
    data = base64.b64encode(picture.read_bytes()).decode()
    image = f'<img alt="{html.escape(title)}" src="data:image/png;base64,{data}">'
    rows = [(f"{panel.title} {label}", curve.last) for panel in sheet.panels for label, curve in panel.curves.items()]
    rows += [(f"{name} (constant)", value) for name, value in sheet.constants.items()]
    cells = "".join(f'<tr><td>{html.escape(name)}<td class="n">{value:.4g}' for name, value in rows)
    same = "".join(f"<li>{html.escape(name)}: the same as {html.escape(other)}" for name, other in sheet.same.items())
    table = f"<details><summary>last values</summary><table>{cells}</table><ul>{same}</ul></details>"
    return f"<h2>{html.escape(title)}</h2>{image}{table}"
