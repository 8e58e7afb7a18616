"""Failure drills on simulated cards: nothing is lost; the next `up` ends with the tables of an undisturbed run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.e2e.compose_kit import RUN, Project
from tests.e2e.compose_runs import TRAIN_SECONDS, exists, finish, kill_when, new_project, running

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.usefixtures("compose_possible"),
    pytest.mark.timeout(3 * TRAIN_SECONDS),
]
DATA, MODELS = "/workspace/fixtures/datasets", "/workspace/fixtures/models"


def files(project: Project, *patterns: str) -> list[str]:
    """What matches below the run's folder."""
    script = "; ".join(f"compgen -G '{RUN}/{pattern}'" for pattern in patterns)
    return [line for line in project.run("shell", "bash", "-c", f"{script}; true").split() if line.startswith(RUN)]


def checkpoints(project: Project, place: str) -> list[str]:
    """Names of the checkpoints, finished and not."""
    found = files(project, f"logs/{place}/checkpoints/.part_*", f"logs/{place}/checkpoints/global_step_*")
    return sorted(Path(path).name for path in found)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with fixtures, for what needs no training before it."""
    found = new_project(tmp_path_factory.mktemp("prepared"))
    try:
        done = found.compose("up", "fixtures", seconds=TRAIN_SECONDS)
        assert found.exit_code("fixtures") == 0, done.stdout
        yield found
    finally:
        found.remove()


# --- refused before anything starts ---


def test_a_broken_mp4_and_a_missing_model_file_are_named_and_nothing_starts(prepared: Project) -> None:
    """The fixtures are whole again afterwards."""
    video = f"{DATA}/tiny_fixture_train/videos/chunk-000/image/episode_000002.mp4"
    weights = f"{MODELS}/tiny-fixture-gemma-3/model.safetensors"
    script = f"""
    cp {video} /workspace/kept.mp4; mv {weights} /workspace/kept.weights
    head -c 400 /workspace/kept.mp4 >{video}
    recap run --set name=refused; echo "code $?"
    mv /workspace/kept.mp4 {video}; mv /workspace/kept.weights {weights}
    ls -A /workspace/refused
    recap check >/dev/null; echo "check $?"
    """
    out = prepared.run("shell", "bash", "-c", script, seconds=300)
    assert "code 2" in out, out
    assert "2 problem(s), nothing was started" in out, out
    assert re.search(rf"{video}: cannot be decoded.*; copy this file again, or leave the episode out", out), out
    assert re.search(rf"{weights}: missing weights; download the model again", out), out
    assert "cannot access '/workspace/refused'" in out or "state" not in out, "no step was begun"
    assert "check 0" in out


# --- kill -9 ---


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A run that died in each of the four steps, in steps 2 and 4 while a checkpoint was being written."""
    project = new_project(tmp_path_factory.mktemp("killed"))
    found: dict[str, Any] = {}
    try:
        kill_when(project, running("returns"))
        found["returns"] = files(project, "data/*/*/meta/returns.parquet", "data/*/*/meta/.*part")
        kill_when(project, exists("logs/value_sft/*/value_sft/checkpoints/.part_global_step_4"))
        found["value_sft"] = checkpoints(project, "value_sft/*/value_sft")
        kill_when(project, f"{running('advantages')} && [ -s {RUN}/logs/advantages/*/run_compute_advantages.log ]")
        found["advantages"] = files(project, "data/*/*/meta/advantages.parquet")
        kill_when(project, exists("logs/cfg_rl/*/cfg_sft/checkpoints/.part_global_step_4"))
        found["cfg_rl"] = checkpoints(project, "cfg_rl/*/cfg_sft")
        found["end"] = finish(project)
        found["left"] = files(project, "logs/*/*/*/checkpoints/.part_*", "data/*/*/meta/.*part")
        yield found
    finally:
        project.remove()


def test_a_killed_step_leaves_nothing_that_looks_whole(killed: dict[str, Any]) -> None:
    assert killed["returns"] == []
    assert killed["advantages"] == []
    for step in ("value_sft", "cfg_rl"):
        assert killed[step] == [".part_global_step_4", "global_step_2"], step


def test_after_kills_in_all_steps_the_tables_are_those_of_an_undisturbed_run(
    killed: dict[str, Any], results: dict[str, Any]
) -> None:
    assert killed["end"]["tables"] == results["tables"]
    assert killed["end"]["checkpoints"].keys() == results["checkpoints"].keys()
    assert all(finite for _, finite in killed["end"]["checkpoints"].values())


