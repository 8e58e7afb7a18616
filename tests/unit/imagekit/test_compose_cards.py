"""NPUS, the settings and the host's table: what is accepted, and one clear line for what is not."""

from pathlib import Path

import pytest

from imagekit.compose.cards import parse_npus, show
from imagekit.compose.host import Host, simulated_mounts
from imagekit.compose.settings import Settings, read_settings
from imagekit.errors import Problem
from imagekit.manifest import Manifest

EIGHT = range(8)


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("all", list(range(8))),
        ("ALL", list(range(8))),
        ("none", []),
        ("0-7", list(range(8))),
        ("4-7", [4, 5, 6, 7]),
        ("6", [6]),
        ("0,2,5-6", [0, 2, 5, 6]),
        (" 5 , 1 - 2 ".replace(" - ", "-"), [1, 2, 5]),
        ("7,0", [0, 7]),
    ],
)
def test_npus(text: str, cards: list[int]) -> None:
    assert parse_npus(text, EIGHT, 16) == cards


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0-", "'0-' is not a card or a range"),
        ("-1", "'-1' is not a card or a range"),
        ("0,,1", "'' is not a card or a range"),
        ("0;1", "'0;1' is not a card or a range"),
        ("0 1", "'0 1' is not a card or a range"),
        ("all,1", "'all' is not a card or a range"),
        ("davinci0", "'davinci0' is not a card or a range"),
        ("7-0", "7-0 runs backwards"),
        ("0-2,1", "card 1 is named twice"),
        ("16", "no card 16, a host has 0-15"),
        ("6-9", "card 8-9 is not on this host (it has 0-7)"),
    ],
)
def test_npus_that_cannot_be(text: str, what: str) -> None:
    with pytest.raises(Problem) as raised:
        parse_npus(text, EIGHT, 16)
    assert raised.value.what == f"NPUS={text}: {what}"
    assert raised.value.fix
    assert raised.value.exit_code == 2


def test_a_card_with_a_gap_in_the_host_is_named() -> None:
    with pytest.raises(Problem, match=r"card 3 is not on this host \(it has 0-2,5\)"):
        parse_npus("2-3", [0, 1, 2, 5], 16)


def test_all_on_a_host_without_cards_is_none() -> None:
    assert parse_npus("all", [], 16) == []
    with pytest.raises(Problem, match="it has none"):
        parse_npus("0", [], 16)


def test_show_is_the_grammar_again() -> None:
    assert show([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert parse_npus(show([0, 1, 2, 5, 7]), EIGHT, 16) == [0, 1, 2, 5, 7]


# --- settings ---


def test_settings_without_env_file_are_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path / ".env", {}) == Settings()


def test_settings_of_the_example_are_the_defaults() -> None:
    example = Path(__file__).resolve().parents[3] / ".env.example"
    assert read_settings(example, {}) == Settings(data_dir="/data")


def test_settings_quotes_comments_and_environment(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    lines = ["# cards", "NPUS='0-3'", "export IMAGE=reg/rlinf-npu:1 # pinned", 'DATA_DIR="/big data"', "PRIVILEGED=0"]
    file.write_text("\n".join([*lines, "OTHER=$HOME", ""]), encoding="utf-8")
    found = read_settings(file, {"NPUS": "5", "RUNTIME": ""})
    assert found == Settings(npus="5", image="reg/rlinf-npu:1", data_dir="/big data", privileged="0")
    assert not found.is_privileged


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("NPUS 0-3", ".env line 1: 'NPUS 0-3' is not NAME=value"),
        ("NPUS=${CARDS}", "NPUS=${CARDS}: variables in values are not looked up"),
    ],
)
def test_settings_that_cannot_be_read(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    with pytest.raises(Problem) as raised:
        read_settings(tmp_path / ".env", {})
    assert raised.value.what == what


def test_words_that_are_neither_yes_nor_no() -> None:
    assert Settings(privileged="1").is_privileged
    with pytest.raises(Problem, match="PRIVILEGED=maybe is neither 1 nor 0"):
        _ = Settings(privileged="maybe").is_privileged
    with pytest.raises(Problem, match="RUNTIME=nvidia is not a runtime for NPUs"):
        _ = Settings(runtime="nvidia").uses_ascend_runtime


# --- host ---


def test_host_counts_card_nodes_only(tmp_path: Path, manifest: Manifest) -> None:
    for name in ("davinci0", "davinci10", "davinci2", "davinci_manager", "davinci1.bak", "null"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    assert Host(manifest.devices, tmp_path).cards() == [0, 2, 10]
    assert Host(manifest.devices, tmp_path / "elsewhere").cards() == []


def test_host_with_cards_but_without_a_manager_or_driver(tmp_path: Path, manifest: Manifest) -> None:
    host = Host(manifest.devices, tmp_path)
    with pytest.raises(Problem, match="no /dev/davinci_manager"):
        host.nodes([0])
    with pytest.raises(Problem, match="no /usr/local/Ascend/driver"):
        host.mounts()


def test_host_takes_optional_mounts_where_they_are(tmp_path: Path, manifest: Manifest) -> None:
    (tmp_path / "usr/local/Ascend/driver").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ascend_install.info").touch()
    assert Host(manifest.devices, tmp_path).mounts() == ["/usr/local/Ascend/driver", "/etc/ascend_install.info"]


def test_simulated_driver_lies_under_tails_of_the_real_paths(tmp_path: Path, manifest: Manifest) -> None:
    (tmp_path / "driver").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/npu-smi").touch()
    found = simulated_mounts(manifest.devices, tmp_path)
    assert found == {
        str(tmp_path / "driver"): "/usr/local/Ascend/driver",
        str(tmp_path / "bin/npu-smi"): "/usr/local/bin/npu-smi",
    }
