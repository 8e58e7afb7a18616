"""What a user sees when something is wrong, and the health check: seconds each, no training."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.compose_kit import RUN, Project

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("compose_possible")]

# A recap.yaml that names nothing that exists: enough for all that happens before the first step.
NO_DATA = """
mkdir -p /workspace/fixtures
echo '{name: tiny, models: {siglip: a, gemma3: b, policy: c}, datasets: {train: [{path: d, type: sft}]}}' \
  >/workspace/fixtures/recap.yaml
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    found = Project(tmp_path)
    try:
        yield found
    finally:
        found.remove()


@pytest.fixture
def ready(project: Project) -> Project:
    """With generated files and data, on a host without cards."""
    (project.folder / "data").mkdir()
    project.env["DATA_DIR"] = str(project.folder / "data")
    project.generate(root=project.folder / "a host without cards")
    return project


def test_without_generated_files_the_message_is_the_fix(project: Project) -> None:
    (project.folder / "runs").mkdir()
    done = project.compose("up", "train", DATA_DIR=str(project.folder), LOG_DIR=str(project.folder / "runs"))
    assert done.returncode != 0
    assert "No such image: rlinf-npu:run-make-compose-first" in done.stdout


def test_settings_changed_since_make_compose(ready: Project) -> None:
    ready.env["NPUS"] = "0-3"
    ready.compose("up", "train")
    assert ready.exit_code("train") == 2
    error = [line for line in ready.logs("train").splitlines() if "error:" in line]
    assert len(error) == 1
    assert "made for NPUS=all" in error[0]
    assert "now NPUS=0-3" in error[0]
    assert "fix: make compose" in error[0]


def test_without_cards_all_is_named_that_is_missing(ready: Project) -> None:
    ready.compose("up", "train")
    assert ready.exit_code("train") == 2
    said = ready.logs("train")
    seen, _, refused = said.partition("recap: ")
    assert "cards: no NPU is visible" in refused
    assert "no such dataset" in refused, "not only after the cards have been cured"
    assert "doctor: error: Cards (no-cards): " in seen, said


@pytest.mark.parametrize("way", [("up", "--exit-code-from", "train", "train"), ("run", "--rm", "-T", "train")])
def test_the_ways_that_hand_on_the_exit_code(ready: Project, way: tuple[str, ...]) -> None:
    assert ready.compose("up", "train").returncode == 0, "up alone does not"
    assert ready.compose(*way).returncode == 2


def test_an_error_of_the_doctor_stops_the_run_unless_told_otherwise(ready: Project) -> None:
    """/dev/shm of 64 MB, Docker's own default."""
    script = f"{NO_DATA}\nrecap step returns; echo code $?; RECAP_DOCTOR=0 recap step returns; echo code $?"
    done = ready.simulated().compose("run", "--rm", "-T", "--no-deps", "train", "bash", "-c", script, SHM_SIZE="64m")
    refused, told = done.stdout.split("code", 1)
    assert "doctor: error: /dev/shm for Ray (shm-small): " in refused
    assert "the doctor found 1 problem(s) (shm-small), nothing was started" in refused
    assert told.lstrip().startswith("2\n")
    assert "shm-small" not in told
    assert "1 returns: started" in told or "No such file" in told, told


@pytest.mark.parametrize(("setting", "value"), [("DATA_DIR", "/no/such/data"), ("LOG_DIR", "/no/such/logs")])
def test_a_folder_that_is_not_there_is_named_and_not_made(ready: Project, setting: str, value: str) -> None:
    ready.env[setting] = value
    done = ready.compose("up", "train")
    assert done.returncode != 0
    assert f"bind source path does not exist: {value}" in done.stdout
    assert not Path(value).exists()


def test_profile_as_an_option_is_refused_by_name(ready: Project) -> None:
    done = ready.compose("--profile", "sim", "up", "train")
    assert done.returncode != 0
    assert "does not exist: /--profile-sim-does-not-suffice:set-COMPOSE_PROFILES=sim" in done.stdout


