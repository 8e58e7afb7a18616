"""Each fault of a container fires exactly its rules; a healthy one is silent."""

import sys
from pathlib import Path

import pytest
from doctor_machine import DRIVER, GIB, SITE, TOOLKIT, Break, Machine, smi_table
from rlinf_npu.doctor import importprobe
from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.importprobe import ImportResult
from rlinf_npu.doctor.registry import all_rules
from rlinf_npu.doctor.runner import run
from rlinf_npu.doctor.system import FsUsage
from rlinf_npu.doctor.tables import limits


def test_healthy_is_silent(container: Machine) -> None:
    assert container.fired() == {}
    report = container.examine()
    assert report.exit_code() == 0 and report.exit_code(strict=True) == 0
    assert {"import", "torch-count", "driver-version", "node-access", "shm-small"} <= set(report.checked)


def _driver_gone(m: Machine) -> None:
    m.remove(DRIVER)
    m.remove("/usr/local/bin/npu-smi")
    m.import_fails("libascend_hal.so: cannot open shared object file: No such file or directory")


def _driver_empty(m: Machine) -> None:
    for name in ("lib64", "version.info"):
        m.remove(f"{DRIVER}/{name}")


def _only_lib64_mounted(m: Machine) -> None:
    m.remove(f"{DRIVER}/version.info")
    m.file("/proc/self/mountinfo", f"40 36 8:1 /drv/lib64 {DRIVER}/lib64 ro - ext4 x ro\n")


def _dangling_library(m: Machine) -> None:
    m.remove(f"{DRIVER}/lib64/driver/libascend_hal.so")
    (m.root / f"{DRIVER.lstrip('/')}/lib64/driver/libascend_hal.so").symlink_to("libascend_hal.so.25")


def _piecewise(m: Machine) -> None:
    points = [f"{DRIVER}/lib64", f"{DRIVER}/version.info"]
    m.file("/proc/self/mountinfo", "".join(f"40 36 8:1 /x {point} ro - ext4 x ro\n" for point in points))


def _driver(version: str) -> Break:
    return lambda m: m.file(f"{DRIVER}/version.info", f"Version={version}\n") and None


def _nodes(*numbers: int) -> Break:
    def breaks(m: Machine) -> None:
        for number in set(range(8)) - set(numbers):
            m.remove(f"/dev/davinci{number}")
        m.torch_counts(len(numbers))

    return breaks


def _no_cards_at_all(machine: Machine) -> None:
    """NPUS=none: no nodes, and both variables are empty."""
    _nodes()(machine)
    _only_env(ASCEND_RT_VISIBLE_DEVICES="", ASCEND_VISIBLE_DEVICES="")(machine)


def _only_env(**variables: str) -> Break:
    return lambda m: m.env.update(variables)


def _cards_6_7(**variables: str) -> Break:
    def breaks(m: Machine) -> None:
        _nodes(6, 7)(m)
        m.npu_smi(smi_table(2))
        m.env.update(variables)

    return breaks


def _import(error: str) -> Break:
    return lambda m: m.import_fails(error)


def _stranger(m: Machine) -> None:
    m.identity(4242, 4242)
    m.file("/etc/passwd", "stranger:x:4242:4242::/:/bin/sh\n")
    m.torch_counts(0)


def _file(path: str, text: str) -> Break:
    return lambda m: m.file(path, text) and None


def _usage(path: str, usage: FsUsage) -> Break:
    return lambda m: m.usage.update({path: usage})


def _folder_for_npu_smi(m: Machine) -> None:
    m.remove("/usr/local/bin/npu-smi")
    (m.root / "usr/local/bin/npu-smi").mkdir()


def _devlib_first(m: Machine) -> None:
    m.file(f"{TOOLKIT}/aarch64-linux/devlib/libascend_hal.so")
    m.env["LD_LIBRARY_PATH"] = f"{TOOLKIT}/aarch64-linux/devlib:" + m.env["LD_LIBRARY_PATH"]


def _devlib_last(m: Machine) -> None:
    m.file(f"{TOOLKIT}/aarch64-linux/devlib/libascend_hal.so")
    m.env["LD_LIBRARY_PATH"] += f":{TOOLKIT}/aarch64-linux/devlib"


def _no_environment(m: Machine) -> None:
    del m.env["LD_LIBRARY_PATH"], m.env["ASCEND_HOME_PATH"]
    m.import_fails("libhccl.so: cannot open shared object file: No such file or directory")


def _clock_before_build(m: Machine) -> None:
    m.now = m.facts["created"] - 3600


