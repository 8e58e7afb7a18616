"""The commands' words when they are called wrongly, and the order of the local pipeline."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], manifest: Manifest, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", "index"])
    platforms: list[str] = []

    def fails_for_the_second(command: list[str], _: object) -> Finished:
        platforms.append(command[-1])
        built(tmp_path, "-sim", 1, arch=command[-1].rpartition("/")[2])
        return Finished(len(platforms) - 1)

    monkeypatch.setattr(push, "BUILD", tmp_path)
    monkeypatch.setattr("imagekit.publish_cli.follow", fails_for_the_second)
    monkeypatch.setattr("imagekit.publish.push.push", lambda *_: pytest.fail("it was pushed"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    first, second = (platform.name for platform in manifest.platform)
    assert (ended.value.code, platforms) == (1, [f"--platform={first}", f"--platform={second}"])
    assert f"the build for {second} failed" in capsys.readouterr().err


def test_an_index_is_of_one_image_one_commit_and_one_base(manifest: Manifest) -> None:
    def identity(platform: int = 0, **changes: str) -> Identity:
        given = {"base": "sim", "os": "debian12", "rlinf": "0.3.0", "revision": "abc", "installer": "lock"} | changes
        flavour = Flavour(**given, platform=manifest.platform[platform], native=True)  # type: ignore[arg-type]
        return Identity("rlinf-npu", flavour, True, "", {})

    index.refuse_mixed(manifest, [identity(), identity(1)])
    with pytest.raises(Problem, match="different revisions: abc, def"):
        index.refuse_mixed(manifest, [identity(), identity(1, revision="def")])
    with pytest.raises(Problem, match="different bases: cann, sim"):
        index.refuse_mixed(manifest, [identity(), identity(1, base="cann")])
    with pytest.raises(Problem, match="different installers"):
        index.refuse_mixed(manifest, [identity(), identity(1, installer="upstream")])
    with pytest.raises(Problem, match="different images"):
        index.refuse_mixed(manifest, [identity(), replace(identity(1), name="cann-base")])
    with pytest.raises(Problem, match="the same architecture"):
        index.refuse_mixed(manifest, [identity(), identity()])


@pytest.mark.parametrize(
    ("version", "labels", "said"),
    [
        (
            "0.3.0-ga4b6abe",
            {"rlinf.source": "git"},
            r"different RLinf: 0.3.0 \(pypi 0.3.0\), 0.3.0-ga4b6abe \(git 0.3.0\)",
        ),
        ("0.3.0", {"rlinf.revision": "0.3.1"}, r"different RLinf: 0.3.0 \(pypi 0.3.0\), 0.3.0 \(pypi 0.3.1\)"),
        ("0.3.0", {"compatibility": "unlisted"}, "different compatibility: listed, unlisted"),
    ],
)
def test_an_index_is_of_one_rlinf_and_one_promise(
    version: str, labels: dict[str, str], said: str, manifest: Manifest
) -> None:
    """As when GitHub answered for one architecture only."""

    def identity(platform: int, rlinf: str, **changes: str) -> Identity:
        flavour = Flavour("sim", "debian12", rlinf, "abc", manifest.platform[platform], native=True)
        known = {"rlinf.source": "pypi", "rlinf.revision": "0.3.0", "compatibility": "listed"} | changes
        ours = {f"{manifest.project.label_prefix}.{name}": value for name, value in known.items()}
        return Identity("rlinf-npu", flavour, True, "", ours)

    index.refuse_mixed(manifest, [identity(0, "0.3.0"), identity(1, "0.3.0")])
    with pytest.raises(Problem, match=said):
        index.refuse_mixed(manifest, [identity(0, "0.3.0"), identity(1, version, **labels)])


def test_nothing_built(manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has not been built for amd64 with BASE=auto INSTALLER=lock"):
        push.local_image(manifest, "rlinf-npu", "amd64", folder=tmp_path)
    with pytest.raises(Problem, match="no image called"):
        push.local_image(manifest, "nonsense", "amd64", folder=tmp_path)
    with pytest.raises(Problem, match="BASE='x' is not a base"):
        push.local_image(manifest, "rlinf-npu", "amd64", "x", folder=tmp_path)
    with pytest.raises(Problem, match="INSTALLER='x' is not an installer"):
        push.local_image(manifest, "rlinf-npu", "amd64", installer="x", folder=tmp_path)


def built(folder: Path, suffix: str, day: int, os_name: str = "debian12", arch: str = "amd64") -> str:
    """Write what a build would, on a day of 1970; return the immutable tag."""
    tag = f"rlinf-npu:0.3.0-cann8.3.rc1-910b-{os_name}-py3.11-{day}{suffix}"
    record = {"images": {"rlinf-npu": {"tags": ["rlinf-npu:moves", tag], "digest": DIGEST, "size": 1}}}
    path = folder / f"built-{arch}{suffix}.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    os.utime(path, (day * 86400, day * 86400))
    return tag


def test_the_base_chooses_what_is_pushed_and_auto_takes_the_newer(manifest: Manifest, tmp_path: Path) -> None:
    real, simulated = built(tmp_path, "", 1, "ubuntu22.04"), built(tmp_path, "-sim", 2)
    built(tmp_path, "-unfixed-sim", 3)  # made by every `make test`
    for base, tag in (("", simulated), ("auto", simulated), ("cann", real), ("sim", simulated)):
        assert push.local_image(manifest, "rlinf-npu", "amd64", base, folder=tmp_path) == tag
    real = built(tmp_path, "", 3, "ubuntu22.04")
    assert push.local_image(manifest, "rlinf-npu", "amd64", folder=tmp_path) == real


def test_what_was_built_on_a_stand_in_is_what_base_cann_built(manifest: Manifest, tmp_path: Path) -> None:
    built(tmp_path, "", 1, "ubuntu22.04")
    stand_in = built(tmp_path, "-sim", 2, "ubuntu22.04")
    for base in ("", "cann"):
        assert push.local_image(manifest, "rlinf-npu", "amd64", base, folder=tmp_path) == stand_in
    with pytest.raises(Problem, match="not been built for amd64 with BASE=sim"):
        push.local_image(manifest, "rlinf-npu", "amd64", "sim", folder=tmp_path)


def test_the_installer_chooses_what_is_pushed(manifest: Manifest, tmp_path: Path) -> None:
    upstream, locked = built(tmp_path, "-upstream-sim", 1), built(tmp_path, "-sim", 2)
    for installer, tag in (("upstream", upstream), ("lock", locked), ("", locked)):
        assert push.local_image(manifest, "rlinf-npu", "amd64", "", installer, tmp_path) == tag


def having(**revisions: str) -> Any:
    """An engine with these images."""
    attrs = {"Architecture": "amd64", "Os": "linux", "RootFS": {"Layers": []}}

    def get(name: str) -> Any:
        labels = {"org.opencontainers.image.revision": revisions[name.rpartition("-")[0].rpartition("-")[2]]}
        return SimpleNamespace(attrs=attrs | {"Config": {"Labels": labels}})

    return SimpleNamespace(client=lambda **_: SimpleNamespace(images=SimpleNamespace(get=get)))


@pytest.mark.parametrize(
    ("made", "here", "good"),
    [
        ("aaa", "aaa", True),
        ("aaa", "aaa-dirty", True),  # its commit's all the same
        ("aaa-dirty", "aaa-dirty", True),  # the candidate's tag says so, and no real one becomes a release
        ("aaa-dirty", "aaa", False),  # made of files that are gone
        ("aaa", "bbb", False),
        ("unversioned", "unversioned", True),  # an archive without git
    ],
)
def test_what_another_revision_built_is_not_pushed(
    made: str,
    here: str,
    good: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", "push", "--platform=linux/amd64", "--base=sim"])
    monkeypatch.setattr(push, "BUILD", tmp_path)
    monkeypatch.setattr("imagekit.lookup.our_revision", lambda: here)
    tag, pushed = built(tmp_path, "-sim", 7), list[str]()
    monkeypatch.setattr("imagekit.publish_cli._engine", lambda: having(**{"7": made}))
    monkeypatch.setattr(push, "remember", lambda *_: None)
    monkeypatch.setattr("imagekit.publish_cli._show_pushed", lambda _: None)
    monkeypatch.setattr(push, "push", lambda *given: pushed.append(given[2]))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (pushed, ended.value.code) == (([tag], 0) if good else ([], 1))
    if not good:
        error, fix = capsys.readouterr().err.splitlines()
        assert error == f"error: {tag} was built from revision {made}, this checkout is at {here}"
        assert fix.startswith("  fix: make image")


@pytest.fixture
def indexing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """`build.py index` with builds that write records only, and a push that takes note."""
    seen = SimpleNamespace(folder=tmp_path, commands=[], compared=[], pushed=[], writes=("-sim",))

    def build(command: list[str], _: object) -> Finished:
        seen.commands.append(command[2:])
        arch = command[-1].rpartition("/")[2]
        for suffix in seen.writes:
            built(tmp_path, suffix, 5, arch=arch)
        return Finished(0)

    monkeypatch.setattr(push, "BUILD", tmp_path)
    monkeypatch.setattr("imagekit.publish_cli.follow", build)
    monkeypatch.setattr("imagekit.publish_cli._engine", lambda: None)
    monkeypatch.setattr("imagekit.publish_cli._show_pushed", lambda _: None)
    monkeypatch.setattr(push, "identify_local", lambda _, engine, tag: tag)
    monkeypatch.setattr(index, "refuse_mixed", lambda _, tags: seen.compared.append(tags))
    candidate = SimpleNamespace(reference=f"h.io/us/rlinf-npu@{DIGEST}")
    monkeypatch.setattr(push, "push", lambda *given: seen.pushed.append(given[2]) or candidate)
    monkeypatch.setattr(index, "join", lambda *_: index.Tagged("candidate", DIGEST, "both", ""))
    return seen


@pytest.mark.parametrize("suffix", ["", "-sim", "-upstream", "-upstream-sim"])
def test_an_index_is_of_what_its_own_builds_made(
    suffix: str, indexing: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else was built before, or says that it was built later."""
    for arch in ("arm64", "amd64"):
        for day, earlier in enumerate(("", "-sim", "-upstream", "-upstream-sim", "-unfixed-sim"), 10):
            built(indexing.folder, earlier, day, arch=arch)
    indexing.writes = (suffix,)
    monkeypatch.setattr("sys.argv", ["build.py", "index"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert indexing.pushed == [f"rlinf-npu:0.3.0-cann8.3.rc1-910b-debian12-py3.11-5{suffix}"] * 2


def test_what_cannot_be_joined_is_not_even_pushed(
    indexing: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Manifest, tags: list[str]) -> None:
        raise Problem(f"{len(tags)} are mixed", "do not")

    monkeypatch.setattr(index, "refuse_mixed", refuse)
    monkeypatch.setattr("sys.argv", ["build.py", "index"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, indexing.pushed) == (1, [])
    assert "2 are mixed" in capsys.readouterr().err


def test_an_indexs_builds_get_its_settings(indexing: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", "index", "--base", "sim", "--installer=upstream"])
    with pytest.raises(SystemExit):
        cli.main()
    platforms = [f"--platform={platform.name}" for platform in load_manifest().platform]
    assert indexing.commands == [["image", "--base=sim", "--installer=upstream", name] for name in platforms]


@pytest.mark.parametrize(("writes", "said"), [((), "New: none"), (("", "-sim"), "built-arm64-sim.json")])
def test_an_index_does_not_guess_which_build_was_its_own(
    writes: tuple[str, ...],
    said: str,
    indexing: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    indexing.writes = writes
    monkeypatch.setattr("sys.argv", ["build.py", "index"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, indexing.pushed) == (1, [])
    assert said in capsys.readouterr().err


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
