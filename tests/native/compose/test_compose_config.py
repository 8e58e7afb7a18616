"""compose.yaml with the generated files, as Docker Compose itself understands them. Needs its CLI, no engine."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hostkit import Said

from imagekit.compose import generate
from imagekit.compose.settings import NAMES, read_settings
from imagekit.manifest import ROOT, Manifest

STEPS = ("train", "returns", "value-sft", "advantages", "cfg-rl")
TOOLS = ("tensorboard", "shell", "smoke", "doctor")
GIB = 1 << 30

# Where docker looks for its plugins. Called by itself, Compose is the same program and starts in half the time.
FOLDERS = (
    os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker"),
    *(f"/usr/{name}/docker" for name in ("local/lib", "local/libexec", "lib", "libexec")),
)
PLUGINS = [Path(folder, "cli-plugins/docker-compose") for folder in FOLDERS]
COMPOSE = next((plugin for plugin in PLUGINS if os.access(plugin, os.X_OK)), None)

pytestmark = pytest.mark.skipif(COMPOSE is None, reason="docker has no compose plugin here")


class Project:
    """A checkout with a built image on a host with eight cards."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.root, self.manifest = folder / "checkout", folder / "host", manifest
        (self.folder / "build").mkdir(parents=True)
        shutil.copy(ROOT / "compose.yaml", self.folder)
        shutil.copy(ROOT / ".env.example", self.folder / ".env")
        devices = manifest.devices
        nodes = [*(devices.card.format(id=card) for card in range(8)), *devices.managers]
        for path in [*nodes, *(mount.path for mount in devices.mounts)]:
            (self.root / path.lstrip("/")).mkdir(parents=True)
        for suffix in ("", "-sim"):
            image = {"tags": [f"rlinf-npu:1{suffix}"], "digest": "sha256:0", "size": 1}
            record = self.folder / f"build/built-arm64{suffix}.json"
            record.write_text(json.dumps({"images": {"rlinf-npu": image}}), encoding="utf-8")

    def env(self, text: str) -> None:
        with (self.folder / ".env").open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")

    def generate(self) -> None:
        settings = read_settings(self.folder / ".env", {})
        generate(self.manifest, "arm64", Said(), folder=self.folder, root=self.root, settings=settings)

    def compose(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        ours = {"COMPOSE_PROFILES", "COMPOSE_FILE", *NAMES.values()}
        clean = {name: value for name, value in os.environ.items() if name not in ours}
        return subprocess.run(
            [str(COMPOSE), *arguments],
            cwd=self.folder,
            env=clean | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def services(self, *arguments: str, **environment: str) -> dict[str, Any]:
        done = self.compose(*arguments, "config", "--format", "json", **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["services"]


@pytest.fixture
def project(tmp_path: Path, manifest: Manifest) -> Project:
    return Project(tmp_path, manifest)


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory, manifest: Manifest) -> Project:
    """The project with nothing set and its files generated; tests read it only."""
    project = Project(tmp_path_factory.mktemp("standard"), manifest)
    project.generate()
    return project


@pytest.fixture(scope="module")
def everything(standard: Project) -> dict[str, Any]:
    return standard.services("--profile", "steps", "--profile", "tools")


def test_the_services_are_there_and_up_starts_training_alone(standard: Project, everything: dict[str, Any]) -> None:
    assert set(everything) == {*STEPS, *TOOLS}
    assert set(standard.services()) == {"train"}, "`docker compose up` must not start all steps at once"


def test_no_service_is_privileged(everything: dict[str, Any]) -> None:
    for name, service in everything.items():
        assert not service.get("privileged"), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert service["user"] == "1000:1000", name
        assert service["logging"]["options"] == {"max-file": "5", "max-size": "50m"}, name


def test_pid_1_is_the_images_tini(everything: dict[str, Any]) -> None:
    for service in everything.values():
        assert service["entrypoint"][:3] == ["tini", "--", "container-entrypoint"]
        assert "init" not in service, "a second init would only warn about the first"


def test_cards_driver_data_and_room(everything: dict[str, Any], standard: Project) -> None:
    for name in [*STEPS, "shell", "smoke", "doctor"]:
        service = everything[name]
        devices = {device["source"]: device["target"] for device in service["devices"]}
        assert len(devices) == 8 + 3, name
        assert all(source == target for source, target in devices.items()), name
        mounts = {mount["target"]: mount for mount in service["volumes"]}
        assert mounts["/data"]["source"] == "/data", name
        assert mounts["/workspace"]["source"] == str(standard.folder / "runs"), name
        assert mounts["/usr/local/Ascend/driver"]["read_only"] is True, name
        assert int(service["shm_size"]) == 32 * GIB, name
        assert service["environment"]["ASCEND_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7", name
        assert service["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7", name
        assert service["environment"]["HCCL_CONNECT_TIMEOUT"] == "1800", name
        assert service["environment"]["HCCL_IF_BASE_PORT"].isdigit(), name


def test_an_open_shell_stops_at_once(everything: dict[str, Any]) -> None:
    """An interactive bash ignores SIGTERM, and nothing in it is worth the six minutes that a checkpoint may take."""
    assert everything["shell"]["stop_signal"] == "SIGHUP"
    assert "stop_grace_period" not in everything["shell"]


def test_steps_stop_slowly_and_have_a_health_check_of_their_own(everything: dict[str, Any]) -> None:
    for name in STEPS:
        assert everything[name]["stop_grace_period"] == "6m0s"
        check = everything[name]["healthcheck"]["test"][1]
        assert check == 'container-health && recap health --silence "$$HUNG_SECONDS"'
    commands = [everything[name]["command"] for name in STEPS]
    assert commands == [["recap", "run"], *(["recap", "step", name] for name in STEPS[1:])]


def test_what_recap_yaml_looks_up_comes_from_env(project: Project) -> None:
    project.env("DATASET=mine/one\nDATASET_TYPE=rollout\nRECAP_DOCTOR=0")
    project.generate()
    environment = project.services()["train"]["environment"]
    assert [environment[n] for n in ("DATASET", "DATASET_TYPE", "RECAP_DOCTOR")] == ["mine/one", "rollout", "0"]
    assert environment["EVAL_DATASET"] == "RECAP-Libero10-Task0-48succ-Data/libero10_task0_train", "of .env.example"


@pytest.mark.parametrize("way", [{"COMPOSE_PROFILES": "cluster"}, {}])
def test_one_of_several_machines(project: Project, way: dict[str, str]) -> None:
    project.env("NNODES=2\nNODE_RANK=1\nMASTER_ADDR=10.0.0.1\nHCCL_SOCKET_IFNAME=eth7")
    project.generate()
    services = project.services(*([] if way else ["--profile", "cluster"]), **way)
    assert set(services) == {"train", "node"}
    node = services["node"]
    assert node["command"] == ["recap", "node"]
    assert node["network_mode"] == "host"
    environment = node["environment"]
    assert [environment[name] for name in ("NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")] == [
        "2", "1", "10.0.0.1", "6379"
    ]  # fmt: skip
    assert environment["HCCL_SOCKET_IFNAME"] == "eth7"
    assert environment.get("HCCL_IF_IP") is None, "not handed on: an empty value would not mean unset"
    assert environment["RLINF_NPU_MADE_FOR"] == environment["RLINF_NPU_SETTINGS"]
    mounts = {mount["target"]: mount["read_only"] for mount in node["volumes"] if "read_only" in mount}
    assert mounts["/etc/hccn.conf"]
    assert mounts["/usr/local/Ascend/driver"], "brings hccn_tool"
    assert len(node["devices"]) == 8 + 3
    assert "/etc/hccn.conf" not in {mount["target"] for mount in services["train"]["volumes"]}


def test_tensorboard_is_on_loopback_and_holds_no_card(standard: Project, everything: dict[str, Any]) -> None:
    board = everything["tensorboard"]
    assert [(port["host_ip"], port["published"]) for port in board["ports"]] == [("127.0.0.1", "6006")]
    assert "devices" not in board
    other = standard.services("--profile", "tools", TENSORBOARD_PORT="7007")["tensorboard"]
    assert other["ports"][0]["published"] == "7007"


@pytest.mark.parametrize(
    "lines",
    ["NPUS=4-6\nPRIVILEGED=1", "NPUS='0,2' # two\nexport IMAGE=\"reg/rlinf-npu:1\"", "NPUS=\nRUNTIME=ascend"],
)
def test_we_read_env_as_compose_does(project: Project, lines: str) -> None:
    """Every kind of quoting, each setting; Compose's own reading stands in RLINF_NPU_SETTINGS."""
    project.env(lines)
    project.generate()
    environment = project.services()["train"]["environment"]
    assert environment["RLINF_NPU_SETTINGS"] == environment["RLINF_NPU_MADE_FOR"]


def test_a_later_change_of_env_shows(project: Project) -> None:
    project.generate()
    project.env("NPUS=0-3")
    environment = project.services()["train"]["environment"]
    assert environment["RLINF_NPU_SETTINGS"] != environment["RLINF_NPU_MADE_FOR"]


def test_privileged(project: Project) -> None:
    project.env("PRIVILEGED=1")
    project.generate()
    train = project.services()["train"]
    assert train["privileged"] is True
    assert train["network_mode"] == "host"
    assert int(train["shm_size"]) == 32 * GIB
    assert "devices" not in train


def test_ascend_docker_runtime(project: Project) -> None:
    project.env("RUNTIME=ascend\nNPUS=2-3")
    project.generate()
    train = project.services()["train"]
    assert train["runtime"] == "ascend"
    assert train["environment"]["ASCEND_VISIBLE_DEVICES"] == "2,3"
    assert "ASCEND_RT_VISIBLE_DEVICES" not in train["environment"]
    assert {mount["target"] for mount in train["volumes"]} == {"/data", "/workspace", "/etc/rlinf-npu/recap.yaml"}


def test_simulated_profile_has_nothing_of_this_host(project: Project) -> None:
    project.env("NPUS=none\nIMAGE=registry.example/real:1\nDATA_DIR=")
    project.generate()
    services = project.services(COMPOSE_PROFILES="sim")
    assert set(services) == {"train", "fixtures"}
    train = services["train"]
    assert train["image"] == "rlinf-npu:1-sim"
    assert {device["source"] for device in train["devices"]} == {"/dev/null"}
    assert train["environment"]["RLINF_NPU_SETTINGS"] == train["environment"]["RLINF_NPU_MADE_FOR"]
    mounts = {mount["target"]: mount["type"] for mount in train["volumes"]}
    assert mounts["/data"] == "tmpfs"
    assert mounts["/workspace"] == "volume"
    assert train["depends_on"]["fixtures"]["condition"] == "service_completed_successfully"


def test_everything_of_a_simulated_project_is_named_at_once(standard: Project) -> None:
    """`COMPOSE_PROFILES=sim docker compose --profile '*' down --volumes` reaches all services and the volume."""
    arguments = ("--profile", "*", "config")
    services = standard.compose(*arguments, "--services", COMPOSE_PROFILES="sim").stdout.split()
    assert set(services) == {*STEPS, *TOOLS, "node", "fixtures"}
    assert standard.compose(*arguments, "--volumes", COMPOSE_PROFILES="sim").stdout.split() == ["sim"]
    assert standard.compose(*arguments, "--volumes").stdout.split() == [], "without the variable the volume stays"


# --- what is missing is named with its fix ---


def test_profile_as_an_option_mounts_what_is_not_there(standard: Project) -> None:
    services = standard.services("--profile", "sim")
    assert services["train"]["depends_on"]["fixtures"]["condition"] == "service_completed_successfully"
    data = next(mount for mount in services["fixtures"]["volumes"] if mount["target"] == "/data")
    assert data["source"].endswith("set-COMPOSE_PROFILES=sim")
    assert not data["bind"].get("create_host_path")


def test_without_generated_files_the_image_name_says_what_to_do(project: Project) -> None:
    train = project.services()["train"]
    assert train["image"] == "rlinf-npu:run-make-compose-first"
    assert train["pull_policy"] == "never"


def test_data_dir_not_set(project: Project) -> None:
    project.env("DATA_DIR=")
    project.generate()
    data = next(mount for mount in project.services()["train"]["volumes"] if mount["target"] == "/data")
    assert data["source"] == "/DATA_DIR-is-not-set-in-.env"
    assert not data["bind"].get("create_host_path")


def test_unknown_profile_is_an_error(standard: Project) -> None:
    done = standard.compose("config", COMPOSE_PROFILES="clusters")
    assert done.returncode != 0
    # Services extend one of four templates, and Compose reads services in no fixed order.
    assert re.search(r'service "clusters-(cards|fixtures|image|node)" not found', done.stderr)
