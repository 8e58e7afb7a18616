"""`build.py push | index | gate | promote | ci-local`: publish what was tested."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from imagekit import engine as engines
from imagekit import lookup
from imagekit.carry.lockfile import record_release
from imagekit.compose.record import written
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, Platform, load_manifest
from imagekit.process import follow
from imagekit.publish import chain, place, signing
from imagekit.publish import index as indexes
from imagekit.publish import promote as promotion
from imagekit.publish import push as pushing
from imagekit.publish.evidence import Evidence
from imagekit.publish.gate import Gate
from imagekit.registry import Reference, RegistryClient, is_loopback, parse

app = typer.Typer(add_completion=False)
out = Console(width=None if sys.stdout.isatty() else 200, soft_wrap=not sys.stdout.isatty())
ImageOption = Annotated[
    str, typer.Option("--image", envvar="IMAGE", help="HOST/REPOSITORY@sha256:DIGEST", show_default=False)
]

Names = Annotated[
    list[str] | None, typer.Argument(help="Images; none means all that are published.", show_default=False)
]
BaseOption = Annotated[str, typer.Option(envvar="BASE", help="As for the build: auto | cann | sim")]
InstallerOption = Annotated[str, typer.Option(envvar="INSTALLER", help="As for the build: lock | upstream")]


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False)


def _engine() -> engines.Engine:
    found = engines.find_engine()
    if found is None:
        raise Problem("no Docker engine answers", "make engine")
    return found


@app.command()
def push(
    names: Names = None,
    platform: Annotated[str, typer.Option(envvar="PLATFORM", help="This machine's if empty.")] = "",
    base: BaseOption = "",
    installer: InstallerOption = "",
) -> None:
    """Push what was built last as candidates; prints their digests and writes build/pushed-ARCH.json."""
    manifest = load_manifest()
    arch = lookup.pick_platform(manifest, platform)[0].arch
    chosen = names or manifest.publish.images
    locals_ = [pushing.local_image(manifest, name, arch, base, installer, pushing.BUILD) for name in chosen]
    engine = _engine()
    for local in locals_:
        pushing.refuse_stale(engine, local)
    done = [pushing.push(manifest, engine, local, out) for local in locals_]
    pushing.remember(done, arch)
    _show_pushed(done)


@app.command()
def index(names: Names = None, base: BaseOption = "", installer: InstallerOption = "") -> None:
    """Build for every architecture, push the candidates and the index of them: one tag that any host can pull."""
    manifest = load_manifest()
    chosen = names or manifest.publish.images
    for name in chosen:  # a wrong name or REGISTRY is said now and not after an emulated build
        manifest.get_image(name)
        place.repository(manifest, name)
    given = {"base": base, "installer": installer}
    settings = [f"--{option}={value}" for option, value in given.items() if value]
    built = [_build(platform, chosen, settings) for platform in manifest.platform]
    engine, by_image = _engine(), list(zip(*built, strict=True))  # the architectures of one image together
    for images in by_image:  # nothing is pushed that cannot be joined
        indexes.refuse_mixed(manifest, [pushing.identify_local(manifest, engine, tag) for tag in images])
    for images in by_image:
        pushed = [pushing.push(manifest, engine, tag, out) for tag in images]
        _show_pushed(pushed)
        written, there = indexes.join(manifest, pushed), parse(pushed[0].reference)
        _say(f"index {there.tagged(written.tag)}: {written.platforms}")
        _say(f"INDEX={there.at(written.digest)}")


def _build(platform: Platform, names: list[str], settings: list[str]) -> list[str]:
    """Build for one platform; return the tags of `names`, as this very build has recorded them."""
    _say(f"--- {platform.name}")
    before = written(pushing.BUILD, platform.arch)
    command = [sys.executable, str(ROOT / "build.py"), "image", *settings, f"--platform={platform.name}"]
    if not follow(command, lambda line: _say(f"  {line.rstrip()}")).ok:
        raise Problem(f"the build for {platform.name} failed, see above", "nothing was pushed")
    return [pushing.just_built(name, platform.arch, before, pushing.BUILD) for name in names]


def _show_pushed(done: list[pushing.Pushed]) -> None:
    for entry in done:
        _say(f"pushed {entry.tag} ({entry.size / 1e6:,.1f} MB)")
        _say(f"IMAGE={entry.reference}")


@app.command()
def gate(
    image: ImageOption = "",
    suite: Annotated[str, typer.Option(envvar="SUITE", help="Of images.toml; the required one if empty.")] = "",
) -> None:
    """Test an image by its digest and attach the evidence to it."""
    manifest = load_manifest()
    seen, why_not = Gate(manifest, _engine(), out, _say).run(_given(image), suite)
    _show(seen)
    for line in why_not:
        _say(f"red: {line}")
    if why_not:
        raise typer.Exit(1)
    unproven = (
        "" if seen.suite == manifest.publish.required_suite else f"; promote wants {manifest.publish.required_suite}"
    )
    _say(f"green: suite {seen.suite}{unproven}")


@app.command()
def promote(image: ImageOption = "") -> None:
    """Give a gated image its release tags, and the index of all architectures; record them in images.lock."""
    manifest = load_manifest()
    _, tags = promotion.promote(manifest, _given(image))
    table = Table("tag", "digest", "platforms", "signature", title="released", title_justify="left")
    for row in tags:
        table.add_row(row.tag, row.digest, row.platforms, row.signature)
    out.print(table)
    _record(manifest, parse(image), tags)


def _record(manifest: Manifest, image: Reference, tags: list[indexes.Tagged]) -> None:
    """Whoever pulls goes by images.lock. What a registry on loopback holds is a rehearsal and nobody's release."""
    if is_loopback(image.host):
        return
    client = RegistryClient.of(image)
    for row in tags:
        if row.digest != image.digest:  # an index; the tags of one architecture are not pulled by name
            record_release(client, image.tagged(row.tag), manifest.project.label_prefix)
    _say("images.lock has the new digests: commit it, `make pull` goes by it")


