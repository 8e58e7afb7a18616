"""`reproduce`: the same inputs give the same manifest digests, or the first differing file is shown."""

import itertools
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from imagekit import engine as engines
from imagekit.errors import Problem
from imagekit.lookup import git
from imagekit.manifest import ROOT, load_manifest
from imagekit.reproduce.builds import build_clone, check_unused
from imagekit.reproduce.compare import differences, label_differences
from imagekit.reproduce.earlier import find_earlier
from imagekit.reproduce.stored import Stored

LABELS = 3  # shown of those that differ

app = typer.Typer()
out = Console(width=None if sys.stdout.isatty() else 200)


def say(text: str) -> None:
    """Print one line for the user."""
    out.print(text, markup=False, highlight=False)


@app.command()
def reproduce(
    against: Annotated[
        str,
        typer.Option(
            envvar="AGAINST", help="Build once and compare with this: folder of layouts, archive, tag, digest."
        ),
    ] = "",
    keep: Annotated[
        Path | None, typer.Option(envvar="KEEP", help="Keep the (first) build's OCI layouts there.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(envvar="LIMIT", min=1, help="How many differences are shown.")] = 1,
) -> None:
    """Build the chain twice from nothing, in two folders, and compare; half an hour."""
    if keep:
        check_unused(keep)
    engine = engines.ensure_engine(load_manifest(), say)
    if not engine.containerd_store:
        raise Problem(
            "this engine keeps images in the old store, which writes no OCI layouts", "use Docker 29 or newer"
        )
    if git("status", "--porcelain", "--untracked-files=no"):
        say("note: HEAD is built; changes that are not committed are not in it")
    scratch_root = ROOT / "build"
    scratch_root.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch_root, prefix="reproduce-") as folder:
        scratch = Path(folder)
        earlier = find_earlier(engine, against, scratch) if against else None
        say("The first build" if not against else "The build")
        first = build_clone(scratch / "a", keep.absolute() if keep else scratch / "first", say)
        if earlier is None:
            say("The second build")
            second = build_clone(scratch / "another-folder-with-a-longer-name", scratch / "second", say)
            compare_all(first, list(second.values()), limit)
        elif isinstance(earlier, str):
            compare_digest(first, earlier)
        else:
            compare_all(first, earlier, limit)


def compare_all(built: dict[str, Stored], others: list[Stored], limit: int) -> None:
    """Compare images of the same title, parent first, and show the digests.

    Raises:
        Problem: one differs; its first differences have been shown. Or what there is cannot be compared.
    """
    by_title = {image.title: image for image in others}
    pairs = [(name, image, by_title[image.title]) for name, image in built.items() if image.title in by_title]
    if not pairs:
        raise Problem("none of the images built is among those to compare with", "name an image of this project")
    table = Table("image", "digest", "")
    for name, image, other in pairs:
        table.add_row(name, image.digest, "the same" if image.digest == other.digest else f"not {other.digest}")
    out.print(table)
    for name, image, other in pairs:
        if image.digest != other.digest:
            for difference in itertools.islice(differences(image, other), limit):
                say(f"{name}: {difference}")
            if labels := label_differences(image, other):
                what = f"{name} was not made of the same as the other: {', '.join(labels[:LABELS])}"
                raise Problem(what, "the same commit, with the same SOURCE, BASE, INSTALLER and TORCH, can be compared")
            raise Problem(f"{name} is not reproducible", "what is shown above must not depend on day, place or chance")


def compare_digest(built: dict[str, Stored], digest: str) -> None:
    """Look for a digest among the images.

    Raises:
        Problem: none has it.
    """
    table = Table("image", "digest", "")
    for name, image in built.items():
        table.add_row(name, image.digest, "the same" if image.digest == digest else "")
    out.print(table)
    if digest not in [image.digest for image in built.values()]:
        raise Problem(
            f"no image built has digest {digest}", "give the earlier image itself (tag, archive) to see what differs"
        )
