"""The generated Compose files: what a container gets, and that nothing half-right is written."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostkit import Said

from imagekit.compose import CARDS_FILE, OVERRIDE_FILE, generate
from imagekit.compose.checks import check_forms
from imagekit.compose.render import FIRST_PORT, PORTS, base_port
from imagekit.compose.settings import Settings
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest

SIM_TAG, REAL_TAG = "rlinf-npu:1-abc-sim", "rlinf-npu:1-abc"


class Checkout:
    """A checkout with compose.yaml, and a host beside it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.root, self.manifest = folder / "checkout", folder / "host", manifest
        (self.folder / "build").mkdir(parents=True)
        (self.root / "dev").mkdir(parents=True)
        (self.folder / "compose.yaml").write_bytes((ROOT / "compose.yaml").read_bytes())
        self.said = Said()

    def built(self, suffix: str, tag: str) -> None:
        image = {"tags": ["rlinf-npu:moving", tag], "digest": f"sha256:{tag}", "size": 1}
        path = self.folder / "build" / f"built-amd64{suffix}.json"
        path.write_text(json.dumps({"images": {"rlinf-npu": image}}), encoding="utf-8")

    def with_cards(self, *cards: int) -> None:
        devices = self.manifest.devices
        for node in [*(devices.card.format(id=card) for card in cards), *devices.managers]:
            (self.root / node.lstrip("/")).touch()
        for mount in devices.mounts:
            (self.root / mount.path.lstrip("/")).mkdir(parents=True)

    def generate(self, **settings: str) -> dict[str, Any]:
        self.said.clear()
        generate(self.manifest, "amd64", self.said, folder=self.folder, root=self.root, settings=Settings(**settings))
        return self.read(CARDS_FILE)["services"]

    def read(self, name: str) -> Any:
        return yaml.load((self.folder / name).read_text(encoding="utf-8"), yaml.CSafeLoader)


@pytest.fixture
def checkout(tmp_path: Path, manifest: Manifest) -> Checkout:
    found = Checkout(tmp_path, manifest)
    found.built("-sim", SIM_TAG)
    return found


