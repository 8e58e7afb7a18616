"""`COMPOSE_PROFILES=sim docker compose up train`: to green, through SIGTERM, with a card less."""

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.e2e.compose_kit import RUN, Project, manifest
from tests.e2e.compose_runs import PROBE, TRAIN_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2 * TRAIN_SECONDS)]


def test_training_ends_green(trained: Project, results: dict[str, Any]) -> None:
    assert trained.exit_code("fixtures") == 0, trained.logs("fixtures")[-3000:]
    assert trained.exit_code("train") == 0, trained.logs("train")[-3000:]
    assert {name: state[0] for name, state in results["states"].items()} == dict.fromkeys(
        ("returns", "value_sft", "advantages", "cfg_rl"), "done"
    )


def test_outputs_are_there(results: dict[str, Any]) -> None:
    rows = {name: table[0] for name, table in results["tables"].items()}
    trained_on = {name.split("/")[0] for name in rows if name.endswith("/advantages.parquet")}
    assert trained_on == {"tiny_fixture_sft", "tiny_fixture_train"}
    for dataset in trained_on:
        assert rows[f"{dataset}/advantages.parquet"] == rows[f"{dataset}/returns.parquet"] > 0
        assert "advantage" in results["tables"][f"{dataset}/advantages.parquet"][1]
    for step in ("value_sft", "cfg_rl"):
        saved = {name: found for name, found in results["checkpoints"].items() if name.startswith(step)}
        assert saved, f"no checkpoint of {step}"
        assert all(count > 10 and finite for count, finite in saved.values()), saved


def test_run_knows_its_image(trained: Project) -> None:
    text = trained.run("shell", "cat", f"{RUN}/environment.json")
    record = json.loads(text[text.index("{") :])
    built = json.loads(next((trained.folder / "build").glob("built-*-sim.json")).read_text(encoding="utf-8"))
    assert built["images"]["rlinf-npu"]["tags"][-1] in json.dumps(record)


def test_again_does_nothing(trained: Project, results: dict[str, Any]) -> None:
    done = trained.compose("up", "--exit-code-from", "train", "train", seconds=300)
    assert done.returncode == 0, done.stdout
    assert trained.exit_code("train") == 0
    assert done.stdout.count("skipped") == 4, done.stdout
    assert trained.python(PROBE)["tables"] == results["tables"]


def test_each_step_alone(trained: Project) -> None:
    for service in ("returns", "value-sft", "advantages", "cfg-rl"):
        assert "skipped" in trained.run(service), service


def test_status_in_the_shell(trained: Project) -> None:
    assert trained.run("shell", "recap", "status").count("done") >= 4


def test_tensorboard_answers_on_loopback_only(trained: Project) -> None:
    started = trained.compose("up", "-d", "--wait", "--no-deps", "tensorboard", TENSORBOARD_PORT="0")
    assert started.returncode == 0, started.stdout + trained.logs("tensorboard")
    port = trained.container("tensorboard")["NetworkSettings"]["Ports"]["6006/tcp"]
    assert [binding["HostIp"] for binding in port] == ["127.0.0.1"]
    code = (
        "import urllib.request as u; "
        "print(u.urlopen('http://127.0.0.1:6006/data/plugin/scalars/tags', timeout=20).read().decode())"
    )
    tags = trained.compose("exec", "-T", "tensorboard", "python", "-c", code).stdout
    assert "train/loss" in tags
    trained.compose("rm", "-sf", "tensorboard")


def test_doctor_finds_the_simulated_container_healthy(trained: Project) -> None:
    text = trained.compose("run", "--rm", "-T", "--no-deps", "doctor", "doctor", "--json").stdout
    report = json.loads(text[text.index("{") : text.rindex("}") + 1])
    of_this_machine = {"disk", "inodes", "clock"}  # whoever runs the tests may be short of space
    errors = [found for found in report["findings"] if found["severity"] == "error"]
    assert {found["rule"] for found in errors} <= of_this_machine, errors
    assert "simulated" in text


# --- drills ---


def start_and_stop(project: Project, step: str) -> str:
    """Start training, stop it by SIGTERM once `step` has begun to train; return the log."""
    started = project.compose("up", "-d", "train", seconds=300)
    assert started.returncode == 0, started.stdout
    begun = f"ls {RUN}/logs/{step}/*/*/checkpoints/ 2>/dev/null | grep -q global_step_"
    project.until(
        lambda: project.compose("exec", "-T", "train", "sh", "-c", begun).returncode == 0, TRAIN_SECONDS, "train"
    )
    stopped = project.compose("stop", "train", seconds=400)
    assert stopped.returncode == 0, stopped.stdout
    return project.logs("train")


def test_sigterm_loses_nothing(project: Project, results: dict[str, Any]) -> None:
    log = start_and_stop(project, "value_sft")
    assert project.exit_code("train") == 75, log
    assert "goes on from the last complete one" in log
    done = project.compose("up", "train", seconds=TRAIN_SECONDS)
    assert project.exit_code("train") == 0, done.stdout
    found = project.python(PROBE)
    assert found["states"]["returns"][1] == 1, "a finished step is not done again"
    assert found["states"]["value_sft"][2], "went on from a checkpoint"
    assert found["tables"] == results["tables"], "the same as of a run that nobody stopped"


def take_second_card_away(templates: Path) -> None:
    """What `make compose` would write on a host that has lost it."""
    yaml = YAML(typ="safe")
    content = yaml.load(templates.read_text(encoding="utf-8"))
    cards = content["services"]["sim-cards"]
    cards["devices"].remove("/dev/null:/dev/davinci1")
    cards["environment"] |= dict.fromkeys(manifest().devices.visible, "0")
    with templates.open("w", encoding="utf-8") as file:
        yaml.dump(content, file)


def test_down_and_a_card_less(project: Project, results: dict[str, Any]) -> None:
    start_and_stop(project, "value_sft")
    project.compose("down")  # containers go, the volume stays
    take_second_card_away(project.folder / "build/compose-cards.yaml")
    done = project.compose("up", "train", seconds=TRAIN_SECONDS)
    assert project.exit_code("train") == 0, done.stdout
    assert "1 card(s)" in done.stdout
    found = project.python(PROBE)
    assert found["states"]["value_sft"][2], "went on from the checkpoint that two cards wrote"
    rows = {name: table[0] for name, table in found["tables"].items()}
    assert rows == {name: table[0] for name, table in results["tables"].items()}
