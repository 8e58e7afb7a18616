"""The generated Compose files as plain data. Pure: no host, no Docker."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from imagekit.compose.cards import show
from imagekit.compose.record import BuiltImage
from imagekit.manifest import Devices

SIM_CARDS = 2  # what the fixtures' batch sizes are made for
SETTINGS, MADE_FOR = "RLINF_NPU_SETTINGS", "RLINF_NPU_MADE_FOR"
RUNTIME_VISIBLE = "ASCEND_VISIBLE_DEVICES"  # read by Ascend Docker Runtime: the host's numbers
# The profile chooses the templates through the variable, and `--profile sim` sets none: the fixtures would be made in
# LOG_DIR, and the training run on real cards. Docker refuses to make a container that mounts a path that is not there,
# names the path, and as the fixtures come first, nothing else is made.
PROFILE_BY_OPTION = "/--profile-sim-does-not-suffice:set-COMPOSE_PROFILES=sim"
# Below the ports that Linux hands out (32768) and above Ray's (to 19999); HCCL takes up to 32 from its base.
FIRST_PORT, PORTS, RANGES = 20000, 32, 312

Service = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """What the real containers get.

    Attributes:
        image: reference.
        digest: of the image, empty when it is not ours.
        pull: may Compose pull it?
        made_for: `Settings.summary`.
        cards: the host's numbers.
        present: all cards of the host.
        nodes: device nodes.
        mounts: read-only paths.
        privileged: the seed's way to start: --privileged, host network.
        ascend_runtime: Ascend Docker Runtime provides nodes and driver.
        project: Compose project.
    """

    image: str
    digest: str
    pull: bool
    made_for: str
    cards: list[int]
    present: list[int] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)
    privileged: bool = False
    ascend_runtime: bool = False
    project: str = ""


def base_port(project: str) -> int:
    """HCCL_IF_BASE_PORT of a project: two of them on one machine's network should not meet."""
    return FIRST_PORT + PORTS * (zlib.crc32(project.encode()) % RANGES)


def npu_services(choice: Choice, devices: Devices) -> dict[str, Service]:
    """Return `image` (no cards), `cards`, `node` and `fixtures`, which the services of compose.yaml extend."""
    user = f"${{RUN_AS:-{devices.uid}:{devices.gid}}}"
    image = _image(choice.image, choice.digest, devices, user=user, pull="missing" if choice.pull else "never")
    image["environment"][MADE_FOR] = choice.made_for
    environment = {**image["environment"], **visibility(choice, devices)}
    environment["HCCL_IF_BASE_PORT"] = f"${{HCCL_IF_BASE_PORT:-{base_port(choice.project)}}}"
    cards: Service = {**image, "environment": environment}
    if choice.ascend_runtime and choice.cards:
        cards["runtime"] = "ascend"
    if choice.privileged:
        cards |= {"privileged": True, "network_mode": "host"}
    elif choice.nodes:
        cards["devices"] = [f"{node}:{node}" for node in choice.nodes]
    if choice.mounts:
        cards["volumes"] = [_bind(path, path) for path in choice.mounts]
    fixtures = {**image, "volumes": [_bind(PROFILE_BY_OPTION, "/data")]}
    return {"image": image, "cards": cards, "node": _node(cards, choice.mounts, devices), "fixtures": fixtures}


def _node(cards: Service, mounts: list[str], devices: Devices) -> Service:
    """One of several machines: the addresses of the cards' own network ports, and the tool that tells them.

    Mounted whether the host has them or not: without them there is no training over several machines, and Docker then
    says which is missing. Not again what lies in a folder that is mounted anyway.
    """
    apart = [path for path in devices.cluster_mounts if not any(path.startswith(f"{folder}/") for folder in mounts)]
    return {**cards, "network_mode": "host", "volumes": [*cards.get("volumes", []), *(_bind(p, p) for p in apart)]}