def test_cards_get_nodes_driver_and_both_variables(checkout: Checkout) -> None:
    checkout.with_cards(*range(8))
    checkout.built("", REAL_TAG)
    cards = checkout.generate(npus="4-6")["npu-cards"]
    nodes = ["davinci4", "davinci5", "davinci6", "davinci_manager", "devmm_svm", "hisi_hdc"]
    # Numbers are the host's and never mapped to others.
    assert cards["devices"] == [f"/dev/{node}:/dev/{node}" for node in nodes]
    assert {mount["target"]: mount["source"] for mount in cards["volumes"]} == {
        path: path
        for path in (
            "/usr/local/Ascend/driver",
            "/usr/local/dcmi",
            "/usr/local/bin/npu-smi",
            "/etc/ascend_install.info",
        )
    }
    assert all(mount["read_only"] and not mount["bind"]["create_host_path"] for mount in cards["volumes"])
    assert cards["environment"]["ASCEND_VISIBLE_DEVICES"] == "4,5,6", "the host's numbers, for Ascend Docker Runtime"
    assert cards["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == "0,1,2", "CANN counts what the container sees"
    assert cards["image"] == REAL_TAG
    assert cards["environment"]["RLINF_NPU_IMAGE_DIGEST"] == f"sha256:{REAL_TAG}"
    assert "privileged" not in cards
    assert "runtime" not in cards


def test_privileged_is_the_seeds_run_line(checkout: Checkout) -> None:
    checkout.with_cards(0, 1, 4, 5)
    cards = checkout.generate(npus="4-5", privileged="1")["npu-cards"]
    assert cards["privileged"] is True
    assert cards["network_mode"] == "host"
    assert "devices" not in cards
    assert cards["volumes"], "--privileged shows device nodes, not the driver"
    # Every card is visible there: CANN counts the host's.
    assert cards["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == "2,3"
    assert cards["environment"]["ASCEND_VISIBLE_DEVICES"] == "4,5"


def test_ascend_runtime_brings_devices_and_driver_itself(checkout: Checkout) -> None:
    checkout.with_cards(*range(8))
    cards = checkout.generate(npus="0,3", runtime="ascend")["npu-cards"]
    assert cards["runtime"] == "ascend"
    assert cards["environment"]["ASCEND_VISIBLE_DEVICES"] == "0,3"
    assert "ASCEND_RT_VISIBLE_DEVICES" not in cards["environment"]
    assert not {"devices", "volumes", "privileged"} & cards.keys()


def test_hccn_tool_is_mounted_once(checkout: Checkout) -> None:
    checkout.with_cards(0)
    targets = [mount["target"] for mount in checkout.generate()["npu-node"]["volumes"]]
    assert targets.count("/etc/hccn.conf") == 1
    assert "/usr/local/Ascend/driver/tools/hccn_tool" not in targets, "lies in the driver folder"
    bare = checkout.generate(runtime="ascend")["npu-node"]["volumes"]
    assert [mount["target"] for mount in bare] == checkout.manifest.devices.cluster_mounts


def test_no_cards(checkout: Checkout) -> None:
    checkout.with_cards(0)
    cards = checkout.generate(npus="none")["npu-cards"]
    assert not {"devices", "volumes"} & cards.keys()
    assert cards["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == ""


def test_simulated_run_needs_no_card_and_no_setting(checkout: Checkout) -> None:
    driver = checkout.folder / "build/sim-driver/amd64/driver"
    driver.mkdir(parents=True)
    cards = checkout.generate(npus="all")["sim-cards"]
    assert cards["devices"][:2] == ["/dev/null:/dev/davinci0", "/dev/null:/dev/davinci1"]
    assert cards["image"] == SIM_TAG
    assert cards["environment"]["RLINF_NPU_SETTINGS"] == cards["environment"]["RLINF_NPU_MADE_FOR"] == "simulated"
    mounts = {mount["target"]: mount for mount in cards["volumes"]}
    assert mounts["/usr/local/Ascend/driver"]["source"] == str(driver)
    assert mounts["/workspace"]["type"] == "volume"
    assert mounts["/data"]["type"] == "tmpfs", "the user's data is not touched"
    assert "no cards" in checkout.said.text
    assert "COMPOSE_PROFILES=sim" in checkout.said.text


def test_simulated_image_is_never_passed_off_as_real(checkout: Checkout) -> None:
    checkout.with_cards(0)
    assert checkout.generate()["npu-cards"]["image"] == SIM_TAG
    assert "simulated image" in checkout.said.text
    checkout.built("", REAL_TAG)
    services = checkout.generate()
    assert services["npu-cards"]["image"] == REAL_TAG
    assert services["sim-cards"]["image"] == SIM_TAG
    assert "simulated image" not in checkout.said.text


def test_real_image_never_runs_the_simulated_profile(tmp_path: Path, manifest: Manifest) -> None:
    checkout = Checkout(tmp_path, manifest)
    checkout.built("", REAL_TAG)
    sim = checkout.generate()["sim-cards"]
    assert "make-image" in sim["image"]
    assert sim["pull_policy"] == "never"
    assert "make image BASE=sim" in checkout.said.text


def test_image_of_the_settings_may_be_pulled_ours_may_not(checkout: Checkout) -> None:
    assert checkout.generate()["npu-image"]["pull_policy"] == "never"
    named = checkout.generate(image="registry.example/rlinf-npu:7")["npu-image"]
    assert named["image"] == "registry.example/rlinf-npu:7"
    assert named["pull_policy"] == "missing"
    assert named["environment"]["RLINF_NPU_IMAGE_DIGEST"] == ""


def test_every_service_extends_its_template_and_the_profile_chooses(checkout: Checkout) -> None:
    checkout.generate()
    override = checkout.read(OVERRIDE_FILE)["services"]
    assert override.keys() == checkout.read("compose.yaml")["services"].keys()
    assert override["train"]["extends"]["service"] == "${COMPOSE_PROFILES:-npu}-cards"
    assert override["tensorboard"]["extends"]["service"] == "${COMPOSE_PROFILES:-npu}-image", "holds no card"
    assert override["node"]["extends"]["service"] == "${COMPOSE_PROFILES:-npu}-node"
    assert {service["extends"]["file"] for service in override.values()} == {f"./{CARDS_FILE}"}


def test_files_say_what_they_are_made_from(checkout: Checkout) -> None:
    checkout.with_cards(*range(4))
    checkout.generate(npus="0-2")
    for name in (OVERRIDE_FILE, CARDS_FILE):
        head = (checkout.folder / name).read_text(encoding="utf-8").splitlines()[:2]
        assert "images.toml" in head[0]
        assert "make compose" in head[0]
        assert "cards 0-2" in head[1]


def test_base_ports_keep_apart_and_out_of_the_way() -> None:
    ports = {base_port(f"project{number}") for number in range(50)}
    assert len(ports) > 40
    assert all(port >= FIRST_PORT and port + PORTS <= 30000 and (port - FIRST_PORT) % PORTS == 0 for port in ports)


def test_base_port_follows_the_project(checkout: Checkout) -> None:
    ours = checkout.generate()["npu-cards"]["environment"]["HCCL_IF_BASE_PORT"]
    assert ours == f"${{HCCL_IF_BASE_PORT:-{base_port('rlinf-npu')}}}", "the name in compose.yaml"
    other = checkout.generate(project="second")["npu-cards"]["environment"]["HCCL_IF_BASE_PORT"]
    assert other == f"${{HCCL_IF_BASE_PORT:-{base_port('second')}}}"


# --- what is wrong is said, and nothing is written ---


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"npus": "0-9"}, "NPUS=0-9: card 4-9 is not on this host (it has 0-3)"),
        ({"npus": "x"}, "NPUS=x: 'x' is not a card or a range"),
        ({"privileged": "maybe"}, "PRIVILEGED=maybe is neither 1 nor 0"),
        ({"runtime": "runc"}, "RUNTIME=runc is not a runtime for NPUs"),
        ({"privileged": "1", "runtime": "ascend"}, "PRIVILEGED=1 and RUNTIME=ascend exclude each other"),
        ({"run_as": "me"}, "RUN_AS=me is not uid:gid"),
        ({"tensorboard_port": "http"}, "TENSORBOARD_PORT=http is not a port"),
        ({"log_dir": "compose.yaml"}, "LOG_DIR=compose.yaml is not a folder"),
        ({"shm_size": "64q"}, "SHM_SIZE=64q is not a size"),
    ],
)
def test_a_wrong_setting_leaves_the_files_alone(checkout: Checkout, settings: dict[str, str], what: str) -> None:
    checkout.with_cards(*range(4))
    checkout.generate()
    before = [(checkout.folder / name).read_bytes() for name in (OVERRIDE_FILE, CARDS_FILE)]
    with pytest.raises(Problem) as raised:
        checkout.generate(**settings)
    assert raised.value.what == what
    assert raised.value.fix
    assert [(checkout.folder / name).read_bytes() for name in (OVERRIDE_FILE, CARDS_FILE)] == before


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"tensorboard_port": "65536"}, "TENSORBOARD_PORT=65536 is not a port"),
        ({"shm_size": "0"}, "SHM_SIZE=0 is not a size"),
        ({"tmp_size": "16gb"}, "TMP_SIZE=16gb is not a size"),
        ({"stop_grace": "360"}, "STOP_GRACE=360 is not a time with its unit"),
        ({"network": "birdge"}, "NETWORK=birdge is not a network for training"),
        ({"hung_seconds": "15m"}, "HUNG_SECONDS=15m is not a number of seconds"),
    ],
)
def test_a_value_of_another_form_is_named_with_an_example(settings: dict[str, str], what: str) -> None:
    with pytest.raises(Problem) as raised:
        check_forms(Settings(**settings))
    assert raised.value.what == what
    assert what.partition("=")[0] in raised.value.fix
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"shm_size": "32g", "tmp_size": "512M", "stop_grace": "6m30s", "network": "host", "hung_seconds": "900"},
        {"shm_size": "1.5 GiB", "tmp_size": "1073741824", "stop_grace": "1.5h", "network": "none"},
    ],
)
def test_forms_that_compose_takes_are_taken(settings: dict[str, str]) -> None:
    check_forms(Settings(**settings))