def _torch_moved(m: Machine) -> None:
    m.remove(f"{SITE}/torch-2.6.0.dist-info")
    m.module("torch", "2.7.1")


def _pair_for_other_cann(m: Machine) -> None:
    for name in ("torch-2.6.0", "torch_npu-2.6.0.post3"):
        m.remove(f"{SITE}/{name}.dist-info")
    m.file(f"{SITE}/torch-2.9.0.dist-info/METADATA")
    m.file(f"{SITE}/torch_npu-2.9.0.dist-info/METADATA")


_IN_USE = smi_table(8, processes="| 3       0 | 4711 | python3 | 32768 |\n")
_PORT_60000 = "  sl  local_address rem_address   st\n   0: 00000000:EA60 00000000:0000 0A\n"
_SIX_ZOMBIES = [f"/proc/{100 + n}/stat" for n in range(6)]


def _zombies(m: Machine) -> None:
    for path in _SIX_ZOMBIES:
        m.file(path, "100 (ray::Worker (x)) Z 1 1 1 0 -1\n")


CASES: dict[str, tuple[Break, dict[str, str]]] = {
    # driver and mounts
    "driver gone": (_driver_gone, {"driver-missing": "error", "import": "error"}),
    "driver empty": (_driver_empty, {"driver-missing": "error"}),
    "only lib64 mounted": (_only_lib64_mounted, {"driver-half": "error"}),
    "dangling driver library": (_dangling_library, {"driver-half": "error"}),
    "mounted piecewise": (_piecewise, {"driver-half": "warning"}),
    "driver far too old": (_driver("23.0.3"), {"driver-version": "error"}),
    "driver a little old": (_driver("25.2.0"), {"driver-version": "warning"}),
    "driver newer": (_driver("25.5.1"), {}),
    "driver without version": (_file(f"{DRIVER}/version.info", "x\n"), {"driver-version-unknown": "warning"}),
    "no dcmi": (lambda m: m.remove("/usr/local/dcmi"), {"mount-missing": "warning"}),
    "npu-smi is a folder": (_folder_for_npu_smi, {"mount-is-folder": "error"}),
    # nodes and rights
    "no nodes": (_nodes(), {"no-cards": "error"}),
    "no nodes, and the variables say so": (_no_cards_at_all, {"no-cards": "error"}),
    "3 of 8 nodes": (_nodes(0, 1, 2), {"node-count": "error"}),
    "no hisi_hdc": (lambda m: m.remove("/dev/hisi_hdc"), {"manager-missing": "error"}),
    "wrong owner": (_stranger, {"node-access": "error", "torch-count": "error"}),
    "no passwd entry": (_file("/etc/passwd", "root:x:99999:0::/:/bin/sh\n"), {"passwd-entry": "error"}),
    # visibility
    "one variable, cards from 0": (_only_env(ASCEND_RT_VISIBLE_DEVICES="0,1,2,3,4,5,6,7"), {}),
    "one variable, cards 6 and 7": (_cards_6_7(ASCEND_VISIBLE_DEVICES="6,7"), {"visible-one": "warning"}),
    "both variables, cards 6 and 7": (_cards_6_7(ASCEND_VISIBLE_DEVICES="6-7", ASCEND_RT_VISIBLE_DEVICES="0,1"), {}),
    "both, host numbers that work": (_cards_6_7(ASCEND_VISIBLE_DEVICES="6,7", ASCEND_RT_VISIBLE_DEVICES="6,7"), {}),
    "garbage": (_only_env(ASCEND_RT_VISIBLE_DEVICES="0,a"), {"visible-garbage": "error"}),
    "blank": (_only_env(ASCEND_RT_VISIBLE_DEVICES="0, 1"), {"visible-garbage": "error"}),
    "empty": (_only_env(ASCEND_RT_VISIBLE_DEVICES=""), {"visible-garbage": "error"}),
    "range in CANN's variable": (_only_env(ASCEND_RT_VISIBLE_DEVICES="0-3"), {"visible-garbage": "error"}),
    "duplicates": (_only_env(ASCEND_RT_VISIBLE_DEVICES="0,1,1"), {"visible-duplicates": "error"}),
    "order": (_only_env(ASCEND_RT_VISIBLE_DEVICES="1,0"), {"visible-order": "error"}),
    "out of range": (_only_env(ASCEND_RT_VISIBLE_DEVICES="0,8"), {"visible-range": "error"}),
    "host variable out of range": (_only_env(ASCEND_VISIBLE_DEVICES="0-9"), {"visible-range": "error"}),
    "docker runtime's void": (_only_env(ASCEND_VISIBLE_DEVICES="void"), {}),
    # cards
    "npu-smi fails": (
        lambda m: m.npu_smi("dcmi module initialize failed. ret is -8009", 1),
        {"npu-smi-fails": "error"},
    ),
    "other chip": (lambda m: m.npu_smi(smi_table(8, "310P3")), {"chip-mismatch": "error"}),
    "other generation": (lambda m: m.npu_smi(smi_table(8, "Ascend910_9392")), {"chip-mismatch": "error"}),
    "ill card": (lambda m: m.npu_smi(smi_table(8, health="Alarm")), {"card-health": "error"}),
    "held, seen": (lambda m: m.npu_smi(_IN_USE), {"card-held": "warning"}),
    "held by a container": (lambda m: m.npu_smi("dcmi init failed, ret is -8005", 1), {"card-held": "error"}),
    "memory left behind": (lambda m: m.npu_smi(smi_table(8, used=40000)), {"hbm-used": "warning"}),
    # paths
    "environment lost": (_no_environment, {"libpath-toolkit": "error", "libpath-driver": "error", "import": "error"}),
    "devlib first": (_devlib_first, {"libpath-shadowed": "error"}),
    "devlib last": (_devlib_last, {"libpath-shadowed": "warning"}),
    "empty element": (lambda m: m.env.update(PYTHONPATH="/a:"), {"libpath-untidy": "warning"}),
    # Python
    "torch moved": (_torch_moved, {"versions": "error", "versions-changed": "warning"}),
    "other CANN's pair": (_pair_for_other_cann, {"versions": "warning", "versions-changed": "warning"}),
    "fewer cards counted": (lambda m: m.torch_counts(7), {"torch-count": "error"}),
    # memory, processes, disk
    "docker's default shm": (_usage("/dev/shm", FsUsage(64 << 20, 64 << 20, 0, 0)), {"shm-small": "error"}),
    "shm full": (_usage("/dev/shm", FsUsage(32 * GIB, GIB, 0, 0)), {"shm-small": "warning"}),
    "few files": (_file("/proc/self/limits", "Max open files 1024 4096 files\n"), {"ulimits": "warning"}),
    "few files, which Ray raises itself": (_file("/proc/self/limits", "Max open files 1024 524288 files\n"), {}),
    "few threads": (_file("/proc/self/limits", "Max processes 512 1024 processes\n"), {"ulimits": "warning"}),
    "huge pages": (
        _file("/proc/meminfo", "MemTotal: 1000000 kB\nHugePages_Free: 300\nHugepagesize: 2048 kB\n"),
        {"hugepages": "warning"},
    ),
    "no init": (_file("/proc/1/comm", "bash\n"), {"pid1": "warning"}),
    "zombies": (_zombies, {"zombies": "warning"}),
    "wrong clock": (_clock_before_build, {"clock": "error"}),
    "disk full": (_usage("/tmp", FsUsage(100 * GIB, GIB, 100, 100)), {"disk": "error"}),
    "disk low": (_usage("/tmp", FsUsage(20 * GIB, 9 * GIB, 100, 100)), {"disk": "warning"}),
    "no inodes": (_usage("/tmp", FsUsage(900 * GIB, 500 * GIB, 1000, 2)), {"inodes": "warning"}),
    # HCCL
    "port taken": (_file("/proc/net/tcp", _PORT_60000), {"hccl-port-taken": "error"}),
    "bad base port": (_only_env(HCCL_IF_BASE_PORT="70000"), {"hccl-port-value": "error"}),
    "no such interface": (_only_env(HCCL_SOCKET_IFNAME="=enp1"), {"hccl-interface": "error"}),
    "prefix of an interface": (_only_env(HCCL_SOCKET_IFNAME="eth"), {}),
    "no rank table": (_only_env(RANK_TABLE_FILE="/nowhere.json"), {"rank-table": "error"}),
    "short timeout": (_only_env(HCCL_CONNECT_TIMEOUT="60"), {"hccl-timeout": "warning"}),
    "tensorflow came back": (lambda m: m.module("tensorflow", "2.15.0"), {"excluded-package": "warning"}),
    # network and data
    "built without fixes": (lambda m: m.facts.update(fixes=False), {"fixes-open": "error"}),
    "proxy eats loopback": (_only_env(http_proxy="http://proxy:3128"), {"proxy-loopback": "warning"}),
    "fixes open": (
        _file("/usr/share/rlinf-npu/npufix.json", '{"summary": {"open_on_paths": 2}}'),
        {"fixes-open": "warning"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fault(container: Machine, name: str) -> None:
    breaks, expected = CASES[name]
    breaks(container)
    assert container.fired() == expected


def test_another_base_port_is_free(container: Machine) -> None:
    container.file("/proc/net/tcp", _PORT_60000)
    container.env["HCCL_IF_BASE_PORT"] = "50000"
    assert container.fired() == {}


def test_root_without_dac_override_is_told_so(container: Machine) -> None:
    container.identity(0, 0)
    for node in (container.root / "dev").glob("davinci*"):
        node.chmod(0)  # nobody but a capability opens these
    report = container.examine(("node-access",))
    assert "CAP_DAC_OVERRIDE" in report.findings[0].evidence
    container.identity(0, 0, capabilities=1 << 1)
    assert container.examine(("node-access",)).findings == []


def test_two_digit_card_numbers(folder: Path) -> None:
    machine = Machine(folder, cards=16)
    assert list(machine.context().cards) == list(range(16))
    assert machine.fired() == {}


IMPORT_ERRORS = {
    "no-toolkit": "libhccl.so: cannot open shared object file: No such file or directory",
    "toolkit-env": "ASCEND_OPP_PATH environment variable is not set. Please check whether it is installed.",
    "no-driver": "libascend_hal.so: cannot open shared object file: No such file or directory",
    "no-nnal": "libatb.so: cannot open shared object file: No such file or directory",
    "torch-pairing": "/x/torch_npu/lib/libtorch_npu.so: undefined symbol: _ZN3c104impl8GPUTrace13gpuTraceStateE",
    "numpy-abi": "numpy.dtype size changed, may indicate binary incompatibility",
    "abi": "/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found",
    "static-tls": "libgomp.so.1: cannot allocate memory in static TLS block",
    "cuda-library": "libcudart.so.12: cannot open shared object file: No such file or directory",
    "no-tbe": "No module named 'tbe'",
    "other": "something nobody has seen",
}


@pytest.mark.parametrize("kind", IMPORT_ERRORS)
def test_import_error_is_classified(container: Machine, kind: str) -> None:
    container.import_fails(IMPORT_ERRORS[kind])
    report = container.examine(("import",))
    assert [finding.kind for finding in report.findings] == [kind]
    assert IMPORT_ERRORS[kind] in report.findings[0].evidence


def test_the_cause_is_shown_not_the_wrapper(container: Machine) -> None:
    body = f"""
try:
    raise ImportError({IMPORT_ERRORS["no-driver"]!r})
except ImportError as error:
    raise RuntimeError("Failed to load the backend extension: torch_npu") from error"""
    container.module("torch_npu", "2.6.0.post3", body)
    finding = container.examine(("import",)).findings[0]
    assert finding.kind == "no-driver" and IMPORT_ERRORS["no-driver"] in finding.evidence


def test_segmentation_fault_with_tensorflow_is_tensorflows(container: Machine) -> None:
    container.module("torch_npu", "2.6.0.post3", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert container.examine(("import",)).findings[0].kind == "crash"
    container.module("tensorflow", "2.15.0")
    assert container.examine(("import",)).findings[0].kind == "tensorflow"


def test_stack_of_a_crash_in_tensorflow_is_read(container: Machine) -> None:
    body = "import faulthandler; faulthandler.enable()\nfrom torch_npu.tensorflow import crash"
    container.file(f"{SITE}/torch_npu/tensorflow/crash.py", "import faulthandler; faulthandler._sigsegv()")
    container.module("torch_npu", "2.6.0.post3", body)
    assert container.examine(("import",)).findings[0].kind == "tensorflow"


def test_import_has_a_time_limit(container: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    short = limits().model_copy(update={"import_seconds": 0.1})
    monkeypatch.setattr(importprobe, "limits", lambda: short)
    container.module("torch_npu", "2.6.0.post3", "import time\ntime.sleep(30)")
    assert container.examine(("import",)).findings[0].kind == "timeout"


def test_host_numbers_that_do_not_work(container: Machine) -> None:
    _cards_6_7(ASCEND_VISIBLE_DEVICES="6,7", ASCEND_RT_VISIBLE_DEVICES="6,7")(container)
    container.torch_counts(0)
    assert set(container.fired()) == {"visible-host-ids", "torch-count"}


def test_a_rule_that_breaks_does_not_hide_the_others(container: Machine) -> None:
    container.file("/proc/self/status", "Uid:\tx\ty\tz\n")
    container.remove("/dev/hisi_hdc")
    report = container.examine()
    assert "manager-missing" in {finding.rule for finding in report.findings}
    assert "node-access" in report.broken
    assert report.exit_code() == 1


def test_a_broken_rule_alone_is_exit_2(container: Machine) -> None:
    container.file("/proc/self/status", "Uid:\tx\ty\tz\n")
    assert container.examine(("node-access",)).exit_code() == 2


def test_worst_comes_first(container: Machine) -> None:
    container.file("/proc/1/comm", "bash\n")
    container.npu_smi(smi_table(8, health="Alarm"))
    container.remove("/usr/local/dcmi")
    severities = [finding.severity for finding in container.examine().findings]
    assert severities == sorted(severities, reverse=True) and len(set(severities)) == 2


def test_simulated_is_recognised(container: Machine) -> None:
    container.file(f"{DRIVER}/version.info", "Version=25.3.rc1\nNote=simulated driver\n")
    container.env["CANNSIM_DEVICES"] = "8"
    report = container.examine()
    assert f"{DRIVER}/version.info" in report.simulated and "CANNSIM_DEVICES" in report.simulated
    assert report.findings == []


@pytest.fixture
def simulated(container: Machine) -> Machine:
    """The container with the simulated driver's own npu-smi."""
    script = Path(__file__).parents[3] / "images/cann-sim/driver/npu-smi"
    container.file("/usr/local/bin/npu-smi", script.read_text(encoding="utf-8"), 0o755)
    container.file(f"{DRIVER}/simulated.info", "simulated=yes\nsoc=Ascend910B3\n")
    container.env |= {
        "CANNSIM_DRIVER_DIR": str(container.root / DRIVER.lstrip("/")),
        "CANNSIM_DEV_DIR": str(container.root / "dev"),
    }
    return container


def test_simulated_npu_smi_is_understood(simulated: Machine) -> None:
    assert simulated.fired() == {}
    report = simulated.examine(("node-count", "chip-mismatch", "hbm-used"))
    assert len(report.checked) == 3
    assert {"npu-smi info", f"{DRIVER}/simulated.info"} <= set(report.simulated)


def test_simulated_npu_smi_without_nodes_is_not_taken_for_a_held_card(simulated: Machine) -> None:
    for number in range(8):
        simulated.remove(f"/dev/davinci{number}")
    assert "-8005" in simulated.context().smi_run.err
    assert simulated.fired() == {"no-cards": "error"}


def test_several_hosts(container: Machine) -> None:
    assert "hccn-conf" in container.examine().skipped
    container.nodes = 2
    assert container.fired() == {"hccn-conf": "error"}
    container.file("/etc/hccn.conf", "".join(f"address_{n}=10.0.0.{n}\n" for n in range(8)))
    container.script(f"{DRIVER}/tools/hccn_tool", 'echo "ipaddr:10.0.0.$2"')
    assert container.fired() == {}
    container.script(f"{DRIVER}/tools/hccn_tool", 'echo "ipaddr:10.0.9.$2"')
    container.file("/sys/class/net/docker0/operstate", "up\n")
    assert container.fired() == {"hccn-address": "error", "interface-chosen": "warning"}


def test_recap_check_is_asked(container: Machine) -> None:
    container.recap = container.file("/workspace/recap.yaml", "{}")
    assert "recap-check" in container.examine().skipped
    answer = (
        '{"findings": [{"what": "no meta/", "where": "/data/sft", "fix": "download it again", "severity": "error"}]}'
    )
    container.script("/usr/local/bin/recap", f"echo '{answer}'", "exit 1")
    finding = container.examine(("recap-check",)).findings[0]
    assert (finding.evidence, finding.fix) == ("/data/sft: no meta/", "download it again")
    container.script("/usr/local/bin/recap", "echo boom >&2", "exit 2")
    assert "boom" in container.examine(("recap-check",)).findings[0].evidence


def test_without_paths_in_the_facts_the_environment_tells(container: Machine) -> None:
    del container.facts["paths"]
    container.env["VIRTUAL_ENV"] = "/opt/venv"
    assert container.fired() == {}
    assert {"import", "versions", "libpath-toolkit"} <= set(container.examine().checked)


def test_python_of_the_fixture_is_a_real_one(container: Machine) -> None:
    result = container.context().imported
    assert (result.kind, result.count) == ("ok", 8), (result, sys.executable)


def test_who_waits_for_the_import_of_torch_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`recap run` waits for the other rules before it starts anything."""
    asked: list[str] = []

    def noted(ctx: Context) -> ImportResult:
        asked.append(current[0])
        return ImportResult("ok", "", count=0)

    monkeypatch.setattr(Context, "imported", property(noted))
    context = Machine(tmp_path).context()
    current = [""]
    for rule in all_rules():
        current[0] = rule.id
        run(context, [rule])
    assert set(asked) <= {rule.id for rule in all_rules() if rule.imports}
    assert "import" in asked