def test_each_step_was_begun_twice_and_training_went_on(killed: dict[str, Any]) -> None:
    assert killed["end"]["states"] == {
        "returns": ["done", 2, None],
        "value_sft": ["done", 2, 2],
        "advantages": ["done", 2, None],
        "cfg_rl": ["done", 2, 2],
    }
    assert killed["left"] == [], "half files of the killed attempts are gone"


# --- a full disk ---


@pytest.fixture
def small_disk(project: Project) -> Project:
    """Its volume is a file system of 1.6 GB in memory; a container holds it, or it would vanish between two runs."""
    options = {"type": "tmpfs", "device": "tmpfs", "o": "size=1600m,uid=1000,gid=1000"}
    content = {"services": {}, "volumes": {"sim": {"driver": "local", "driver_opts": options}}}
    with (project.folder / "small.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(content, file)
    project.files.append("small.yaml")
    held = project.compose("run", "-d", "--no-deps", "shell", "sleep", "infinity")
    assert held.returncode == 0, held.stdout
    return project


def test_a_full_disk_is_said_and_the_next_run_completes(small_disk: Project, results: dict[str, Any]) -> None:
    """The disk fills up while step 2 is starting: its checkpoint finds no room."""
    started = small_disk.compose("up", "-d", "train", seconds=300)
    assert started.returncode == 0, started.stdout
    script = (
        f"until {running('value_sft')}; do sleep 0.1; done; dd if=/dev/zero of=/workspace/ballast bs=1M 2>/dev/null"
    )
    small_disk.compose("exec", "-T", "train", "bash", "-c", script, seconds=300)
    small_disk.ended("train", TRAIN_SECONDS)
    log = small_disk.logs("train")
    assert small_disk.exit_code("train") == 1, log
    assert "No space left on device" in log, log
    assert files(small_disk, "logs/value_sft/*/value_sft/checkpoints/global_step_*") == [], "none that looks whole"
    small_disk.run("shell", "rm", "/workspace/ballast")
    found = finish(small_disk)
    assert found["tables"] == results["tables"]
    assert found["states"]["returns"][1] == 1, "a finished step is not done again"


# --- hangs ---

EXTENSION = """
import os, time
def broken(self, *arguments, **options):
    {what}
def register():
    from rlinf.hybrid_engines.fsdp.fsdp_model_manager import FSDPModelManager
    FSDPModelManager.__init__ = broken
"""


def step_2(project: Project, *settings: str) -> str:
    """`recap step value-sft` in a run named hang; returns all that was said, and the code."""
    options = " ".join(f"--set {setting}" for setting in ("name=hang", *settings))
    script = f"PYTHONPATH=/workspace/hang:$PYTHONPATH recap step value-sft {options} 2>&1; echo code $?"
    return project.run("shell", "bash", "-c", script, seconds=TRAIN_SECONDS)


@pytest.fixture
def hanging(prepared: Project) -> Iterator[Project]:
    """With a run whose step 1 is done."""
    prepared.run("shell", "recap", "step", "returns", "--set", "name=hang", seconds=300)
    yield prepared
    prepared.run("shell", "rm", "-rf", "/workspace/hang")


def extend(project: Project, what: str) -> None:
    """Give the workers an __init__ of ours."""
    text = EXTENSION.format(what=what)
    project.run("shell", "sh", "-c", f"cat >/workspace/hang/disturbed.py <<'END'\n{text}\nEND")


def test_a_worker_that_hangs_in_its_init_is_ended_with_stacks_and_the_next_run_completes(hanging: Project) -> None:
    extend(hanging, "time.sleep(3600)")
    out = step_2(hanging, "ext_module=disturbed", "watchdog.silence=45")
    assert "code 1" in out, out
    assert "2 value SFT hangs: no log line, no TensorBoard value and no checkpoint for" in out, out
    stacks = re.search(r"Python stacks in (\S+);", out)
    assert stacks, out
    text = hanging.run("shell", "cat", stacks[1])
    assert "broken (disturbed.py:4)" in text or re.search(r"disturbed\.py.*line 4 in broken", text), text[-3000:]
    assert step_2(hanging).strip().endswith("code 0")


def test_a_worker_that_fails_in_its_init_does_not_wait_for_ever(hanging: Project) -> None:
    """RLinf's driver would: the failed worker's error is in the log, and nothing else ever happens."""
    extend(hanging, "raise RuntimeError('this card is broken')")
    out = step_2(hanging, "ext_module=disturbed", "watchdog.after_error=10")
    assert "code 1" in out, out
    assert "this card is broken" in out, out