def test_log_dir_is_made_and_said_but_not_the_folder_it_lies_in(checkout: Checkout) -> None:
    checkout.generate(log_dir="./rnus")
    assert (checkout.folder / "rnus").is_dir()
    assert "LOG_DIR=./rnus was not there: made it" in checkout.said
    checkout.generate(log_dir="./rnus")
    assert "rnus" not in checkout.said.text
    with pytest.raises(Problem) as raised:
        checkout.generate(log_dir="/dtaa/of/runs")
    assert raised.value.what == "LOG_DIR=/dtaa/of/runs: /dtaa/of is not there"
    assert not Path("/dtaa").exists()


def test_home_is_found_as_compose_finds_it(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(checkout.root))
    checkout.generate(log_dir="~/runs", data_dir="~")
    assert (checkout.root / "runs").is_dir()
    assert not (checkout.folder / "~").exists()
    assert "is not a folder" not in checkout.said.text


def test_profile_as_an_option_is_refused_before_anything_is_made(checkout: Checkout) -> None:
    """It does not reach the variable that chooses the templates, so the fixtures would land in LOG_DIR."""
    checkout.generate()
    assert checkout.read(OVERRIDE_FILE)["services"]["fixtures"]["extends"]["service"].endswith("-fixtures")
    services = checkout.read(CARDS_FILE)["services"]
    (refused,) = services["npu-fixtures"]["volumes"]
    assert "COMPOSE_PROFILES=sim" in refused["source"]
    assert not refused["bind"]["create_host_path"]
    assert services["sim-fixtures"] == services["sim-cards"]