@app.command()
def ci_local(
    start: Annotated[str, typer.Option("--from", envvar="FROM", help=f"Begin at: {' | '.join(chain.STEPS)}")] = "lint",
    suite: Annotated[str, typer.Option(envvar="SUITE", help="Of images.toml; the required one if empty.")] = "",
) -> None:
    """Run the pipeline on this machine, against a registry on loopback that is gone afterwards."""
    rows = chain.run(load_manifest(), _say, start, suite)
    table = Table("step", "result", "seconds", "", title="ci-local", title_justify="left")
    for row in rows:
        table.add_row(row.step, row.result, f"{row.seconds:.1f}", row.note)
    out.print(table)
    if any(row.result == "failed" for row in rows):
        raise typer.Exit(1)


def _given(image: str) -> str:
    if not image:
        raise Problem("no image given", "IMAGE=HOST/REPOSITORY@sha256:DIGEST, as `make push` prints it", usage=True)
    return image


def _show(seen: Evidence) -> None:
    table = Table("check", "result", "", title=f"gate {seen.image} {seen.digest[:19]}", title_justify="left")
    for run in seen.runs:
        result = "failed" if run.failures or not run.passed else "passed"
        cached = ", from the cache" if run.cached else f", {run.seconds:.0f} s"
        table.add_row(
            run.name, result, f"{run.passed} passed, {len(run.failures)} failed, {run.skipped} skipped{cached}"
        )
    report, size = seen.vulnerabilities, seen.budget
    counted = sum(not finding.allowed for finding in report.findings)
    words = report.note or f"{counted} count, {len(report.findings) - counted} allowed"
    table.add_row("vulnerabilities", report.status, f"{words} ({report.tool}, {report.scope})")
    table.add_row("size", size.status, size.note)
    out.print(table)
    for line in size.difference:
        _say(f"  {line}")
    for waiver in seen.waivers:
        _say(f"waived until {waiver.until}: {', '.join(waiver.covers)} ({waiver.reason})")
    signed, base = "signed" if signing.evidence_key() else "not signed", "simulated" if seen.simulated else "real"
    _say(f"evidence: {signed}, {base} base")
