"""The support bundle has what helps and none of the planted secrets."""

import json
import os
import stat
import tarfile
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from doctor_machine import Machine
from rlinf_npu.doctor.collect import collect
from rlinf_npu.doctor.redact import Redactor

# Built from pieces so that no scanner takes this file for a leak.
SECRETS = {
    "HF_TOKEN": "hf_" + "Q7wErTyUiOpAsDfGhJk",
    "WANDB_API_KEY": "0123456789abcdef" * 2 + "01234567",
    "REGISTRY_PASSWORD": "corr3ct horse battery",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIbPxRfiCY",
}
IN_TEXT = {
    "proxy": "pr0xypw",
    "github": "ghp_" + "Z9y8X7w6V5u4T3s2R1q0",
    "bearer": "eyAbCdEfGhIjKlMn.OpQr",
    "jwt": "eyJhbGciOiJIUzI1" + "." + "eyJzdWIiOiIx" + "." + "c2lnbmF0dXJl",
    "docker auth": "dXNlcjpzM2NyM3Q=",
    "pem": "MIIEowIBAAKCAQEAplanted",
    "option": "sw0rdf1sh",
    "json": "j50nS3cret",
}
LOG = f"""\
connect https://user:{IN_TEXT["proxy"]}@proxy:3128/ok
git clone https://{IN_TEXT["github"]}@github.com/a/b
Authorization: Bearer {IN_TEXT["bearer"]}
cookie jar {IN_TEXT["jwt"]}
{{"auths": {{"quay.io": {{"auth": "{IN_TEXT["docker auth"]}"}}}}, "api_key": "{IN_TEXT["json"]}"}}
-----BEGIN RSA PRIVATE KEY-----
{IN_TEXT["pem"]}
-----END RSA PRIVATE KEY-----
docker login --password {IN_TEXT["option"]} quay.io
again: {SECRETS["REGISTRY_PASSWORD"]} and {SECRETS["WANDB_API_KEY"]}
harmless: loss 0.25 at step 12, token count 4096
"""


@pytest.fixture
def bundle(container: Machine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Members of a bundle of a machine full of secrets."""
    container.env |= SECRETS | {
        "https_proxy": f"http://u:{IN_TEXT['proxy']}@proxy:3128",
        "no_proxy": "localhost",
        "HOME": "/root",
    }
    container.file("/root/ascend/log/debug/plog/plog-1.log", LOG)
    container.file(
        "/usr/share/rlinf-npu/facts.json", json.dumps({"mirror": f"https://{IN_TEXT['github']}@pypi.example/simple"})
    )
    container.script("/usr/local/bin/df", f"echo mounted from //nas -o password={IN_TEXT['option']}")
    target = tmp_path_factory.mktemp("out") / "bundle.tar.gz"
    context = container.context()
    assert collect(context, container.examine(("driver*",)), target) == target
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["bundle.tar.gz"]
    with tarfile.open(target) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: stream.read().decode() for name, stream in files.items() if stream}


def test_no_secret_is_in_the_bundle(bundle: dict[str, str]) -> None:
    everything = "\n".join(bundle.values())
    for name, secret in (SECRETS | IN_TEXT).items():
        assert secret not in everything, name


def test_what_helps_is_in_the_bundle(bundle: dict[str, str]) -> None:
    assert json.loads(bundle["doctor-bundle/report.json"])["checked"]
    assert "ASCEND_HOME_PATH=/usr/local" in bundle["doctor-bundle/environment.txt"]
    assert "HF_TOKEN=[redacted]" in bundle["doctor-bundle/environment.txt"]
    assert "torch==2.6.0" in bundle["doctor-bundle/python-packages.txt"]
    assert "910B3" in bundle["doctor-bundle/commands/npu-smi_info.txt"]
    assert "loss 0.25 at step 12, token count 4096" in bundle["doctor-bundle/logs/plog-1.log"]
    assert any(name.endswith("driver/version.info") for name in bundle)


def test_nothing_is_left_when_it_fails(container: Machine, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("full")
    target = folder / "bundle.tar.gz"
    target.mkdir()  # a folder cannot be replaced by the bundle
    (target / "x").touch()
    with pytest.raises(OSError):
        collect(container.context(), container.examine(("driver*",)), target)
    assert [path.name for path in folder.iterdir()] == ["bundle.tar.gz"]


@pytest.mark.parametrize(
    "name", ["GITHUB_PAT", "DB_PASSWD", "API_KEY", "SSH_PRIVATE_KEY", "NETRC", "SLACK_WEBHOOK_URL"]
)
def test_secret_names(name: str) -> None:
    assert Redactor.is_secret_name(name)


@pytest.mark.parametrize("name", ["PATH", "ASCEND_HOME_PATH", "AUTHOR", "KEYBOARD", "HCCL_IF_BASE_PORT", "MONKEY"])
def test_harmless_names(name: str) -> None:
    assert not Redactor.is_secret_name(name)


def test_other_spellings_of_a_secret() -> None:
    secret = 'p"w/ö\nsecond line'
    redactor = Redactor({"DB_PASSWORD": secret})
    spellings = [secret, json.dumps(secret), quote(secret), quote(secret, safe=""), b64encode(secret.encode()).decode()]
    for spelling in [*spellings, "only the second line"]:
        text = redactor.text(f"seen: {spelling} end")
        assert "second" not in text and spelling not in text and text.endswith("end"), spelling


def test_short_values_do_not_blank_the_text() -> None:
    assert Redactor({"X_TOKEN": "1"}).text("step 1") == "step 1"


def test_environment_of_this_test_is_not_touched(tmp_path: Path) -> None:
    assert not set(SECRETS) & set(os.environ), tmp_path
