"""The support bundle has what helps and none of the planted secrets."""

import json
import os
import stat
import tarfile
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from doctor_machine import DRIVER, NOW, Machine
from rlinf_npu.doctor import cannlogs
from rlinf_npu.doctor import collect as collect_module
from rlinf_npu.doctor.collect import COMMANDS, FILES, collect
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
    "proxy without scheme": "b4repr0xy",
    "proxy with an @": "at@s1gn",
    "github": "ghp_" + "Z9y8X7w6V5u4T3s2R1q0",
    "bearer": "eyAbCdEfGhIjKlMn.OpQr",
    "jwt": "eyJhbGciOiJIUzI1" + "." + "eyJzdWIiOiIx" + "." + "c2lnbmF0dXJl",
    "docker auth": "dXNlcjpzM2NyM3Q=",
    "pem": "MIIEowIBAAKCAQEAplanted",
    "option": "sw0rdf1sh",
    "json": "j50nS3cret",
    "netrc": "netrcK3y" * 5,
    "wandb login": "l0g1nK3y" * 5,
    "wandb key": "wandb_v1_" + "AbCdEfGh1234567",
    "signed URL": "s1gn4ture%2Fx",
    "Docker Hub": "dckr_pat_" + "AbCdEfGhIj",
}
LOG = f"""\
connect https://user:{IN_TEXT["proxy"]}@proxy:3128/ok
git clone https://{IN_TEXT["github"]}@github.com/a/b
via me:{IN_TEXT["proxy without scheme"]}@proxy:3128 and http://me:{IN_TEXT["proxy with an @"]}@proxy:3128
Authorization: Bearer {IN_TEXT["bearer"]}
cookie jar {IN_TEXT["jwt"]}
{{"auths": {{"quay.io": {{"auth": "{IN_TEXT["docker auth"]}"}}}}, "api_key": "{IN_TEXT["json"]}"}}
-----BEGIN RSA PRIVATE KEY-----
{IN_TEXT["pem"]}
-----END RSA PRIVATE KEY-----
docker login --password {IN_TEXT["option"]} quay.io; then {IN_TEXT["Docker Hub"]}
machine api.wandb.ai
  login user
  password {IN_TEXT["netrc"]}
wandb login --relogin {IN_TEXT["wandb login"]}; {IN_TEXT["wandb key"]}
GET https://bucket.example/model?X-Amz-Signature={IN_TEXT["signed URL"]}&part=1
again: {SECRETS["REGISTRY_PASSWORD"]} and {SECRETS["WANDB_API_KEY"]} and {SECRETS["HF_TOKEN"]}
harmless: loss 0.25 at step 12, token count 4096, commit a4b6abe205d7942f45cf3e8843c3e72ce818729d
"""
HARMLESS = LOG.splitlines()[-1]
PLOG = "/workspace/.ascend-log/debug/plog/plog-1.log"
# Files that rules read as well have to keep their form; there the secrets stand below it.
FORMED = {"/proc/self/status", "/proc/meminfo", "/proc/self/limits", "/proc/net/tcp", "/proc/self/mountinfo"}


def _members(target: Path) -> dict[str, str]:
    with tarfile.open(target) as tar:
        files = {member.name.removeprefix("doctor-bundle/"): tar.extractfile(member) for member in tar.getmembers()}
        return {name: stream.read().decode() for name, stream in files.items() if stream}


