"""A failed build says why in one line; a full disk is found before the build."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from imagekit import builder
from imagekit.errors import Problem
from imagekit.progress import Build, Vertex


def failure(
    log: list[str], error: str = 'process "/bin/sh -c x" did not complete successfully: exit code: 2'
) -> tuple[Problem, str]:
    build, text = Build(), io.StringIO()
    build.vertexes["a"] = Vertex(name="[rlinf-npu packages 1/2] RUN uv", error=error, log=log)
    return builder._failure(build, Console(file=text, width=200)), text.getvalue()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("error: failed to write: No space left on device (os error 28)", "the disk filled up"),
        ("error: Hash mismatch for `scipy==1.17.1`", "does not match its recorded hash"),
        ("ssl.SSLCertVerificationError: CERTIFICATE_VERIFY_FAILED", "TLS certificate is not trusted"),
        ("W: Temporary failure resolving 'deb.debian.org'", "no network"),
        ('image "docker.io/library/rlinf-npu:0.3.0-sim": already exists', "at the same moment"),
        ("no active sessions", "lost the session"),
    ],
)
def test_known_causes_are_named(line: str, what: str) -> None:
    problem, _ = failure(["before", line, "after"])
    assert what in problem.what
    assert problem.fix
    assert "\n" not in str(problem)


def test_a_lost_session_is_cured_by_building_the_first_image_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen after a prune of a part of the cache: every build of all images failed at once, and went on failing."""
    plan = {
        "group": {"default": {"targets": ["sim-driver", "cann-sim", "rlinf-npu"]}},
        "target": {name: {"tags": [f"{name}:1"], "output": ["type=oci"]} for name in ("cann-sim", "rlinf-npu")},
    }
    asked: list[list[str]] = []

    def run_bake(_: object, __: object, targets: list[str], ___: object) -> tuple[Build, dict[str, object]]:
        asked.append(targets)
        if len(asked) == 1:
            raise failure(["no active sessions"])[0]
        return Build(), {}

    monkeypatch.setattr(builder, "run_bake", run_bake)
    said = Console(file=io.StringIO(), width=200)
    rows, _ = builder.build_images(None, plan, said)  # type: ignore[arg-type]
    every = plan["group"]["default"]["targets"]
    assert asked == [every, ["cann-sim"], every]
    assert [row.name for row in rows] == ["cann-sim", "rlinf-npu"]


def test_a_session_that_stays_lost_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_bake(*_: object) -> None:
        raise failure(["no active sessions"])[0]

    monkeypatch.setattr(builder, "run_bake", run_bake)
    plan = {"group": {"default": {"targets": ["cann-sim"]}}}
    with pytest.raises(Problem, match="BuildKit lost the session of step") as raised:
        builder.build_images(None, plan, Console(file=io.StringIO()))  # type: ignore[arg-type]
    assert "prune --all" in raised.value.fix


def test_an_unknown_cause_shows_the_last_thirty_lines() -> None:
    problem, shown = failure([f"line {n}" for n in range(100)])
    assert problem.what == "step failed (exit code: 2): [rlinf-npu packages 1/2] RUN uv"
    assert "line 69" not in shown
    assert "line 70" in shown
    assert "line 99" in shown


def test_the_closing_table_says_whose_seconds_these_are() -> None:
    text = io.StringIO()
    rows = [builder.Built(name, [f"{name}:1"], "sha256:0", 1, 70.0, cached=False) for name in ("a", "b")]
    builder.show(rows, Console(file=text, width=200), 85.4)
    assert "built in 85 s altogether" in text.getvalue()
    assert "first to last step, s" in text.getvalue()


def test_too_little_disk_is_said_before_the_build(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"needs 1000000 GiB, \d+\.\d GiB are free"):
        builder.check_disk(tmp_path, 1_000_000)
    builder.check_disk(tmp_path, 0)
    builder.check_disk(tmp_path / "of a remote engine", 1_000_000)


def test_what_a_step_warns_of_is_repeated_once() -> None:
    build = Build()
    for number in (1, 2):
        log = ["Get:1 http://deb.debian.org", "warning: 2 packages are not as recorded"]
        build.vertexes[str(number)] = Vertex(name=f"[cann-base system 1/{number}] RUN apt", log=log)
    assert builder.warnings(build) == ["warning: 2 packages are not as recorded"]
