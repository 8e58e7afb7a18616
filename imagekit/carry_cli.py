"""`build.py bundle` and `load`: images carried to hosts without a network; `pull`: from a registry."""

from pathlib import Path
from typing import Annotated

import typer
from docker.errors import ImageNotFound
from docker.models.images import Image
from rich.console import Console

from imagekit import compose_cli, lookup
from imagekit import engine as engines
from imagekit.carry.bundle import make_bundle, remember
from imagekit.carry.chip import find_chip
from imagekit.carry.load import load_bundle, verify_bundle
from imagekit.carry.lockfile import read_lock, record_release
from imagekit.carry.meter import MB
from imagekit.carry.pick import pick_release
from imagekit.carry.pull import moved_line, pull_release, registries
from imagekit.compose.record import find_newest, remember_image
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, load_manifest
from imagekit.registry import RegistryClient, parse
from imagekit.tags import SIM

app = typer.Typer(add_completion=False)
out = Console(soft_wrap=True)
BUILD, DIST = ROOT / "build", ROOT / "dist"


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False)


@app.command()
def bundle(
    image: Annotated[str, typer.Option(envvar="IMAGE", help="Image; the one built or pulled last if empty.")] = "",
    since: Annotated[str, typer.Option(envvar="SINCE", help="Earlier bundle whose layers are left out.")] = "",
    output: Annotated[str, typer.Option(envvar="OUTPUT", help="Folder, or file that ends in .tar.")] = "",
) -> None:
    """Write an air-gapped bundle: image, compose.yaml, settings, documentation, sums, install.sh."""
    manifest = load_manifest()
    engine = _any_engine(manifest)
    found = _find_image(manifest, engine, image)
    target = Path(output) if output else DIST / _bundle_name(manifest, found, bool(since))
    written = make_bundle(manifest, found, target.absolute(), Path(since) if since else None, out)
    _say(f"bundle: {written.path}, {written.size / MB:,.0f} MB")
    if since:
        _say(f"left out, for they are in {since}: {written.left_out / MB:,.0f} MB; carry both")
    _say(f"fingerprint of {written.path.name}: {written.fingerprint} (make load shows it again: compare)")
    _say("on the other side: ./install.sh there, or make load BUNDLE= in a checkout")


@app.command()
def load(
    bundle: Annotated[str, typer.Option(envvar="BUNDLE", help="Folder or tar that `bundle` wrote.")] = "",
    earlier: Annotated[str, typer.Option(envvar="EARLIER", help="The bundle that it is a difference to.")] = "",
) -> None:
    """Verify a bundle as a whole, then load its image so that Compose uses it."""
    if not bundle:
        raise Problem("which bundle?", "make load BUNDLE=folder-or-tar", usage=True)
    manifest = load_manifest()
    engine = _any_engine(manifest)
    verified = verify_bundle(Path(bundle), Path(earlier) if earlier else None, engine.arch, manifest, out)
    _say(f"whole; fingerprint {verified.fingerprint}")
    load_bundle(engine, verified, out)
    remember(BUILD, verified.contents)
    _say(f"loaded: {', '.join(verified.contents.names)}")
    compose_cli.after_build(manifest, _say)


@app.command()
def pull(
    tag: Annotated[str, typer.Option(envvar="TAG", help="Release, or TAG@sha256:...; the newest that fits.")] = "",
    registry: Annotated[str, typer.Option(envvar="REGISTRY", help="host/namespace instead of images.toml's.")] = "",
    chip: Annotated[str, typer.Option(envvar="CHIP", help="Chip, where npu-smi cannot tell.")] = "",
) -> None:
    """Pull the release for this host's chip and architecture, by the digest in images.lock, so that Compose uses it."""
    manifest = load_manifest()
    name = manifest.image[-1].name
    platform = _engines_platform(manifest)
    wanted = pick_release(read_lock(), name, platform, tag, lambda chips: find_chip(manifest, chip, chips))
    engine = engines.ensure_engine(manifest, _say)
    pulled = pull_release(engine, manifest, wanted, registries(manifest, registry), platform, out, _say)
    local = f"{name}:{wanted.tag}"
    pulled.image.tag(name, wanted.tag)
    size = sum(step["Size"] for step in pulled.image.history())
    remember_image(BUILD, name, platform, wanted.tag.endswith(SIM), [local], pulled.reference.digest, size)
    _say(moved_line(pulled))
    _say(f"{local} is {pulled.reference.digest}")
    compose_cli.after_build(manifest, _say)


@app.command()
def lock_images(
    tags: Annotated[list[str], typer.Argument(help="Release tags.", show_default=False)],
    registry: Annotated[str, typer.Option(envvar="REGISTRY", help="host/namespace instead of images.toml's.")] = "",
) -> None:
    """Write into images.lock which digests release tags stand for in the registry now."""
    manifest = load_manifest()
    for tag in tags:
        reference = parse(f"{registries(manifest, registry)[0]}/{manifest.image[-1].name}:{tag}")
        client = RegistryClient.of(reference)
        release = record_release(client, reference, manifest.project.label_prefix)
        _say(f"images.lock: {release.image}:{release.tag} is {release.digest}, {', '.join(release.platforms)}")


def _engines_platform(manifest: Manifest) -> str:
    """Of the engine that answers, which may be on another machine; of this one when none does."""
    found = engines.find_engine()
    return (manifest.get_platform(found.arch) if found else lookup.pick_platform(manifest, "")[0]).name


def _any_engine(manifest: Manifest) -> engines.Engine:
    """Saving and loading work with engines that are too old to build; they are what bundles are made for."""
    return engines.find_engine() or engines.ensure_engine(manifest, _say)


def _find_image(manifest: Manifest, engine: engines.Engine, reference: str) -> Image:
    if not reference:
        name, arch = manifest.image[-1].name, lookup.pick_platform(manifest, "")[0].arch
        built = find_newest(BUILD, name, arch)
        if built is None:
            raise Problem("no image has been built or pulled on this machine", "make image, or make pull")
        reference = built.reference
    try:
        return engine.client(seconds=None).images.get(reference)
    except ImageNotFound:
        raise Problem(f"the engine has no image {reference}", "make image, or make pull; docker images") from None


def _bundle_name(manifest: Manifest, image: Image, difference: bool) -> str:
    """`rlinf-npu-0.3.0-…-arm64`, after the immutable name."""
    stem = max(image.tags, key=len, default=manifest.image[-1].name).rpartition("/")[2].replace(":", "-")
    return f"{stem}-{image.attrs['Architecture']}{'-difference' if difference else ''}"
