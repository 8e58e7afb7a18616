"""`build.py bump`: move to another CANN, torch-npu or RLinf."""

from typing import Annotated

import typer
from rich.console import Console

from imagekit import bump, compat, locks, lookup
from imagekit.manifest import Manifest, load_manifest
from imagekit.network import NetworkSettings

app = typer.Typer(add_completion=False)
out = Console(soft_wrap=True)


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False)


@app.command(name="bump")
def run(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(bump.NAMES)}.")],
    version: Annotated[str, typer.Argument(help="Its new version.")],
    force: Annotated[bool, typer.Option("--force", help="Take a pair that the compatibility table lacks.")] = False,
    revision: Annotated[str, typer.Option(help="For rlinf: the git commit that goes with it.")] = "",
    mirror: Annotated[
        str, typer.Option(envvar="MIRROR", help="One of the mirrors of images.toml, for example cn.")
    ] = "",
) -> None:
    """Move to another CANN, torch-npu or RLinf: images.toml and the locks, all of it or nothing."""
    manifest = load_manifest()
    network = NetworkSettings.from_host(lookup.pick_mirror(manifest, mirror))
    change = bump.plan_bump(manifest, name, version, force=force, revision=revision, network=network)
    for remark in change.remarks:
        _say(remark)

    def relock(new: Manifest) -> None:
        for platform in new.platform:
            _say(f"resolving {platform.name} ...")
            locks.make_lock(new, platform, network.env(), upgrade=False)

    after = bump.apply(change, relock, _say)
    for key, value in change.values.items():
        _say(f"images.toml: {key} = {value}")
    listed = "listed" if compat.is_listed(after) else "NOT in the compatibility table; labels say unlisted"
    _say(f"pair: {listed}")
    _say("next: make image && make test, then commit images.toml and the locks")
