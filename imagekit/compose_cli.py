"""`build.py compose`: write what compose.yaml needs to know about this host."""

import typer
from rich.console import Console

from imagekit import lookup
from imagekit.compose import generate
from imagekit.errors import Problem
from imagekit.manifest import Manifest, load_manifest
from imagekit.process import Say

app = typer.Typer(add_completion=False)
out = Console(soft_wrap=True)


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False)


@app.command()
def compose() -> None:
    """Write compose.override.yaml: cards (NPUS), driver mounts, image; from .env and this host."""
    manifest = load_manifest()
    generate(manifest, lookup.pick_platform(manifest, "")[0].arch, _say)


def after_build(manifest: Manifest, say: Say) -> None:
    """Bring the files up to date with an image that has just been built; a wrong .env does not spoil the build."""
    try:
        generate(manifest, lookup.pick_platform(manifest, "")[0].arch, say)
    except Problem as problem:
        say(f"compose.override.yaml was not written: {problem}; then: make compose")