def test_no_image(tmp_path: Path, manifest: Manifest) -> None:
    checkout = Checkout(tmp_path, manifest)
    with pytest.raises(Problem, match="no image has been built on this machine; make image"):
        checkout.generate()
    assert not (checkout.folder / OVERRIDE_FILE).exists()
    assert not (checkout.folder / "runs").exists()


def test_broken_build_record(checkout: Checkout) -> None:
    (checkout.folder / "build/built-amd64-sim.json").write_text('{"images": {"rlinf-npu": {}}}', encoding="utf-8")
    with pytest.raises(Problem, match=r"built-amd64-sim.json is not a build record"):
        checkout.generate()


def test_missing_data_is_said_but_no_obstacle_to_the_simulated_run(checkout: Checkout) -> None:
    checkout.generate(data_dir="/nowhere/at/all")
    assert "DATA_DIR=/nowhere/at/all is not a folder" in checkout.said.text
    checkout.generate()
    assert "DATA_DIR is not set" in checkout.said.text
    assert "DATA_DIR=/data" in checkout.said.text
    checkout.generate(data_dir=".")
    assert "DATA_DIR" not in checkout.said.text


def test_a_missing_simulated_driver_is_named(checkout: Checkout) -> None:
    driver = checkout.folder / "build/sim-driver/amd64"
    checkout.generate()
    assert "build/sim-driver/amd64, the simulated driver, is missing" in checkout.said.text
    assert "make image BASE=sim" in checkout.said.text
    driver.mkdir(parents=True)
    checkout.generate()
    assert "build/sim-driver/amd64 has no driver" in checkout.said.text
    for mount in checkout.manifest.devices.mounts:
        (driver / Path(mount.path).name).mkdir()
    checkout.generate()
    assert "sim-driver" not in checkout.said.text


def test_port_in_use_is_said(checkout: Checkout) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        checkout.generate(tensorboard_port=port)
        assert f"port {port} is in use" in checkout.said.text
    checkout.generate(tensorboard_port=port)
    assert "in use" not in checkout.said.text