def _plant(machine: Machine) -> None:
    """Secrets in every variable, file, command and log that a bundle takes."""
    machine.env |= SECRETS | {
        "https_proxy": f"http://u:{IN_TEXT['proxy']}@proxy:3128",
        "HTTP_PROXY": f"u:{IN_TEXT['proxy without scheme']}@proxy:3128",
        "SOME_SETTING": LOG,
        "no_proxy": "localhost",
        "HOME": "/root",
        "ASCEND_PROCESS_LOG_PATH": "/workspace/.ascend-log",
    }
    for path in FILES:
        before = (machine.root / path.lstrip("/")).read_text("utf-8") if path in FORMED else ""
        machine.file(path, before + LOG)
    machine.file(f"{DRIVER}/version.info", "Version=25.3.rc1\n" + LOG)
    machine.file(PLOG, LOG)
    machine.file("/root/ascend/log/run/plog/plog-2.log", LOG)
    machine.file("/root/secret-output.txt", LOG)
    for program in {command[0] for command in COMMANDS}:
        machine.script(f"/usr/local/bin/{program}", f"cat <<'END'\n{LOG}END", f"cat >&2 <<'END'\n{LOG}END")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Members of a bundle of a machine full of secrets."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    _plant(machine)
    machine.env["RANK_TABLE_FILE"] = f"/nowhere/{SECRETS['HF_TOKEN']}.json"  # a rule shows it as evidence
    target = tmp_path_factory.mktemp("out") / "bundle.tar.gz"
    context = machine.context()
    assert collect(context, machine.examine(("driver*", "rank-table")), target) == target
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["bundle.tar.gz"]
    return _members(target)


def test_every_kind_of_content_is_in_the_bundle(bundle: dict[str, str]) -> None:
    files = {f"files{path}" for path in FILES} | {f"files{DRIVER}/version.info"}
    commands = {f"commands/{'_'.join(command).replace('/', '-')}.txt" for command in COMMANDS}
    logs = {f"logs{PLOG}", "logs/root/ascend/log/run/plog/plog-2.log"}
    assert files | commands | logs | {"report.json", "environment.txt", "python-packages.txt"} <= set(bundle)
    for name in files | commands | logs:
        assert HARMLESS in bundle[name], name


def test_no_secret_is_in_the_bundle(bundle: dict[str, str]) -> None:
    for member, text in bundle.items():
        for name, secret in (SECRETS | IN_TEXT).items():
            assert secret not in text, f"{name} in {member}"
    assert "secret-output" not in "".join(bundle)


def test_what_helps_is_in_the_bundle(bundle: dict[str, str]) -> None:
    report = json.loads(bundle["report.json"])
    assert [finding["evidence"] for finding in report["findings"]] == [
        "RANK_TABLE_FILE=/nowhere/[redacted].json cannot be read"
    ]
    assert "ASCEND_HOME_PATH=/usr/local" in bundle["environment.txt"]
    assert "HF_TOKEN=[redacted]" in bundle["environment.txt"]
    assert "HTTP_PROXY=[redacted]@proxy:3128" in bundle["environment.txt"]
    assert "torch==2.6.0" in bundle["python-packages.txt"]
    assert "exit 0" in bundle["commands/npu-smi_info.txt"]


# --- logs ---


def _collected(machine: Machine, target: Path) -> dict[str, str]:
    collect(machine.context(), machine.examine(("driver*",)), target / "bundle.tar.gz")
    members = _members(target / "bundle.tar.gz")
    return {name.removeprefix("logs"): text for name, text in members.items() if name.startswith("logs/")}


