"""Measure what building and running cost, as ratios in one run on one machine: seconds say more about the machine.

Nothing here is asserted by a test. Builds are made from a copy of the tracked files, so the checkout stays as it is.
"""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from imagekit.apt import debian_program
from imagekit.bench.builds import build_rows
from imagekit.bench.common import Add, Row, built_tag, own_images, simulated_run
from imagekit.bench.overhead import recap_overhead
from imagekit.bench.seed import seed_rows
from imagekit.bench.start import start_rows
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.files import write_changed
from imagekit.lookup import pick_platform
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.process import Say
from imagekit.process import run as run_program
from imagekit.registry.server import PROGRAM

REPORT = ROOT / "reports" / "bench.json"
PARTS = ("build", "start", "overhead", "seed")


class Report:
    """The rows so far, on the disk as soon as they are there: what was measured must survive what comes after it."""

    def __init__(self, path: Path = REPORT) -> None:
        """What an earlier bench has left at `path` stays until there is a row."""
        self.rows: list[Row] = []
        self._path = path

    def add(self, row: Row) -> None:
        """Take one more row."""
        self.rows.append(row)
        write_changed(self._path, json.dumps([asdict(row) for row in self.rows], indent=1) + "\n")

    def show(self, console: Console) -> None:
        """Print what there is."""
        if not self.rows:
            return
        table = Table("case", "measured", "against", "ratio", "target", title="bench, medians", title_justify="left")
        for row in self.rows:
            table.add_row(*asdict(row).values())
        console.print(table)


def pick(only: str) -> tuple[str, ...]:
    """Return the parts to measure: the named one, or all.

    Raises:
        Problem: there is no such part.
    """
    if only and only not in PARTS:
        raise Problem(f"--only {only}: no such part", f"one of {', '.join(PARTS)}", usage=True)
    return (only,) if only else PARTS


def cold_gib(manifest: Manifest, parts: tuple[str, ...], repeat: int) -> float:
    """Return what builds from nothing leave in BuildKit's cache, in GiB, until that is pruned.

    Each turn of `build` and of `seed` leaves two environments: the edited lock's and the cold one's, ours and the
    single stage's. With what is compressed of it a turn was measured to leave 9.6 GiB for an image of 4.6.
    """
    turns = repeat * len({"build", "seed"}.intersection(parts))
    return 2 * turns * manifest.get_image("rlinf-npu").budget_mib / 1024


def own_platform(manifest: Manifest, wanted: str) -> Platform:
    """Return this machine's platform; `wanted` is the PLATFORM that the builds would follow.

    Raises:
        Problem: it is another one.
    """
    platform, native = pick_platform(manifest, wanted)
    if not native:
        raise Problem(
            f"PLATFORM={wanted}: figures of an emulated machine mean nothing",
            "run the bench on such a machine, or without PLATFORM",
            usage=True,
        )
    return platform


def check_needs(manifest: Manifest, engine: Engine, platform: Platform, say: Say, parts: tuple[str, ...]) -> None:
    """Find out before anything is measured what would stop a later part.

    Raises:
        Problem: something is missing; all of it is named.
    """
    needs = {
        "build": lambda: debian_program(PROGRAM, say),
        "start": lambda: _in_engine(engine, simulated_run(manifest, platform)[1]),
        "overhead": lambda: _in_engine(engine, simulated_run(manifest, platform)[1]),
        "seed": lambda: _in_engine(engine, built_tag(ROOT, platform, "cann-base")),
    }
    missing: dict[str, list[str]] = {}
    fixes: list[str] = []
    for part in parts:
        try:
            needs[part]()
        except Problem as problem:
            missing.setdefault(problem.what, []).append(part)
            fixes.append(problem.fix)
    if missing:
        what = "; ".join(f"{what} (for {', '.join(named)})" for what, named in missing.items())
        raise Problem(what, " and ".join(dict.fromkeys(fixes)))


def _in_engine(engine: Engine, reference: str) -> str:
    if not run_program((*engine.docker, "image", "inspect", reference), env=engine.env).ok:
        raise Problem(f"{reference} has been built, and is no longer in the engine", "make image BASE=sim")
    return reference


def run(
    manifest: Manifest,
    engine: Engine,
    platform: Platform,
    network: NetworkSettings,
    say: Say,
    repeat: int,
    add: Add,
    parts: tuple[str, ...] = PARTS,
) -> None:
    """Measure, and hand each row to `add` when it is there.

    Raises:
        Problem: something that a part needs is missing (nothing has been measured then), or a measurement failed.
    """
    check_needs(manifest, engine, platform, say, parts)
    measure = {
        "build": lambda: build_rows(manifest, engine, platform, network, say, repeat, add),
        "start": lambda: start_rows(manifest, engine, platform, say, repeat, add),
        "overhead": lambda: recap_overhead(manifest, engine, platform, say, repeat, add),
        "seed": lambda: seed_rows(manifest, engine, platform, network, say, repeat, add),
    }
    with own_images(engine, say):
        for part in parts:
            measure[part]()
