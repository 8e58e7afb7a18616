"""The pipelines use what exists, pin what they take from others, and grant no more than is needed."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from imagekit.manifest import ROOT

WORKFLOWS = sorted([*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob(".github/actions/*/action.yml")])
PIPELINES = [*WORKFLOWS, ROOT / ".gitlab-ci.yml"]
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def load(path: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(path.read_text(encoding="utf-8")))


def found(node: Any, key: str) -> list[Any]:
    """Every value of `key`, wherever it is."""
    if isinstance(node, list):
        return [value for item in node for value in found(item, key)]
    if not isinstance(node, dict):
        return []
    here = [node[key]] if key in node else []
    return here + [value for item in node.values() for value in found(item, key)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_actions_are_pinned_by_commit_with_their_version_beside(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for used in found(load(path), "uses"):
        if used.startswith("./"):
            assert (ROOT / used / "action.yml").is_file()
            continue
        assert PINNED.fullmatch(used), used
        number = next(i for i, line in enumerate(lines) if used in line)
        assert re.search(r"# v\d+\.\d+\.\d+$", lines[number - 1]), f"which version is {used}?"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_same_action_is_pinned_to_the_same_commit_everywhere(path: Path) -> None:
    pins = {use for other in WORKFLOWS for use in found(load(other), "uses") if "@" in use}
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


def test_no_workflow_grants_everything() -> None:
    for path in ROOT.glob(".github/workflows/*.yml"):
        workflow = load(path)
        assert workflow["permissions"] in ({}, {"contents": "read"})
        for name, job in workflow["jobs"].items():
            rights = job.get("permissions", {})
            assert set(rights) <= {"contents", "packages", "id-token"}, name
            assert rights.get("contents", "read") == "read", name
    promote = load(ROOT / ".github/workflows/publish.yml")["jobs"]["promote"]
    assert promote["environment"] == "release"
    assert promote["needs"] == "gate"


def test_checkouts_leave_no_token_behind() -> None:
    for path in ROOT.glob(".github/workflows/*.yml"):
        steps = [step for job in load(path)["jobs"].values() for step in job["steps"]]
        checkouts = [step for step in steps if "actions/checkout@" in step.get("uses", "")]
        assert checkouts
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.name)
def test_their_make_targets_exist(path: Path) -> None:
    scripts = [line for value in found(load(path), "run") + found(load(path), "script") for line in flat(value)]
    targets = {word for line in scripts for part in re.findall(r"\bmake ([a-z -]+)", line) for word in part.split()}
    done = subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert targets or path.name == "action.yml"
    assert done.returncode == 0, done.stderr


def flat(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else [line for item in value for line in flat(item)]


@pytest.mark.parametrize(
    "path", [ROOT / ".github/workflows/publish.yml", ROOT / ".gitlab-ci.yml"], ids=lambda p: p.name
)
def test_the_chain_is_in_order_and_native(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    steps = ["make lint", "make image", "make test-image", "make push", "make gate", "make promote"]
    assert sorted(steps, key=text.index) == steps
    assert "arm64" in text
    assert "qemu" not in text.lower()


def test_no_password_on_a_command_line() -> None:
    for path in PIPELINES:
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"--password[ =]|-p \$", line), line


def test_every_pushed_image_is_handled_and_a_failure_ends_it(tmp_path: Path) -> None:
    for folder in (".ci", "build"):
        (tmp_path / folder).mkdir()
    script = shutil.copy(ROOT / ".ci/each-pushed", tmp_path / ".ci")
    entries = [{"reference": "h.io/us/a@sha256:1"}, {"reference": "h.io/us/b@sha256:2"}]
    (tmp_path / "build/pushed-arm64.json").write_text(json.dumps(entries), encoding="utf-8")

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([script, *command], capture_output=True, text=True, check=False)

    done = run("arm64", "sh", "-c", 'echo "$IMAGE"')
    assert (done.returncode, done.stdout.split()) == (0, ["h.io/us/a@sha256:1", "h.io/us/b@sha256:2"])
    failed = run("arm64", "sh", "-c", 'echo "$IMAGE"; exit 3')
    assert (failed.returncode, failed.stdout.split()) == (3, ["h.io/us/a@sha256:1"])
    assert run("amd64", "true").returncode != 0  # nothing was pushed for it
