"""The commands' words when they are called wrongly, and the order of the local pipeline."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from imagekit import cli
from imagekit.errors import Problem
from imagekit.manifest import Manifest, load_manifest
from imagekit.process import Finished
from imagekit.publish import chain, index, push
from imagekit.publish.identity import Identity
from imagekit.registry.server import LoopbackRegistry
from imagekit.tags import Flavour

DIGEST = "sha256:" + "a" * 64


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["gate"], "no image given"),
        (["promote"], "no image given"),
        (["promote", "--image", "h.io/us/x:latest"], "names no digest"),
        (["promote", "--image", "what is this"], "not an image reference"),
        (["ci-local", "--from", "lunch"], "no step 'lunch'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    command: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", *command])
    monkeypatch.delenv("IMAGE", raising=False)
    monkeypatch.setattr("imagekit.publish_cli._engine", lambda: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    errors = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert said in errors[0]
    assert errors[1].startswith("  fix: ")


def test_an_index_in_no_place_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", "index"])
    monkeypatch.setenv("REGISTRY", "nowhere")
    monkeypatch.setattr("imagekit.publish_cli.follow", lambda *_: pytest.fail("a build was started"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "REGISTRY='nowhere' is not a place to publish" in capsys.readouterr().err


def test_an_index_of_no_image_of_ours_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", "index", "nonsense"])
    monkeypatch.setattr("imagekit.publish_cli.follow", lambda *_: pytest.fail("a build was started"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "no image called" in capsys.readouterr().err


def test_a_build_that_fails_pushes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], manifest: Manifest
) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", "index"])
    built: list[str] = []

    def fails_for_the_second(command: list[str], _: object) -> Finished:
        built.append(command[-1])
        return Finished(len(built) - 1)

    monkeypatch.setattr("imagekit.publish_cli.follow", fails_for_the_second)
    monkeypatch.setattr("imagekit.publish.push.push", lambda *_: pytest.fail("it was pushed"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    first, second = (platform.name for platform in manifest.platform)
    assert (ended.value.code, built) == (1, [f"--platform={first}", f"--platform={second}"])
    assert f"the build for {second} failed" in capsys.readouterr().err


def test_an_index_is_of_one_image_one_commit_and_one_base(manifest: Manifest) -> None:
    def identity(platform: int = 0, **changes: str) -> Identity:
        given = {"base": "sim", "os": "debian12", "rlinf": "0.3.0", "revision": "abc", "installer": "lock"} | changes
        flavour = Flavour(**given, platform=manifest.platform[platform], native=True)  # type: ignore[arg-type]
        return Identity("rlinf-npu", flavour, True, "", {})

    index.refuse_mixed([identity(), identity(1)])
    with pytest.raises(Problem, match="different revisions: abc, def"):
        index.refuse_mixed([identity(), identity(1, revision="def")])
    with pytest.raises(Problem, match="different bases: cann, sim"):
        index.refuse_mixed([identity(), identity(1, base="cann")])
    with pytest.raises(Problem, match="different installers"):
        index.refuse_mixed([identity(), identity(1, installer="upstream")])
    with pytest.raises(Problem, match="different images"):
        index.refuse_mixed([identity(), replace(identity(1), name="cann-base")])
    with pytest.raises(Problem, match="the same architecture"):
        index.refuse_mixed([identity(), identity()])


def test_nothing_built(manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has not been built"):
        push.local_image(manifest, "rlinf-npu", "amd64", "", tmp_path)
    with pytest.raises(Problem, match="no image called"):
        push.local_image(manifest, "nonsense", "amd64", "", tmp_path)


def test_base_chooses_what_is_pushed(manifest: Manifest, tmp_path: Path) -> None:
    for suffix in ("", "-sim"):
        entry = {"tags": [f"rlinf-npu:x{suffix}"], "digest": DIGEST, "size": 1}
        record = {"images": {"rlinf-npu": entry}}
        (tmp_path / f"built-amd64{suffix}.json").write_text(json.dumps(record), encoding="utf-8")
    for base, tag in (("", "rlinf-npu:x"), ("cann", "rlinf-npu:x"), ("sim", "rlinf-npu:x-sim")):
        assert push.local_image(manifest, "rlinf-npu", "amd64", base, tmp_path) == tag


def test_who_builds() -> None:
    github = {"GITHUB_RUN_ID": "7", "GITHUB_SERVER_URL": "https://g.example", "GITHUB_REPOSITORY": "us/it"}
    assert push.builder(github) == "https://g.example/us/it/actions/runs/7"
    assert push.builder({"CI_JOB_URL": "https://l.example/1"}) == "https://l.example/1"
    assert push.builder({}) == "local"


class Place:
    """What the pipeline asks of its registry."""

    host = "127.0.0.1:5"
    environ = {"DOCKER_CONFIG": "/nowhere"}  # noqa: RUF012


def test_a_step_that_fails_ends_the_pipeline(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_step", lambda *arguments: "no" if arguments[3] == "gate" else "")
    place: LoopbackRegistry = Place()  # type: ignore[assignment]
    rows = chain._steps(manifest, place, lambda _: None, "test", "")
    assert [(row.step, row.result) for row in rows] == [
        ("test", "passed"),
        ("push", "passed"),
        ("gate", "failed"),
        ("promote", "not reached"),
    ]


def test_the_line_that_says_why() -> None:
    assert chain.why(Finished(1, "starting\nred: test failed: a.b\nred: size\n  fix: x")) == "red: test failed: a.b"
    assert chain.why(Finished(2, "make: *** [gate] Error 1")) == "make: *** [gate] Error 1"


def test_only_what_talks_to_the_registry_gets_its_login() -> None:
    env = {"DOCKER_CONFIG": "/login"}
    assert "DOCKER_CONFIG" not in chain._wanted(env, "test")
    assert chain._wanted(env, "push")["DOCKER_CONFIG"] == "/login"
