"""The environment: the Dockerfile's ENV is the vendor's, and both set_env.sh give the same."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SIM = ROOT / "images/cann-sim"
CONTRACT = ROOT / "tests/images/cann_sim/contract.env"
PYTHON = "3.11.13"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LISTS = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}


def contract() -> dict[str, str]:
    lines = CONTRACT.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name: value.replace("{python}", PYTHON) for name, value in pairs}


def dockerfile_env() -> dict[str, str]:
    """ENV of the last stage, expanded as BuildKit does."""
    stage = (SIM / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    known = {"PATH": DEFAULT_PATH, "PYTHON_VERSION": PYTHON}
    result: dict[str, str] = {}
    for name, value in re.findall(r"^ENV (\w+)=(.*)$", stage, re.MULTILINE):
        known[name] = result[name] = re.sub(r"\$\{?(\w+)\}?", lambda m: known.get(m[1], ""), value.strip('"'))
    return result


def test_dockerfile_has_the_vendors_environment() -> None:
    assert dockerfile_env() == contract()


def source(tmp_path: Path, *scripts: str, **environment: str) -> tuple[dict[str, str], str]:
    """Environment and stderr after sourcing; the toolkit's folder is moved below tmp_path for the banner."""
    toolkit = tmp_path / "latest"
    if not toolkit.exists():
        (toolkit / "bin").mkdir(parents=True)
        (toolkit / "bin/cannsim-banner").symlink_to(SIM / "toolkit/cannsim-banner")
        text = (SIM / "toolkit/set_env.sh").read_text(encoding="utf-8")
        text = text.replace(
            "ASCEND_TOOLKIT_HOME=/usr/local/Ascend/ascend-toolkit/latest", f"ASCEND_TOOLKIT_HOME={toolkit}"
        )
        (tmp_path / "set_env.sh").write_text(text, encoding="utf-8")
    lines = [f"source {tmp_path / 'set_env.sh' if name == 'toolkit' else SIM / 'toolkit' / name}" for name in scripts]
    variables = {"PATH": f"/usr/local/python{PYTHON}/bin:{DEFAULT_PATH}"} | environment
    done = subprocess.run(
        ["bash", "--norc", "-c", "; ".join([*lines, "env -0"])],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("simulated") == 0  # nothing but the environment on stdout
    seen = dict(item.split("=", 1) for item in done.stdout.split("\0") if item)
    plain = {k: v.replace(str(toolkit), "/usr/local/Ascend/ascend-toolkit/latest") for k, v in seen.items()}
    return {k: v for k, v in plain.items() if k not in {"PWD", "OLDPWD", "SHLVL", "_"}}, done.stderr


def test_set_env_gives_the_same_environment(tmp_path: Path) -> None:
    assert source(tmp_path, "toolkit", "atb_set_env.sh")[0] == contract()


def test_sourcing_twice_repeats_list_elements_only(tmp_path: Path) -> None:
    once, twice = (source(tmp_path, *["toolkit", "atb_set_env.sh"] * n)[0] for n in (1, 2))
    assert {name for name in once if once[name] != twice[name]} == LISTS


def test_atb_with_the_other_abi(tmp_path: Path) -> None:
    environment, _ = source(tmp_path, "atb_set_env.sh --cxx_abi=1")
    assert environment["ATB_HOME_PATH"].endswith("/cxx_abi_1")
    assert "/cxx_abi_1/lib" in environment["LD_LIBRARY_PATH"]


@pytest.mark.parametrize(("quiet", "lines"), [("", 1), ("0", 1), ("1", 0)])
def test_banner_once_on_stderr(tmp_path: Path, quiet: str, lines: int) -> None:
    _, stderr = source(tmp_path, "toolkit", "toolkit", CANNSIM_QUIET=quiet)
    assert stderr.count("simulated") == lines


def test_entrypoint_is_the_vendors() -> None:
    text = (SIM / "Dockerfile").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("ENTRYPOINT"))
    sources = " && ".join(f"source /usr/local/Ascend/{part}/set_env.sh" for part in ("ascend-toolkit", "nnal/atb"))
    assert line == f'ENTRYPOINT ["/bin/bash", "-c", "{sources} && exec \\"$@\\"", "--"]'


LOCK = """\
torch==2.6.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via x
torch-npu==2.6.0.post3 \\
    --hash=sha256:cc \\
    --hash=sha256:dd
    # via y
torchdata==0.11.0 \\
    --hash=sha256:ee
"""


def cut(tmp_path: Path, name: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "lock.txt").write_text(LOCK, encoding="utf-8")
    command = ["sh", SIM / "build/cut_requirement.sh", name, tmp_path / "lock.txt"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


def test_one_requirement_with_its_hashes(tmp_path: Path) -> None:
    done = cut(tmp_path, "torch-npu")
    assert done.stdout == "torch-npu==2.6.0.post3 \\\n    --hash=sha256:cc \\\n    --hash=sha256:dd\n"


def test_a_requirement_that_is_not_locked(tmp_path: Path) -> None:
    done = cut(tmp_path, "torchvision")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no requirement torchvision==" in done.stderr
