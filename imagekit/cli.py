"""The command line: `python build.py COMMAND`, and `make COMMAND` in front of it."""

import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from imagekit import (
    apt_lock,
    bench,
    bump,
    bump_cli,
    carry_cli,
    compose_cli,
    installers,
    locks,
    lookup,
    publish_cli,
    reproduce_cli,
    rlinf_source,
    simhost,
    torch_wheels,
)
from imagekit import engine as engines
from imagekit.base import LocalImages, ResolvedBase, base_probes, check_base, resolve_base
from imagekit.builder import MAKE_ROOM, Built, build_images, check_disk, run_bake, show
from imagekit.errors import Problem
from imagekit.files import write_changed
from imagekit.manifest import MANIFEST, ROOT, Manifest, Platform, load_manifest
from imagekit.network import NetworkSettings
from imagekit.planner import SIM_DRIVER, bake, describe, write_inputs
from imagekit.probe import Prober, probe_seconds
from imagekit.tags import Flavour
from imagekit.torch_lock import Wheels
from imagekit.turn import my_turn

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
out = Console(width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True, soft_wrap=not sys.stderr.isatty())

app.add_typer(compose_cli.app)
app.add_typer(carry_cli.app)
app.add_typer(publish_cli.app)
app.add_typer(bump_cli.app)
app.add_typer(reproduce_cli.app)
BUILD = ROOT / "build"
INTERRUPTED = 130  # what typer makes of Ctrl-C, after the shells' 128 + SIGINT
Names = Annotated[list[str] | None, typer.Argument(help="Images of images.toml; none means all.", show_default=False)]
PlatformOption = Annotated[
    str, typer.Option("--platform", envvar="PLATFORM", help="linux/arm64 | linux/amd64; this machine's if empty.")
]
BaseOption = Annotated[str, typer.Option("--base", envvar="BASE", help="auto | cann | sim")]
SourceOption = Annotated[
    str, typer.Option("--source", envvar="SOURCE", help="RLinf from: auto | git | pypi | a directory")
]
TorchOption = Annotated[
    str, typer.Option("--torch", envvar="TORCH", help="Torch on x86-64 from: auto | cpu (PyTorch's index) | pypi")
]
InstallerOption = Annotated[
    str,
    typer.Option(
        "--installer", envvar="INSTALLER", help="Python set by: lock | upstream (RLinf's own requirements/install.sh)"
    ),
]
MirrorOption = Annotated[
    str, typer.Option("--mirror", envvar="MIRROR", help="One of the mirrors of images.toml, for example cn.")
]
AptOption = Annotated[
    str,
    typer.Option(
        "--apt", envvar="APT", help="System packages: locked (where still offered) | snapshot (exactly those)"
    ),
]
NoFixes = Annotated[
    bool,
    typer.Option(
        "--no-fixes", envvar="NO_FIXES", help="RLinf as upstream has it, to show the faults. Never published."
    ),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Build every step again.")]
Layouts = Annotated[
    Path | None,
    typer.Option("--layouts", help="Write OCI layouts there, tag nothing in the engine.", show_default=False),
]


def say(text: str) -> None:
    """Print one line for the user."""
    out.print(text, markup=False, highlight=False)


def _wanted(
    manifest: Manifest,
    platform: str,
    base: str,
    source: str,
    torch: str,
    installer: str,
    mirror: str,
    fixes: bool,
    no_cache: bool = False,
    apt: str = "",
) -> lookup.Wanted:
    base = base or manifest.defaults.base
    check_base(base)
    where, native = lookup.pick_platform(manifest, platform)
    picked = lookup.pick_mirror(manifest, mirror)
    source, torch = source or manifest.defaults.source, torch or manifest.defaults.torch
    rlinf_source.check_wanted(source)
    torch_wheels.check_wanted(torch)
    apt_lock.check_choice(apt := apt or "locked")
    by = installers.check_wanted(installer or manifest.defaults.installer, source, torch)
    if by == "upstream":  # only a checkout has it, and it says itself where torch comes from
        source, torch = source if source != "auto" else "git", "pypi"
    return lookup.Wanted(where, native, base, source, picked, torch, fixes, no_cache, by, apt)


def _names(manifest: Manifest, names: list[str] | None) -> list[str]:
    wanted = names or [manifest.image[-1].name]
    for name in wanted:
        manifest.get_image(name)
    return wanted


@app.command()
def plan(
    names: Names = None,
    platform: PlatformOption = "",
    base: BaseOption = "",
    source: SourceOption = "",
    torch: TorchOption = "",
    installer: InstallerOption = "",
    mirror: MirrorOption = "",
    apt: AptOption = "",
    no_fixes: NoFixes = False,
    output: Annotated[Path, typer.Option(help="Where the bake file goes.")] = BUILD / "bake.json",
) -> None:
    """Print what would be built and write the bake file. No Docker, no network."""
    manifest = load_manifest()
    wanted = _wanted(manifest, platform, base, source, torch, installer, mirror, not no_fixes, apt=apt)
    manifest = installers.as_installed(manifest, wanted.installer)
    request = lookup.offline_request(manifest, wanted)
    write_inputs(manifest, request)
    chosen = _names(manifest, names)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(bake(manifest, chosen, request), indent=1) + "\n", encoding="utf-8")
    table = Table(
        "image",
        "stands on",
        "tag",
        title=f"plan for {wanted.platform.name}, base {request.flavour.base}",
        title_justify="left",
    )
    for row in describe(manifest, chosen, request):
        table.add_row(*row)
    out.print(table)
    for line in lookup.assumptions(manifest, wanted):
        say(f"not looked up: {line}")
    say(f"bake file: {output}")


