"""recap.yaml: defaults, errors that name file and key, settings, environment."""

from pathlib import Path
from typing import Any

import pytest
from rlinf_npu.recap.config import Config, load_config, validate
from rlinf_npu.recap.errors import UsageError

TOP = Path(__file__).parents[3]
MINIMAL = """
models: {siglip: a, gemma3: b, policy: c}
datasets: {train: [{path: d, type: sft}]}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recap.yaml"
    path.write_text(text)
    return path


def test_defaults_are_the_seeds_for_eight_cards(config: Config) -> None:
    for step in (config.value, config.policy):
        assert (step.micro_batch, step.global_batch, step.lr, step.max_epochs) == (16, 128, 5e-5, 30000)
        assert (step.save_every, step.sharding) == (3000, "no_shard")
    assert (config.value.value_lr, config.value.precision, config.value.val_every) == (1e-4, "bf16", 500)
    assert (config.policy.scheduler, config.returns.gamma, config.advantages.backend) == ("cosine", 1.0, "hccl")


def test_the_documented_example_holds_the_defaults(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    monkeypatch.delenv("LOG_DIR", raising=False)
    example = load_config(TOP / "recap.yaml")
    for block in ("returns", "value", "advantages", "policy", "watchdog"):
        assert getattr(example, block) == getattr(config, block), block
    assert (example.cards, example.tag, example.seed) == (config.cards, config.tag, config.seed)


def test_paths_count_from_the_file(config: Config, tmp_path: Path) -> None:
    assert config.models.siglip == tmp_path / "siglip"
    assert config.datasets.train[0].path == tmp_path / "data/one"
    assert config.run_dir == tmp_path / "runs/recap"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"valu": {}}, "there is no key valu; did you mean value"),
        ({"datasets": {"train": [{"path": "a", "type": "sft", "wight": 1}]}}, "mean datasets.train.0.weight"),
        ({"value": {"lr": "fast"}}, "value.lr: Input should be a valid number"),
        ({"value": {"save_every": 700}}, "save_every 700 is not a multiple of val_every 500"),
        ({"value": {"max_epochs": -1, "max_steps": -1}}, "never end"),
        ({"policy": {"val_every": 500}}, "policy.val_every"),
        ({"name": "a/b"}, "name: String should match pattern"),
        ({"tag": "/data/x/advantages.parquet"}, "tag"),
        ({"cards": 0}, "cards"),
    ],
)
def test_errors_name_file_and_key(raw: dict[str, Any], tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError) as error:
        validate({**raw, **change}, tmp_path / "recap.yaml")
    assert expected in str(error.value)
    assert "recap.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_settings_win_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    loaded = load_config(path, ("value.max_steps=7", "datasets.train.0.weight=0.5", "cards=2"))
    assert (loaded.value.max_steps, loaded.datasets.train[0].weight, loaded.cards) == (7, 0.5, 2)
    with pytest.raises(UsageError, match="expected key"):
        load_config(path, ("value.max_steps",))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("foo.bar=1", "there is no key foo.bar; recap.yaml has name, log_dir, cards"),
        ("value.foo=1", "there is no key value.foo; value has micro_batch, global_batch"),
        ("value.max_step=1", "there is no key value.max_step; did you mean value.max_steps"),
        ("max_steps=1", "did you mean value.max_steps or policy.max_steps"),
        ("watchdog.silense=1", "did you mean watchdog.silence"),
    ],
)
def test_an_unknown_setting_names_itself_and_what_it_may_have_meant(tmp_path: Path, setting: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_config(write(tmp_path, MINIMAL), (setting,))
    assert str(refused.value).startswith(f"--set {setting}: there is no key")
    assert words in str(refused.value)


def test_keys_of_rlinf_itself_are_free(tmp_path: Path) -> None:
    loaded = load_config(write(tmp_path, MINIMAL), ("value.overrides.actor=1", "models.openpi_home=/x"))
    assert loaded.value.overrides == {"actor": 1}


def test_environment_in_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path, MINIMAL.replace("siglip: a", "siglip: '${DATA_DIR}/a'").replace("policy: c", "policy: '${NO:-/x}/c'")
    )
    monkeypatch.delenv("NO", raising=False)
    monkeypatch.setenv("DATA_DIR", "/data")
    loaded = load_config(path)
    assert (loaded.models.siglip, loaded.models.policy) == (Path("/data/a"), Path("/x/c"))
    monkeypatch.delenv("DATA_DIR")
    with pytest.raises(UsageError, match="DATA_DIR"):
        load_config(path)


def test_log_dir_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    assert load_config(write(tmp_path, MINIMAL)).log_dir == tmp_path / "logs"


@pytest.mark.parametrize(
    ("text", "expected"), [("a: [", "not valid YAML"), ("- a", "expected keys"), (None, "no such file")]
)
def test_not_a_configuration(tmp_path: Path, text: str | None, expected: str) -> None:
    path = tmp_path / "recap.yaml" if text is None else write(tmp_path, text)
    with pytest.raises(UsageError, match=expected):
        load_config(path)


def test_the_effective_configuration_can_be_read_again(config: Config, tmp_path: Path) -> None:
    assert validate(config.model_dump(mode="json"), tmp_path / "elsewhere/recap.yaml") == config
