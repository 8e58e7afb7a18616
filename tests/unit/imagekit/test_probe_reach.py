"""Probes end in time, say why, and show no secret."""

import subprocess
import time
from pathlib import Path

import pytest
from hostkit import AddProgram, Serve

from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.probe import (
    Probe,
    Prober,
    ask,
    labels_of,
    manifest_of,
    probe_git,
    probe_index,
    probe_registry,
    probe_seconds,
)
from imagekit.process import follow, run

pytestmark = pytest.mark.programs

ENGINE = Engine(("docker",), {}, "unix:///x", "26.1", "0.13", "2.26", "x86_64", True)


def test_all_are_asked_at_once_and_none_takes_longer_than_it_may() -> None:
    begun = time.monotonic()
    results = ask([Probe(f"p{i}", ("sleep", "30")) for i in range(4)], 0.3)
    assert time.monotonic() - begun < 2
    assert [r.ok for r in results] == [False] * 4
    assert results[0].line == f"  probe p0: not in reach: no answer within 0.3 s ({results[0].seconds:.1f} s)"


def test_a_prober_asks_each_question_once_and_together(tmp_path: Path) -> None:
    log = tmp_path / "log"
    probes = [Probe(name, ("sh", "-c", f"echo {name} >> {log}; test {name} = a")) for name in ("a", "b")]
    prober = Prober(5)
    assert [r.ok for r in prober.ask([probes[1], probes[0]])] == [False, True]
    assert [r.name for r in prober.ask([*probes, probes[0]])] == ["a", "b", "a"]
    assert sorted(log.read_text().split()) == ["a", "b"]


def test_helpers_of_a_killed_program_do_not_outlive_it(tmp_path: Path) -> None:
    helper = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done"  # ignores what its parent obeys
    run(("sh", "-c", f'sh -c "{helper.replace("$", chr(92) + "$")}" & wait'), seconds=0.5)
    state = Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    until = time.monotonic() + 3
    while state.exists() and " Z " not in state.read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_missing_program_is_an_answer_too() -> None:
    (result,) = ask([Probe("x", ("no-such-program",))], 1)
    assert (result.ok, result.reason) == (False, "no-such-program: not found")


def test_git_in_reach_and_not(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "repo"], check=True)
    commit = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(commit, cwd=tmp_path / "repo", check=True)
    there, absent = ask([probe_git(str(tmp_path / "repo"), {}), probe_git(str(tmp_path / "absent"), {})], 5)
    assert there.ok
    assert not absent.ok
    assert "\n" not in absent.reason


def test_gits_reason_is_the_cause_without_the_url(programs: AddProgram) -> None:
    error = "fatal: unable to access 'https://github.com/x/': Could not resolve host: github.com"
    programs("git", f'echo "{error}" >&2; exit 128')
    (result,) = ask([probe_git("https://me:secret@github.com/x", {})], 5)
    assert result.reason == "Could not resolve host: github.com"
    assert "secret" not in result.line


def test_a_registry_gives_digest_or_the_cause(programs: AddProgram) -> None:
    programs(
        "docker",
        """
case "$*" in
"buildx imagetools inspect good --format {{json .}}")
    echo '{"manifest": {"digest": "sha256:abc"}, "image": {"config": {"Labels": {"a": "b"}}}}'
    ;;
*) echo 'ERROR: failed to do request: Head "https://r/v2": dial tcp: lookup r: no such host' >&2; exit 1 ;;
esac""",
    )
    good, bad = ask([probe_registry(ENGINE, "good"), probe_registry(ENGINE, "bad")], 5)
    assert (good.ok, manifest_of(good)["digest"]) == (True, "sha256:abc")
    assert labels_of(good, "linux/amd64") == {"a": "b"}
    assert (bad.reason, manifest_of(bad), labels_of(bad, "linux/amd64")) == ("no such host", {}, {})


def test_an_index_in_reach_refusing_and_absent(serve: Serve) -> None:
    index = serve(lambda path: (200 if path == "/simple/rlinf/" else 403, b"")) + "/simple"
    env = {"NO_PROXY": "*", "no_proxy": "*"}
    urls = (f"http://u:secret@{index}/rlinf/", f"http://u:secret@{index}/other/", "http://u:secret@127.0.0.1:9/rlinf/")
    results = ask([probe_index("the index", url, env, 5) for url in urls], 10)
    assert [r.ok for r in results] == [True, False, False]
    assert [r.reason for r in results] == ["", "HTTP 403", "ConnectionError"]
    assert "secret" not in f"{[r.line for r in results]} {results}"


def test_probe_seconds_can_be_overridden() -> None:
    assert probe_seconds(5, {}) == 5
    assert probe_seconds(5, {"PROBE_SECONDS": "12.5"}) == 12.5


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_probe_seconds_must_be_seconds(text: str) -> None:
    with pytest.raises(Problem, match=f"PROBE_SECONDS={text} is not a number of seconds") as caught:
        probe_seconds(5, {"PROBE_SECONDS": text})
    assert caught.value.exit_code == 2


def test_progress_written_with_carriage_returns_is_seen_line_by_line() -> None:
    lines: list[str] = []
    done = follow(("printf", r"10%%\r20%%\rdone\n"), lambda line: lines.append(line.strip()))
    assert (done.ok, lines) == (True, ["10%", "20%", "done"])
