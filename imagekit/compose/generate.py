"""Write compose.override.yaml and its templates from images.toml, the settings, this host and the build record."""

import io
import socket
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from imagekit.compose import render
from imagekit.compose.cards import parse_npus
from imagekit.compose.checks import check_forms
from imagekit.compose.folders import check_folders
from imagekit.compose.host import Host, lacking_parts, simulated_mounts
from imagekit.compose.record import REAL, BuiltImage, find_built
from imagekit.compose.settings import Settings, read_settings
from imagekit.errors import Problem
from imagekit.files import write_changed
from imagekit.manifest import ROOT, Devices, Manifest
from imagekit.planner import SIM_DRIVER
from imagekit.process import Say
from imagekit.tags import SIM

COMPOSE_FILE, OVERRIDE_FILE, CARDS_FILE = "compose.yaml", "compose.override.yaml", "build/compose-cards.yaml"
HEADER = """\
# Made by `make compose` from images.toml ([devices]), .env, this host and the last build. Changes here get lost.
# {what}
"""


@dataclass(frozen=True)
class Written:
    """What was generated for."""

    choice: render.Choice
    simulated: BuiltImage | None


def generate(
    manifest: Manifest,
    arch: str,
    say: Say,
    *,
    folder: Path = ROOT,
    root: Path = Path("/"),
    settings: Settings | None = None,
) -> Written:
    """Write both files, or none.

    Args:
        manifest: images.toml.
        arch: Docker's name of this machine's architecture.
        say: gets what was chosen, and what is odd.
        folder: the checkout: compose.yaml, .env, build/.
        root: prefix of the host's paths.
        settings: in place of .env and the environment.

    Raises:
        Problem: a setting is wrong, or a card, a mount, a folder or the image is missing.
    """
    settings = settings or read_settings(folder / ".env")
    name = manifest.image[-1].name
    simulated = find_built(folder / "build", name, arch, SIM)
    real = find_built(folder / "build", name, arch, REAL)
    compose = _read_yaml(folder / COMPOSE_FILE)
    choice = _choose(manifest.devices, settings, Host(manifest.devices, root), real or simulated, compose["name"])
    check_forms(settings)
    check_folders(folder, settings, manifest.devices, say)
    driver = folder / "build" / SIM_DRIVER / arch
    npu = render.npu_services(choice, manifest.devices)
    sim = render.sim_services(simulated, simulated_mounts(manifest.devices, driver), manifest.devices)
    what = render.headline(choice)
    override = render.override_file(render.templates(compose), f"./{CARDS_FILE}")
    _write(folder / CARDS_FILE, f"{what}; {choice.made_for}", render.cards_file(npu, sim))
    _write(folder / OVERRIDE_FILE, f"{what}; the templates are in {CARDS_FILE}", override)
    _tell(choice, real, simulated, settings, say)
    _tell_simulated(simulated, manifest.devices, driver, folder, say)
    return Written(choice, simulated)


def _choose(devices: Devices, settings: Settings, host: Host, built: BuiltImage | None, name: str) -> render.Choice:
    if not settings.image and built is None:
        raise Problem("no image has been built on this machine", "make image, or set IMAGE in .env to one to be pulled")
    if settings.is_privileged and settings.uses_ascend_runtime:
        raise Problem("PRIVILEGED=1 and RUNTIME=ascend exclude each other", "choose one of them in .env", usage=True)
    present = host.cards()
    cards = parse_npus(settings.npus, present, devices.max_cards)
    own_devices = bool(cards) and not settings.uses_ascend_runtime
    return render.Choice(
        image=settings.image or (built.reference if built else ""),
        digest="" if settings.image or built is None else built.digest,
        pull=bool(settings.image),
        made_for=settings.summary,
        cards=cards,
        present=present,
        nodes=host.nodes(cards) if own_devices else [],
        mounts=host.mounts() if own_devices else [],
        privileged=settings.is_privileged,
        ascend_runtime=settings.uses_ascend_runtime,
        project=settings.project or name,
    )


def _tell(
    choice: render.Choice, real: BuiltImage | None, simulated: BuiltImage | None, settings: Settings, say: Say
) -> None:
    say(f"{OVERRIDE_FILE}: {choice.image}, {render.headline(choice)}")
    if not choice.cards and settings.npus != "none":
        say("Note: this host has no cards. COMPOSE_PROFILES=sim docker compose up train runs on simulated ones.")
    elif choice.cards and not settings.image and real is None:
        say("Note: this is the simulated image; on real cards it computes on the CPU. make image BASE=cann")
    if _taken(int(settings.tensorboard_port)):
        say(f"Note: port {settings.tensorboard_port} is in use; unless by this project's tensorboard, set another")
        say("      TENSORBOARD_PORT in .env")


def _tell_simulated(simulated: BuiltImage | None, devices: Devices, driver: Path, folder: Path, say: Say) -> None:
    if simulated is None:
        say("Note: no simulated image is here, so there is no COMPOSE_PROFILES=sim. make image BASE=sim")
    elif missing := lacking_parts(devices, driver):
        where = driver.relative_to(folder)
        part = f" has no {missing[0]}" if driver.is_dir() else ", the simulated driver, is missing"
        say(f"Note: {where}{part}, so COMPOSE_PROFILES=sim cannot run. make image BASE=sim")


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        return deepcopy(_parse(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise Problem(f"{path.name} is missing", "run from a full checkout") from None


@cache
def _parse(text: str) -> dict[str, Any]:
    """Parse once: ruamel.yaml takes a tenth of a second for compose.yaml."""
    return dict(YAML(typ="safe").load(text))


def _write(path: Path, what: str, content: dict[str, Any]) -> None:
    """As people read it: a setting a line, no anchors."""
    yaml = YAML()
    yaml.width = 4096
    yaml.default_flow_style = False
    yaml.representer.ignore_aliases = lambda _: True
    text = io.StringIO()
    yaml.dump(content, text)
    write_changed(path, HEADER.format(what=what) + text.getvalue())