@app.command()
def image(
    names: Names = None,
    platform: PlatformOption = "",
    base: BaseOption = "",
    source: SourceOption = "",
    torch: TorchOption = "",
    installer: InstallerOption = "",
    mirror: MirrorOption = "",
    apt: AptOption = "",
    no_fixes: NoFixes = False,
    no_cache: NoCache = False,
    layouts: Layouts = None,
) -> None:
    """Build the images, installing and starting an engine where there is none."""
    start = time.monotonic()
    manifest = load_manifest()
    chosen = _names(manifest, names)
    wanted = _wanted(manifest, platform, base, source, torch, installer, mirror, not no_fixes, no_cache, apt)
    manifest = installers.as_installed(manifest, wanted.installer)
    prober = Prober(probe_seconds(manifest.defaults.probe_seconds))
    engine = engines.ensure_engine(manifest, say, mirror=wanted.mirror)
    check_disk(_engine_disk(engine), _disk_need(manifest, engine))
    network = NetworkSettings.from_host(wanted.mirror)
    for warning in network.warnings():
        say(f"note: {warning}")
    with my_turn(BUILD / ".lock", say):
        found = _look_up(manifest, wanted, engine, network, prober)
        with found.network.secrets() as secrets:
            request = lookup.make_request(manifest, wanted, found.base, found.source, secrets, found.torch)
            request = replace(request, layouts=layouts.absolute() if layouts else None)
            write_inputs(manifest, request)
            rows, build = build_images(engine, bake(manifest, chosen, request), out)
        if not layouts:
            _remember(request.flavour, rows, build.timeline())
    show(rows, out, time.monotonic() - start)
    if not layouts:
        compose_cli.after_build(manifest, say)


@dataclass(frozen=True)
class _Found:
    base: ResolvedBase
    source: rlinf_source.RlinfSource
    torch: Wheels
    network: NetworkSettings


