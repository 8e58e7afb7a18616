"""The fixes on real RLinf trees: RLINF_TREES names them, separated by colons; each is copied, never changed.

RLINF_TREES=/trees/a4b6abe:/trees/0.3.0 pytest tests/unit/npufix/test_npufix_real_trees.py
"""

import compileall
import difflib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rlinf_npu.npufix import engine, report
from rlinf_npu.npufix.model import HELPER_PATH, Report, Site, Status
from rlinf_npu.npufix.tree import ROOTS, Tree
from rlinf_npu.npufix.verify import problems

TREES = [Path(name) for name in os.environ.get("RLINF_TREES", "").split(os.pathsep) if name]
STATEMENTS_OF_HELPERS = ("from rlinf.utils.npu_compat import", "from .utils.npu_compat import", "disable_tensorflow()")

pytestmark = pytest.mark.skipif(not TREES, reason="RLINF_TREES names no RLinf tree")


@pytest.fixture(scope="module", params=TREES, ids=lambda path: path.name)
def source(request: pytest.FixtureRequest) -> Path:
    tree = Path(request.param)
    assert (tree / "rlinf/__init__.py").is_file(), f"RLINF_TREES: {tree} is not an RLinf tree"
    return tree


@pytest.fixture(scope="module")
def fixed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    root = tmp_path_factory.mktemp(source.name)
    for top in ROOTS:
        if (source / top).is_dir():
            shutil.copytree(source / top, root / top)
    return root, engine.apply(Tree(root))


def test_nothing_vanished_and_nothing_is_open_on_the_paths(fixed: tuple[Path, Report]) -> None:
    root, found = fixed
    assert found.vanished == []
    assert report.open_on_paths(found) == []
    assert problems(engine.scan(Tree(root))) == []
    assert {result.status for result in found.results} <= {Status.APPLIED, Status.NOT_NEEDED}
    assert sum(result.status is Status.APPLIED for result in found.results) > 5


def test_every_reason_is_given(fixed: tuple[Path, Report]) -> None:
    for use in fixed[1].uses:
        assert use.status != "safe" or use.reason, use
        assert use.status != "fixed" or use.fix, use


def test_second_run_changes_nothing(fixed: tuple[Path, Report]) -> None:
    root, first = fixed
    before = {path: (root / path).read_bytes() for path in first.changed}
    second = engine.apply(Tree(root))
    assert second.changed == {}
    assert {path: (root / path).read_bytes() for path in first.changed} == before
    assert {result.status for result in second.results} <= {Status.ALREADY, Status.NOT_NEEDED}


def test_everything_compiles(fixed: tuple[Path, Report]) -> None:
    root, _ = fixed
    assert compileall.compile_dir(root, quiet=2, force=True, workers=1)


def test_only_the_sites_change(source: Path, fixed: tuple[Path, Report]) -> None:
    _, found = fixed
    sites: dict[str, list[Site]] = {}
    for result in found.results:
        for site in result.sites:
            sites.setdefault(site.path, []).append(site)
    for path, after in found.changed.items():
        if path == HELPER_PATH:
            continue
        before = (source / path).read_bytes().decode()
        assert _stray_lines(before, after, sites[path]) == [], path


def _stray_lines(before: str, after: str, sites: list[Site]) -> list[str]:
    """Changed lines that belong to no site."""
    allowed = {line for site in sites for edit in site.edits for line in range(edit.span.line, edit.span.end_line + 1)}
    allowed |= {line.number for site in sites for line in site.lines}
    old, new = before.splitlines(), after.splitlines()
    stray = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag in {"replace", "delete"}:
            stray += [f"{number}: {old[number - 1]}" for number in range(a + 1, b + 1) if number not in allowed]
        elif tag == "insert" and not {a, a + 1} & allowed:
            stray += [line for line in new[c:d] if line and not line.strip().startswith(STATEMENTS_OF_HELPERS)]
    return stray


def test_files_of_other_kinds_are_untouched(source: Path, fixed: tuple[Path, Report]) -> None:
    root, found = fixed
    for top in ROOTS:
        for path in (source / top).rglob("*"):
            name = path.relative_to(source).as_posix()
            if path.is_file() and name not in found.changed and "__pycache__" not in path.parts:
                assert (root / name).read_bytes() == path.read_bytes()


# Modules without which no step runs: they may not fail for any reason.
STEPS = (
    "hybrid_engines.fsdp.",
    "workers.sft.fsdp_",
    "datasets.recap.",
    "value_model.",
    ".process.",
    "runners.sft_runner",
)


def clean_environment(**more: str) -> dict[str, str]:
    """Environment for a process of its own: `import torch_npu` in this one switches autoload off for its children."""
    return {key: value for key, value in os.environ.items() if key != "TORCH_DEVICE_BACKEND_AUTOLOAD"} | more


def imports(root: Path) -> dict[str, dict[str, str]]:
    program = Path(__file__).with_name("import_all.py")
    environ = clean_environment(TORCHINDUCTOR_COMPILE_THREADS="1")
    done = subprocess.run(
        [sys.executable, str(program), str(root)], capture_output=True, text=True, check=False, env=environ, timeout=900
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-2000:]
    result = json.loads(lines[-1].removeprefix("RESULT "))
    assert result["origin"] == str(root)
    assert result["npus"] > 0, "the import proof means nothing without a (simulated) NPU"
    return result


needs_cann = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is None or "ASCEND_OPP_PATH" not in os.environ,
    reason="needs torch_npu and the environment of a (simulated) CANN",
)


@needs_cann
def test_device_of_step_3_before_and_after(source: Path, fixed: tuple[Path, Report]) -> None:
    modules = Tree(source).matching(r"^def setup_distributed\(", ".py")
    if not modules:
        pytest.skip("this tree has no set-up of step 3")
    name = modules[0].removesuffix(".py").replace("/", ".")
    program = f"import {name} as m; print('DEVICE', m.setup_distributed({{}})[2])"
    devices = []
    for root in (source, fixed[0]):
        environ = clean_environment(PYTHONPATH=f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environ, timeout=300
        )
        assert "DEVICE " in done.stdout, done.stderr[-2000:]
        devices.append(done.stdout.split("DEVICE ")[1].strip())
    assert devices == ["cpu", "npu"]


@needs_cann
def test_modules_of_the_four_steps_import(source: Path, fixed: tuple[Path, Report]) -> None:
    after, before = imports(fixed[0]), imports(source)
    assert after["failed"] == before["failed"]  # packages of other models and simulators are absent before and after
    assert [name for name in after["failed"] if any(part in name for part in STEPS)] == []
    assert len(after["modules"]) > 100
