"""What the documentation tells people to type exists: targets, commands, pages, and the same in both languages."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    lines = [line for block in BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]
    return [command for line in lines if (command := line.partition(" #")[0].strip())]


MAKE = sorted({(page.name, c) for page in PAGES for c in commands(page) if c.startswith("make ")})


def test_there_are_commands_to_check() -> None:
    assert ("README.md", "make image") in MAKE
    assert ("README.md", "make test") in MAKE


@pytest.mark.parametrize(("page", "command"), MAKE)
def test_make_targets_exist(page: str, command: str) -> None:
    words = [word for word in command.split()[1:] if word != "..."]
    run = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{page}: {command}: {run.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_both_readmes_give_the_same_commands() -> None:
    assert commands(ROOT / "README.md") == commands(ROOT / "README.zh-CN.md")


def test_ci_runs_the_readmes_two_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in script if line.startswith("make ")] == commands(ROOT / "README.md")[:2]