def _look_up(
    manifest: Manifest, wanted: lookup.Wanted, engine: engines.Engine, network: NetworkSettings, prober: Prober
) -> _Found:
    """Find out what is in reach, everything at once, and decide."""
    seconds, cache, where = prober.seconds, lookup.CACHE, wanted.platform
    local = LocalImages(engine, where)
    fetched = installers.upstream_probes(manifest, wanted.installer, wanted.mirror, network, seconds)
    prober.ask(
        [
            *base_probes(manifest, local, wanted.base, network, dated=wanted.apt == "snapshot"),
            *rlinf_source.source_probes(manifest, wanted.source, wanted.mirror, network, cache, seconds),
            *torch_wheels.torch_probes(manifest, wanted.torch, where, network, seconds),
            *fetched,
        ]
    )
    installers.check_reach(manifest, wanted.source, fetched, prober, say)
    base = resolve_base(manifest, local, wanted.base, network, say, prober, dated=wanted.apt == "snapshot")
    source = rlinf_source.resolve_source(manifest, wanted.source, wanted.mirror, network, cache, say, prober)
    torch = torch_wheels.choose(manifest, wanted.torch, where, network, prober, say)
    links = torch_wheels.pages(manifest, network) if torch == "cpu" else ()
    argument = manifest.upstream.mirror_argument if wanted.mirror else ""
    return _Found(base, source, torch, replace(network, find_links=links, install_mirror=argument))


def _engine_disk(engine: engines.Engine) -> Path:
    return Path(engine.client().info()["DockerRootDir"])


def _disk_need(manifest: Manifest, engine: engines.Engine) -> float:
    """A machine that has built before needs room for the difference only."""
    have = any(tag.startswith("rlinf-npu:") for i in engine.client().images.list() for tag in i.tags)
    return manifest.defaults.disk_gib / 5 if have else manifest.defaults.disk_gib


