"""Measure what building and running cost, as ratios in one run on one machine: seconds say more about the machine.

Nothing here is asserted by a test. Builds are made from a copy of the tracked files, so the checkout stays as it is.
"""

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from imagekit.bench.builds import build_rows
from imagekit.bench.common import Row
from imagekit.bench.overhead import recap_overhead
from imagekit.bench.seed import seed_rows
from imagekit.bench.start import start_rows
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.process import Say

REPORT = ROOT / "reports" / "bench.json"
PARTS = ("build", "start", "overhead", "seed")


def pick(only: str) -> tuple[str, ...]:
    """Return the parts to measure: the named one, or all.

    Raises:
        Problem: there is no such part.
    """
    if only and only not in PARTS:
        raise Problem(f"--only {only}: no such part", f"one of {', '.join(PARTS)}", usage=True)
    return (only,) if only else PARTS


def run(
    manifest: Manifest,
    engine: Engine,
    platform: Platform,
    network: NetworkSettings,
    say: Say,
    repeat: int,
    parts: tuple[str, ...] = PARTS,
) -> list[Row]:
    """Measure and return the rows."""
    rows = []
    if "build" in parts:
        rows += build_rows(manifest, engine, platform, network, say, repeat)
    if "start" in parts:
        rows += start_rows(manifest, engine, platform, say, repeat)
    if "overhead" in parts:
        rows += recap_overhead(manifest, engine, platform, say, repeat)
    if "seed" in parts:
        rows += seed_rows(manifest, engine, platform, network, say, repeat)
    return rows


def show(rows: list[Row], console: Console) -> None:
    """Print the rows and write reports/bench.json."""
    table = Table("case", "measured", "against", "ratio", "target", title="bench, medians", title_justify="left")
    for row in rows:
        table.add_row(*asdict(row).values())
    console.print(table)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
