"""Environments: the vendor's contract, and the comparison of what processes see."""

from pathlib import Path

from tests.images.support.subjects import manifest

CONTRACT = Path(__file__).resolve().parent.parent / "cann_sim" / "contract.env"
LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
# What a shell adds by itself (LS_COLORS: Debian's ~/.bashrc for interactive ones), and what names this very container.
VOLATILE = {"HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "LS_COLORS"}


def contract() -> dict[str, str]:
    """The vendor image's ENV."""
    lines = CONTRACT.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name: manifest().fill(value) for name, value in pairs}


def stable(environment: dict[str, str]) -> dict[str, str]:
    """Without what differs from shell to shell."""
    return {name: value for name, value in environment.items() if name not in VOLATILE}


def elements(text: str) -> list[str]:
    """A path list without empty elements; `a/` and `a` are the same folder."""
    return [element.rstrip("/") for element in text.split(":") if element]


def differences(left: dict[str, str], right: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Variables that are not the same on both sides."""
    names = left.keys() | right.keys()
    return {name: (left.get(name), right.get(name)) for name in sorted(names) if left.get(name) != right.get(name)}