def visibility(choice: Choice, devices: Devices) -> dict[str, str]:
    """The visibility variables.

    Ascend Docker Runtime's variable has the host's numbers. CANN's counts the cards that the container sees: from 0
    where it has only those it was given, and the place among all of the host's where --privileged shows every one.
    """
    host_ids = ",".join(map(str, choice.cards))
    if choice.ascend_runtime:
        return {RUNTIME_VISIBLE: host_ids or "void"}
    seen = choice.present if choice.privileged else choice.cards
    places = ",".join(str(seen.index(card)) for card in choice.cards)
    return {name: host_ids if name == RUNTIME_VISIBLE else places for name in devices.visible}


def sim_services(built: BuiltImage | None, mounts: Mapping[str, str], devices: Devices) -> dict[str, Service]:
    """Return the same of the simulated run: cards are clones of /dev/null, data is made in a volume."""
    reference = built.reference if built else "rlinf-npu:no-simulated-image-run-make-image-BASE-sim"
    user = f"{devices.uid}:{devices.gid}"  # not RUN_AS: the volume is this user's
    image = _image(reference, built.digest if built else "", devices, user=user, pull="never")
    image["environment"] |= {
        SETTINGS: "simulated",  # whatever .env says of cards and images
        MADE_FOR: "simulated",
        "RECAP_CONFIG": "/workspace/fixtures/recap.yaml",
    }
    # In place of DATA_DIR and LOG_DIR. The volume takes over the owner of the image's /workspace.
    image["volumes"] = [
        {"type": "tmpfs", "target": "/data"},
        {"type": "volume", "source": "sim", "target": "/workspace"},
    ]
    nodes = [*(devices.card.format(id=card) for card in range(SIM_CARDS)), *devices.managers]
    places = ",".join(map(str, range(SIM_CARDS)))
    cards: Service = {
        **image,
        "environment": {**image["environment"], **dict.fromkeys(devices.visible, places)},
        "devices": [f"/dev/null:{node}" for node in nodes],
        "volumes": [*image["volumes"], *(_bind(source, target) for source, target in mounts.items())],
    }
    return {"image": image, "cards": cards, "node": cards, "fixtures": cards}


def cards_file(npu: Mapping[str, Service], sim: Mapping[str, Service]) -> dict[str, Any]:
    """Return the file of templates: npu-image, npu-cards and so on, the same for sim, and for cluster those of npu."""
    pairs = {"npu": npu, "sim": sim, "cluster": npu}
    return {"services": {f"{kind}-{name}": service for kind, group in pairs.items() for name, service in group.items()}}


def override_file(services: Mapping[str, str], cards_path: str) -> dict[str, Any]:
    """Return compose.override.yaml: every service of compose.yaml extends a template; the profile chooses which.

    Args:
        services: name -> template without its first part.
        cards_path: of the templates.
    """
    chosen = "${COMPOSE_PROFILES:-npu}"
    extended = {
        name: {"extends": {"file": cards_path, "service": f"{chosen}-{template}"}}
        for name, template in services.items()
    }
    return {"services": extended, "volumes": {"sim": {}}}


def headline(choice: Choice) -> str:
    """What the containers get, in one line."""
    how = "Ascend Docker Runtime" if choice.ascend_runtime else "--privileged" if choice.privileged else "device nodes"
    return f"cards {show(choice.cards)} ({how})" if choice.cards else "no cards"


def _image(reference: str, digest: str, devices: Devices, *, user: str, pull: str) -> Service:
    return {
        "image": reference,
        "pull_policy": pull,
        "user": user,
        "group_add": [str(devices.gid)],  # the nodes' group: for RUN_AS=0:0, as root has no capabilities here
        "environment": {"RLINF_NPU_IMAGE": reference, "RLINF_NPU_IMAGE_DIGEST": digest},
    }


def _bind(source: str, target: str) -> Service:
    # Docker would make an empty folder where the host has nothing, and the tool behind it would fail strangely.
    return {"type": "bind", "source": source, "target": target, "read_only": True, "bind": {"create_host_path": False}}


def templates(compose: Mapping[str, Any]) -> dict[str, str]:
    """Services of compose.yaml and what they extend: `x-template`, else `cards`."""
    return {name: service.get("x-template", "cards") for name, service in compose["services"].items()}