def _remember(flavour: Flavour, rows: list[Built], timeline: list[dict[str, Any]]) -> None:
    """Write what was built: tests, compose and publishing take their tags from here."""
    BUILD.mkdir(exist_ok=True)
    record = {
        "platform": flavour.platform.name,
        "base": flavour.base,
        "fixes": flavour.fixes,
        "installer": flavour.installer,
        "images": {row.name: {"tags": row.tags, "digest": row.digest, "size": row.size} for row in rows},
    }
    stem = flavour.platform.arch + flavour.suffix
    (BUILD / f"built-{stem}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (BUILD / f"timeline-{stem}.json").write_text(json.dumps(timeline, indent=1) + "\n", encoding="utf-8")


@app.command()
def engine() -> None:
    """Make sure that a Docker engine with buildx and compose answers."""
    found = engines.ensure_engine(load_manifest(), say)
    say(
        f"engine {found.version}, buildx {found.buildx}, compose {found.compose}"
        + (", started by us" if found.ours else "")
    )


@app.command()
def engine_stop() -> None:
    """Stop the engine that `engine` started, and no other."""
    engines.stop_engine(say)


@app.command()
def sim_host(cards: Annotated[int, typer.Option(envvar="CARDS", help="Simulated cards, 1 or more.")] = 8) -> None:
    """Make this machine look like an Ascend host: device nodes and the simulated driver. Refuses on a real one."""
    manifest = load_manifest()
    arch = lookup.pick_platform(manifest, "")[0].arch
    folder = BUILD / SIM_DRIVER / arch
    if not folder.is_dir():
        raise Problem(f"{folder.relative_to(ROOT)} is missing", "build it first: make image BASE=sim")
    simhost.prepare(manifest, folder, cards, say)


@app.command()
def sim_host_clean() -> None:
    """Remove exactly what sim-host made."""
    simhost.clean(load_manifest(), say)


@app.command()
def lock(
    upgrade: Annotated[
        bool, typer.Option(help="Take the newest versions instead of keeping the present ones.")
    ] = False,
    mirror: MirrorOption = "",
) -> None:
    """Resolve the Python sets again and write the locks."""
    manifest = load_manifest()
    network = NetworkSettings.from_host(lookup.pick_mirror(manifest, mirror))
    locks.make_all(manifest, network.env(), say, upgrade=upgrade)


@app.command()
def lock_apt(base: BaseOption = "", mirror: MirrorOption = "") -> None:
    """Record the newest system packages of every distribution and architecture, and the day in images.toml."""
    manifest = load_manifest()
    wanted = _wanted(manifest, "", base, "pypi", "pypi", "lock", mirror, True)

    def newest(platform: Platform, kind: str) -> tuple[str, dict[str, str]]:
        where, native = lookup.pick_platform(manifest, platform.name)
        return _newest_packages(manifest, replace(wanted, platform=where, native=native, base=kind, apt="newest"))

    date = apt_lock.today()
    # The day is that of all records, so they change together.
    for path, packages in apt_lock.record(manifest, wanted.base, newest, say, apt_lock.FOLDER).items():
        apt_lock.write_lock(path, packages)
        say(f"{path.name}: {len(packages)} packages")
    write_changed(MANIFEST, bump.rewrite(MANIFEST.read_text(encoding="utf-8"), {"apt.date": date}))
    say(f"images.toml: apt.date = {date}")


def _newest_packages(manifest: Manifest, wanted: lookup.Wanted) -> tuple[str, dict[str, str]]:
    """Build the steps that install system packages; return the distribution and its packages' versions."""
    engine = engines.ensure_engine(manifest, say, mirror=wanted.mirror)
    network = NetworkSettings.from_host(wanted.mirror)
    with my_turn(BUILD / ".lock", say), tempfile.TemporaryDirectory() as folder:
        found = _look_up(manifest, wanted, engine, network, Prober(probe_seconds(manifest.defaults.probe_seconds)))
        with found.network.secrets() as secrets:
            request = lookup.make_request(manifest, wanted, found.base, found.source, secrets, found.torch)
            plan = apt_lock.record_plan(bake(manifest, ["cann-base"], request), Path(folder))
            run_bake(engine, plan, plan["group"]["default"]["targets"], out)
        return found.base.os, apt_lock.read_record(Path(folder))


@app.command()
def drift() -> None:
    """Fail when a derived file no longer matches what it is derived from."""
    manifest = load_manifest()
    complaints = [*locks.drift(manifest), *apt_lock.drift(manifest)]
    for complaint in complaints:
        err.print(f"drift: {complaint}", markup=False)
    if complaints:
        raise typer.Exit(1)


@app.command(name="bench")
def run_bench(
    repeat: Annotated[int, typer.Option(min=1, envvar="REPEAT", help="Turns per figure; the median counts.")] = 3,
    only: Annotated[str, typer.Option(envvar="ONLY", help=" | ".join(bench.PARTS))] = "",
    mirror: MirrorOption = "",
) -> None:
    """Measure builds and recap as ratios in one run; half an hour per turn, builds from nothing included."""
    parts = bench.pick(only)
    manifest = load_manifest()
    platform = bench.own_platform(manifest, os.environ.get("PLATFORM", ""))
    engine = engines.ensure_engine(manifest, say)
    if cold := bench.cold_gib(manifest, parts, repeat):
        fix = f"{MAKE_ROOM}, or measure one part, one turn: ONLY=seed REPEAT=1"
        check_disk(_engine_disk(engine), cold, "the bench", fix)
        say(f"Builds from nothing will leave up to {cold:.0f} GiB in the build cache: docker buildx prune frees them.")
    network = NetworkSettings.from_host(lookup.pick_mirror(manifest, mirror))
    report = bench.Report()
    try:
        bench.run(manifest, engine, platform, network, say, repeat, report.add, parts)
    finally:
        report.show(out)


def main() -> None:
    """Run the command line; a Problem becomes one line and an exit code."""
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    # A cancelled CI job sends SIGTERM: what Ctrl-C stops in good order must not be left running then.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except Problem as problem:
        err.print(f"error: {problem.what}", style="bold red", markup=False, highlight=False)
        if problem.fix:
            err.print(f"  fix: {problem.fix}", markup=False, highlight=False)
        sys.exit(problem.exit_code)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            err.print("interrupted: what was finished is kept, nothing is half-written; the next run goes on there")
        raise
