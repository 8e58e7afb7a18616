"""The bake file is one that buildx understands, on every platform and base. Needs buildx, but no engine."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from imagekit.manifest import ROOT


@pytest.mark.parametrize("platform", ["linux/arm64", "linux/amd64"])
@pytest.mark.parametrize("base", ["cann", "sim"])
def test_buildx_resolves_the_plan_as_it_was_written(tmp_path: Path, base: str, platform: str) -> None:
    if not shutil.which("docker"):
        pytest.skip("no docker client")
    bake = tmp_path / "bake.json"
    plan = [sys.executable, "build.py", "plan", "--base", base, "--platform", platform, "--output", str(bake)]
    subprocess.run(plan, cwd=ROOT, check=True, capture_output=True)
    command = ["docker", "buildx", "bake", f"--file={bake}", "--print"]
    printed = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    written, read = (json.loads(text)["target"] for text in (bake.read_text(encoding="utf-8"), printed.stdout))
    assert set(read) == set(written)
    for name, target in written.items():
        assert read[name]["platforms"] == [platform]
        for key in ("context", "contexts", "args", "labels"):
            assert read[name].get(key, {}) == target[key], (name, key)
        assert read[name].get("tags", []) == target["tags"]
