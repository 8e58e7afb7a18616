"""The command: exit codes, JSON, errors in one line, docs in step."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_machine import DRIVER, MANIFEST, Machine, smi_table
from rlinf_npu.doctor.cli import app
from rlinf_npu.doctor.registry import all_rules
from rlinf_npu.doctor.render import rules_markdown
from typer.testing import CliRunner

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def arguments(host: Machine, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that examine the healthy host."""
    path = tmp_path_factory.mktemp("facts") / "facts.json"
    path.write_text(json.dumps(host.facts), encoding="utf-8")
    return ["--root", str(host.root), "--facts", str(path), "--only", "driver*,no-cards,card-*,chip*,docker*"]


def _run(*arguments: str, stdin: str | None = None):  # type: ignore[no-untyped-def]  # click's Result has no stable home
    return CliRunner(env={"PATH": "/usr/local/bin", "COLUMNS": "200"}).invoke(app, list(arguments), input=stdin)


def test_healthy(arguments: list[str]) -> None:
    result = _run(*arguments)
    assert result.exit_code == 0, result.output
    assert "healthy" in result.output and "host" in result.output


def test_problem_as_table_and_json(host: Machine, arguments: list[str]) -> None:
    host.docker(buildx="v0.9.1")
    table = _run(*arguments)
    assert table.exit_code == 1
    for part in ("docker-old", "buildx 0.9.1", MANIFEST["engine"]["min_buildx"], "https://docs.docker.com"):
        assert part in table.output, table.output
    document = json.loads(_run(*arguments, "--json").stdout)
    assert [(finding["rule"], finding["severity"], finding["kind"]) for finding in document["findings"]] == [
        ("docker-old", "error", "buildx")
    ]


def test_json_keeps_its_form(host: Machine, arguments: list[str]) -> None:
    """docs/doctor.md promises these keys; a new one is added there and here, none goes away."""
    host.docker(buildx="v0.9.1")
    document = json.loads(_run(*arguments, "--json").stdout)
    assert list(document) == ["schema", "where", "simulated", "findings", "checked", "skipped", "broken"]
    assert document["schema"] == 1
    assert set(document["findings"][0]) == {
        "rule", "kind", "title", "severity", "evidence", "meaning", "fix", "link"
    }  # fmt: skip
    answer = json.loads(_run("explain", "--json", "507033").stdout)[0]
    assert set(answer) == {
        "code", "name", "meaning", "fix", "documented", "seen", "seen_as", "npufix", "count", "line"
    }  # fmt: skip
    page = (REPOSITORY / "docs/doctor.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in page for key in [*document, *document["findings"][0], *answer])


def test_a_broken_rule_is_exit_2(host: Machine, arguments: list[str]) -> None:
    host.file("/proc/self/status", "Uid:\tx\ty\tz\n")
    result = _run(*arguments[:-1], "node-access")
    assert result.exit_code == 2
    assert "rule node-access failed itself" in result.output


@pytest.mark.parametrize("columns", ["80", "120", "300"])
def test_the_table_fits_and_links_stay_whole(host: Machine, arguments: list[str], columns: str) -> None:
    host.remove(DRIVER)
    host.docker(buildx="v0.9.1")
    host.remove("/dev/davinci0")
    output = CliRunner(env={"PATH": "/usr/local/bin", "COLUMNS": columns}).invoke(app, arguments).stdout
    table = [line for line in output.splitlines() if line.startswith("│")]
    assert {len(line) for line in table} == {min(int(columns), 120)}
    for link in ("https://github.com/vllm-project/vllm-ascend/issues/1440", "https://docs.docker.com/engine/install/"):
        assert any(link in line for line in table), output
    assert "\x1b" not in output, "no colours where nobody sees them"


def test_worst_come_first_in_the_table(host: Machine, arguments: list[str]) -> None:
    host.npu_smi(smi_table(8, health="Warning", used=40000))
    host.remove(DRIVER)
    output = _run(*arguments[:-1], "driver-missing,card-health").stdout
    severities = [line.split()[1] for line in output.splitlines() if line.startswith("│ ") and line[2] != " "]
    assert severities == ["error"] + 8 * ["warning"]


def test_strict_makes_warnings_problems(host: Machine, arguments: list[str]) -> None:
    host.remove("/usr/local/bin/npu-smi")
    arguments[-1] = "mount-missing"
    assert _run(*arguments).exit_code == 0
    assert _run(*arguments, "--strict").exit_code == 1


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--only", "nonsense"], "no rule matches"),
        (["--facts", "/nowhere/facts.json"], "/nowhere/facts.json is missing"),
        (["--recap", "/nowhere/recap.yaml"], "no such file"),
        (["--where", "moon"], "auto, host or container"),
        (["--collect", "/nowhere/x.tar.gz"], "is not a folder"),
        (["--nodes", "0"], "--nodes"),
    ],
)
def test_could_not_run(arguments: list[str], extra: list[str], message: str) -> None:
    result = _run(*arguments, *extra)
    assert result.exit_code == 2
    assert message in result.output and "Traceback" not in result.output


def test_wrong_facts_name_the_key(arguments: list[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"versions": {"cann": "8.3.rc1"}}', encoding="utf-8")
    result = _run(*arguments, "--facts", str(bad))
    assert result.exit_code == 2 and "versions.chip" in result.output


def test_collect_option(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    target = tmp_path_factory.mktemp("bundle") / "b.tar.gz"
    assert _run(*arguments, "--collect", str(target)).exit_code == 0
    assert target.stat().st_size > 200


def test_explain_codes_negative_ones_too() -> None:
    result = _run("explain", "507033", "-8005", "EJ0002")
    assert result.exit_code == 0
    for part in ("ACL_ERROR_RT_DEV_SETUP_ERROR", "DCMI_ERR_CODE_INNER_ERR", "No public page", "HAMi/issues/1894"):
        assert part in result.output, result.output


@pytest.mark.parametrize("words", [["xyz"], ["507033", "help!"], ["cuda"], ["E1"]])
def test_what_is_no_code_is_refused_with_what_is(words: list[str]) -> None:
    result = _run("explain", *words)
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert said.startswith(f"doctor: {words[-1]}: not an error code. Accepted are numbers (507033, -8005)")


def test_explain_takes_names() -> None:
    assert _run("explain", "acl_error_rt_dev_setup_error").output.startswith("507033  ACL_ERROR_RT_DEV_SETUP_ERROR")


def test_explain_reads_a_log_and_prints_json() -> None:
    result = _run("explain", "--json", stdin="x error code is 507899\nlibhccl.so: cannot open shared object file\n")
    assert [answer["code"] for answer in json.loads(result.stdout)] == ["507899", "no-toolkit"]
    assert "no known code" in _run("explain", stdin="all is well\n").output


def test_list() -> None:
    assert "driver-missing" in _run("--list").output
    assert _run("--list", "--markdown").stdout == rules_markdown(all_rules())


def test_docs_have_the_rules_of_this_code() -> None:
    page = (REPOSITORY / "docs/doctor.md").read_text(encoding="utf-8")
    begin, end = "<!-- rules: doctor --list --markdown -->\n", "<!-- /rules -->"
    inside = page.partition(begin)[2].partition(end)[0]
    assert inside.strip() == rules_markdown(all_rules()).strip(), "paste the output of: doctor --list --markdown"


def test_starts_without_torch_and_quickly() -> None:
    """As an installed script: nothing heavy is imported."""
    heavy = ("torch", "numpy", "ray", "psutil", "libcst")
    program = f"import sys; import rlinf_npu.doctor.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
