"""`docker compose up node` on two machines: here two containers with a simulated card each, joined by a bridge network.

Real: Ray over the network, two nodes, RLinf's placement on them, the doctor's and recap's part. Simulated: the cards,
and HCCL, whose stand-in needs a common /dev/shm.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.compose_kit import Project, manifest, why_not
from tests.e2e.compose_runs import TRAIN_SECONDS, look, new_project

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2 * TRAIN_SECONDS)]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Services node0 and node1, made from what Compose says of `node`."""
    if reason := why_not():
        pytest.skip(reason)
    project = new_project(tmp_path_factory.mktemp("cluster"))
    profiles = ("--profile", "sim", "--profile", "cluster")
    shown = project.compose(*profiles, "config", "--format", "json", NNODES="2", MASTER_ADDR="node0")
    content = json.loads(shown.stdout)
    node = content["services"].pop("node")
    for rank in range(2):
        content["services"][f"node{rank}"] = machine(node, rank, project.folder)
    (project.folder / "machines.json").write_text(json.dumps(content), encoding="utf-8")
    project.files = ["machines.json"]
    try:
        yield project
    finally:
        project.remove()


def machine(node: dict[str, Any], rank: int, folder: Path) -> dict[str, Any]:
    """One of the two: a card with an hccn address, and the bridge instead of the host's network."""
    hccn = folder / f"hccn{rank}.conf"
    hccn.write_text(f"address_0=192.0.2.{rank + 1}\nnetmask_0=255.255.255.0\n", encoding="utf-8")
    devices = manifest().devices
    found = {name: value for name, value in node.items() if name not in ("network_mode", "profiles", "shm_size")}
    found["environment"] = node["environment"] | dict.fromkeys(devices.visible, "0") | {"NODE_RANK": str(rank)}
    found["devices"] = [device for device in node["devices"] if not device["target"].endswith("davinci1")]
    found["volumes"] = [*node["volumes"], {"type": "bind", "source": str(hccn), "target": "/etc/hccn.conf"}]
    return found | ({"ipc": "shareable", "shm_size": node["shm_size"]} if rank == 0 else {"ipc": "service:node0"})


def test_two_machines_train_together(machines: Project) -> None:
    done = machines.compose("up", "-d", "node0", "node1", seconds=300)
    assert done.returncode == 0, done.stdout
    machines.ended("node0", TRAIN_SECONDS)
    log = machines.logs("node0")
    assert machines.exit_code("node0") == 0, log + machines.logs("node1")
    assert "node 0: 2 of 2 nodes" in log
    machines.ended("node1", 120)
    assert machines.exit_code("node1") == 0, machines.logs("node1")
    assert "node 1: machine 0 has ended" in machines.logs("node1")


def test_their_cards_were_one_group(machines: Project) -> None:
    machines.files = ["compose.yaml", "compose.override.yaml"]
    found = look(machines)
    assert {state[0] for state in found["states"].values()} == {"done"}
    for step in ("value_sft", "cfg_rl"):
        text = machines.run("shell", "bash", "-c", f"cat /workspace/tiny/logs/{step}/*/run_{step}.log")
        assert "running on a cluster with 2 nodes and 2 accelerators" in text