def test_data_dir_not_set(ready: Project) -> None:
    ready.env["DATA_DIR"] = ""
    assert "does not exist: /DATA_DIR-is-not-set-in-.env" in ready.compose("up", "train").stdout


def test_a_card_that_has_gone_since_make_compose(ready: Project) -> None:
    path = ready.folder / "build/compose-cards.yaml"
    text = path.read_text(encoding="utf-8")
    gone = "    devices: ['/dev/davinci99:/dev/davinci99']\n"
    path.write_text(text.replace("  npu-cards:\n", f"  npu-cards:\n{gone}", 1), encoding="utf-8")
    done = ready.compose("up", "train")
    assert done.returncode != 0
    assert '"/dev/davinci99": no such file or directory' in done.stdout


def test_port_in_use(ready: Project) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = ready.compose("up", "-d", "tensorboard", TENSORBOARD_PORT=str(port))
    assert done.returncode != 0
    assert re.search(rf"{port}.*(already|in use)", done.stdout), done.stdout


def test_what_a_container_may_do(ready: Project) -> None:
    """As small as it can be: no capability, no new privileges, nothing writable but the run, /tmp and /dev/shm."""
    script = """
    cat /proc/1/comm
    grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status
    id -u; getent passwd "$(id -u)" >/dev/null && echo named
    for place in / /usr /opt/rlinf /opt/rlinf-npu /opt/venv /etc /home; do
      touch $place/probe 2>/dev/null && echo "writable: $place"
    done
    touch /tmp/probe /workspace/probe && echo writes
    df -k --output=size /dev/shm | tail -1
    """
    out = ready.simulated().run("shell", "sh", "-c", script)
    lines = [line.strip() for line in out.splitlines()]
    assert "tini" in lines
    assert {"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} <= set(lines)
    assert {"1000", "named", "writes", str(32 << 20)} <= set(lines)
    assert "writable:" not in out


def test_two_simulated_cards_are_seen_by_the_tools_and_by_torch(ready: Project) -> None:
    out = ready.simulated().run("shell", "sh", "-c", "npu-count --torch; npu-smi info -l")
    assert "2" in out.splitlines()
    assert "simulated" in out


# --- the health check ---


def test_health_tells_training_from_hung(ready: Project) -> None:
    config = json.loads(ready.compose("config", "--format", "json").stdout)
    check = config["services"]["train"]["healthcheck"]["test"][1]
    log_dir = f"{RUN}/logs/value_sft/x"
    state = json.dumps({"step": "value_sft", "status": "running", "log_dir": log_dir})
    long_ago = int(config["services"]["train"]["environment"]["HUNG_SECONDS"]) + 60
    script = f"""
    probe() {{ bash -euo pipefail -c {shell_quote(check.replace("$$", "$"))}; echo "$1 $?"; }}
    {NO_DATA}
    probe nothing
    mkdir -p {log_dir} {RUN}/state; echo x >{log_dir}/run_value_sft.log; echo '{state}' >{RUN}/state/value_sft.json
    probe killed
    exec 9>{RUN}/lock; flock 9
    probe fresh
    touch -d '-{long_ago} seconds' {log_dir}/run_value_sft.log
    probe old
    echo x >{RUN}/elsewhere
    probe unrelated
    """
    out = ready.simulated().run("shell", "bash", "-c", script)
    verdicts = re.findall(r"^(nothing|killed|fresh|old|unrelated) (\d)$", out, re.MULTILINE)
    assert verdicts == [("nothing", "0"), ("killed", "1"), ("fresh", "0"), ("old", "1"), ("unrelated", "1")], out
    assert "2 value SFT: nothing happened for 16m" in out


def shell_quote(text: str) -> str:
    """One shell word."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def test_projects_have_their_own_ports(tmp_path: Path) -> None:
    ports = set()
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        project = Project(folder)
        project.generate(root=folder / "none", project=f"team-{number}")
        shown = subprocess.run(
            ["docker", "compose", "config", "--format", "json"],
            cwd=folder, env=project.env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        ports.add(json.loads(shown.stdout)["services"]["train"]["environment"]["HCCL_IF_BASE_PORT"])
    assert len(ports) == 2