def test_the_newest_logs_of_all_places(container: Machine, tmp_path_factory: pytest.TempPathFactory) -> None:
    container.env |= {"ASCEND_PROCESS_LOG_PATH": "/a", "ASCEND_WORK_PATH": "/b", "HOME": "/c"}
    places = ["/a/debug/device-0", "/b/log/run/plog", "/c/ascend/log/debug/plog"]
    paths = [f"{place}/{number}.log" for number in range(4) for place in places]
    for age, path in enumerate(reversed(paths)):
        os.utime(container.file(path, f"{path}\n"), (NOW - age, NOW - age))
    container.file("/a/debug/device-0/9.log.gz", "not a log any more")
    assert list(_collected(container, tmp_path_factory.mktemp("out"))) == list(reversed(paths))[: cannlogs.NEWEST]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large here is a few thousand bytes."""
    monkeypatch.setattr(cannlogs, "TAIL", 4096)
    monkeypatch.setattr(collect_module, "_LARGEST", 4096)


@pytest.mark.usefixtures("small_limits")
def test_a_large_log_is_cut_at_a_line(container: Machine, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Half a line may be half a secret: here the cut goes through the token."""
    container.env |= {"ASCEND_PROCESS_LOG_PATH": "/a", "HOME": "/c"}
    token = "hf_" + "Q7wErTyUiOpAsDfGhJk"
    end = "kept\n" * ((cannlogs.TAIL - 8) // 5)
    container.file("/a/x.log", "early\n" * 1000 + token + "\n" + end)
    text = _collected(container, tmp_path_factory.mktemp("out"))["/a/x.log"]
    assert len(text) <= cannlogs.TAIL + 100
    assert "bytes are left out" in text.splitlines()[0]
    assert set(text.splitlines()[1:]) == {"kept"}


@pytest.mark.usefixtures("small_limits")
def test_a_key_whose_beginning_is_cut_off(container: Machine, tmp_path_factory: pytest.TempPathFactory) -> None:
    container.env |= {"ASCEND_PROCESS_LOG_PATH": "/a", "HOME": "/c"}
    key = "-----BEGIN PRIVATE KEY-----\n" + f"{IN_TEXT['pem']}\n" * 300 + "-----END PRIVATE KEY-----\nafter\n"
    container.file("/a/x.log", key)
    text = _collected(container, tmp_path_factory.mktemp("out"))["/a/x.log"]
    assert "MIIE" not in text
    assert text.endswith("after\n")


def test_links_are_not_followed_and_unreadable_logs_are_told(
    container: Machine, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    container.env |= {"ASCEND_PROCESS_LOG_PATH": "/a", "HOME": "/c"}
    (container.file("/a/mine.log", "mine\n").parent / "passwd.log").symlink_to(container.root / "etc/passwd")
    container.file("/a/theirs.log", "theirs\n")
    read = cannlogs.tail

    def refuse(path: Path) -> str:
        if path.name == "theirs.log":  # root may read everything, so the kernel's refusal is played
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(cannlogs, "tail", refuse)
    logs = _collected(container, tmp_path_factory.mktemp("out"))
    assert logs == {"/a/mine.log": "mine\n", "/a/theirs.log": "cannot be read: [Errno 13] Permission denied\n"}


@pytest.mark.usefixtures("small_limits")
def test_a_large_file_is_cut_at_a_line(container: Machine, tmp_path_factory: pytest.TempPathFactory) -> None:
    token = "hf_" + "Q7wErTyUiOpAsDfGhJk"
    container.file("/etc/hccn.conf", ("x" * 63 + "\n") * 63 + "y" * 56 + token + "\n")
    collect(container.context(), container.examine(("driver*",)), tmp_path_factory.mktemp("out") / "b.tar.gz")
    target = next(tmp_path_factory.getbasetemp().glob("out*/b.tar.gz"))
    text = _members(target)["files/etc/hccn.conf"]
    assert "hf_" not in text and text.endswith("x\n[cut]\n")


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


HOSTILE = ["a:b:", "a@b:", "://a:b@", "token", "key_-", "machine a ", "-----BEGIN ", "x" * 1023 + "\n"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", HOSTILE)
def test_a_long_text_is_no_trap(part: str) -> None:
    """A pattern with two open ends takes minutes for it."""
    assert len(Redactor({}).text(part * ((1 << 17) // len(part)))) > 0


def test_short_values_do_not_blank_the_text() -> None:
    assert Redactor({"X_TOKEN": "1"}).text("step 1") == "step 1"


def test_environment_of_this_test_is_not_touched(tmp_path: Path) -> None:
    assert not set(SECRETS) & set(os.environ), tmp_path
