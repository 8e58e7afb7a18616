"""Several machines: what is refused, and what a run over them gets. Ray itself is tried in containers."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from rlinf_npu.recap import node as node_module
from rlinf_npu.recap.cards import refuse_bad_batches
from rlinf_npu.recap.cli import app
from rlinf_npu.recap.compose import policy_settings
from rlinf_npu.recap.config import Config, load_config, validate
from rlinf_npu.recap.errors import RecapError, UsageError
from rlinf_npu.recap.layout import Run
from rlinf_npu.recap.node import Node
from typer.testing import CliRunner

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[3]


@pytest.fixture
def two(raw: dict[str, Any], tmp_path: Path) -> Config:
    return validate({**raw, "nodes": 2, "log_dir": str(tmp_path)}, tmp_path / "recap.yaml")


@pytest.mark.parametrize(
    ("nodes", "rank", "master", "what"),
    [
        (1, 0, "127.0.0.1", "nodes is 1"),
        (2, 2, "127.0.0.1", "NODE_RANK 2: .* 0-1"),
        (2, 0, "", "MASTER_ADDR is not set"),
    ],
)
def test_refused(config: Config, nodes: int, rank: int, master: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        Node(config.model_copy(update={"nodes": nodes}), rank, master, 6379, 1)


def test_a_name_nobody_knows(two: Config) -> None:
    with pytest.raises(UsageError, match=r"MASTER_ADDR no\.such\.host\.invalid"):
        _ = Node(two, 1, "no.such.host.invalid", 6379, 1).address


def test_a_machine_without_a_leader_gives_up(
    two: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(node_module, "PROBE_SECONDS", 0.05)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(RecapError, match=f"127.0.0.1:{port} does not answer"):
            Node(two, 1, "localhost", port, 0.2).serve()
    assert capsys.readouterr().out.count("waiting for machine 0") == 1


def test_all_cards_of_all_machines(two: Config, tmp_path: Path) -> None:
    cluster = policy_settings(two, Run(tmp_path), tmp_path, cards=8)["cluster"]
    assert cluster == {"num_nodes": 2, "component_placement": {"actor,env,rollout": "0-15"}}


def test_batches_count_all_machines(two: Config) -> None:
    refuse_bad_batches(two, 4)
    with pytest.raises(UsageError, match=r"16 x 16 cards = 256; use 256"):
        refuse_bad_batches(two, 8)


def test_the_command_takes_the_number_from_env_too(raw: dict[str, Any], tmp_path: Path) -> None:
    """A recap.yaml without the line is enough."""
    (tmp_path / "recap.yaml").write_text(json.dumps(raw), encoding="utf-8")
    env = {"NNODES": "2", "NODE_RANK": "5", "MASTER_ADDR": "127.0.0.1", "RECAP_CONFIG": str(tmp_path / "recap.yaml")}
    done = CliRunner().invoke(app, ["node"], env=env)
    assert done.exit_code == 2
    assert "NODE_RANK 5: 2 nodes" in done.output or "NODE_RANK 5: with 2 nodes" in done.output


def test_nodes_come_from_env(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNODES", "3")
    assert load_config(ROOT / "recap.yaml").nodes == 3
    monkeypatch.delenv("NNODES")
    assert load_config(ROOT / "recap.yaml").nodes == 1


def test_dataset_comes_from_env(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATASET", "DATASET_TYPE", "EVAL_DATASET", "EVAL_DATASET_TYPE"):
        monkeypatch.setenv(name, "")  # as compose hands on what .env does not have
    monkeypatch.setenv("DATA_DIR", "/d")
    (train,) = load_config(ROOT / "recap.yaml").datasets.train
    assert (train.path.name, train.type) == ("libero10_task0_sft", "sft")
    monkeypatch.setenv("DATASET", "mine/one")
    monkeypatch.setenv("DATASET_TYPE", "rollout")
    (train,) = load_config(ROOT / "recap.yaml").datasets.train
    assert (str(train.path), train.type) == ("/d/mine/one", "rollout")
