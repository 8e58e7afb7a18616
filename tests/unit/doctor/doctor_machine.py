"""A healthy simulated machine in a folder: real files, links, scripts and a real (tiny) Python environment."""

import json
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.factsview import facts_view
from rlinf_npu.doctor.importprobe import ImportResult
from rlinf_npu.doctor.model import CONTAINER, Report
from rlinf_npu.doctor.registry import all_rules
from rlinf_npu.doctor.runner import run, select
from rlinf_npu.doctor.system import FsUsage, System

MANIFEST = tomllib.loads((Path(__file__).parents[3] / "images.toml").read_text(encoding="utf-8"))
DRIVER = MANIFEST["devices"]["driver"]
TOOLKIT = "/usr/local/Ascend/ascend-toolkit/latest"
GIB = 1 << 30
NOW = 1_800_000_000.0
# A child Python costs more than everything else in a test. Its answer depends on the stand-in packages only, so equal
# packages are imported once; the tests of the import itself have packages of their own.
_IMPORTED: dict[str, ImportResult] = {}
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"/opt/venv/lib/{_PYTHON}/site-packages"


def facts() -> dict[str, Any]:
    """facts.json as it is rendered from images.toml."""
    return {
        "versions": MANIFEST["versions"],
        "devices": MANIFEST["devices"],
        "engine": MANIFEST["engine"],
        "paths": {"toolkit": TOOLKIT, "python": "/opt/venv/bin/python3"},
        "python": {"excluded": [name for entry in MANIFEST["python"]["exclude"] for name in entry["names"]]},
        "compatibility": MANIFEST["compatibility"],
        "chip": MANIFEST["chip"],
        "fixes": True,
        "created": NOW - 86400,
        "disk_gib": MANIFEST["defaults"]["disk_gib"],
        "env": {"ASCEND_HOME_PATH": TOOLKIT},
    }


def smi_table(chips: int, name: str = "910B3", health: str = "OK", used: int = 3400, processes: str = "") -> str:
    """`npu-smi info` in the form of driver 25, reduced to what the parser must understand."""
    rows = []
    for chip in range(chips):
        rows.append(f"| {chip:<5} {name:<19} | {health:<13} | 92.3        45                0    / 0             |")
        usage = f"0           0    / 0          {used} / 65536"
        rows.append(f"| 0                         | 0000:{0xC1 + chip:02X}:00.0  | {usage}         |")
    line = "+---------------------------+---------------+----------------------------------------------------+"
    head = f"| npu-smi 25.3.rc1                 Version: 25.3.rc1 |\n{line}\n"
    table = head + f"\n{line}\n".join(rows) + f"\n{line}\n"
    return table + "| NPU     Chip | Process id    | Process name | Process memory(MB) |\n" + processes


@dataclass
class Machine:
    """The folder, its environment, its file systems."""

    root: Path
    where: str = CONTAINER
    cards: int = 8
    env: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=facts)
    usage: dict[str, FsUsage] = field(default_factory=dict)
    now: float = NOW
    nodes: int = 1
    mirrors: list[str] = field(default_factory=list)
    recap: Path | None = None
    lock: Path | None = None

    def __post_init__(self) -> None:
        self._system_files()
        self._driver()
        self._toolkit()
        self._python()
        if self.where != CONTAINER:
            self.docker()

    # -- building blocks --

    def file(self, path: str, text: str = "", mode: int = 0o644) -> Path:
        """Write a file of the machine."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)
        return target

    def script(self, path: str, *lines: str) -> None:
        """A shell script; its PATH is the machine's, so programs are called by absolute paths."""
        self.file(path, "#!/bin/sh\n" + "\n".join(lines) + "\n", 0o755)

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with all its content."""
        target = self.root / path.lstrip("/")
        if target.is_dir() and not target.is_symlink():
            for child in target.iterdir():
                self.remove(str(child.relative_to(self.root)))
            target.rmdir()
        else:
            target.unlink()

    def npu_smi(self, table: str, code: int = 0) -> None:
        """Install an npu-smi that prints this."""
        self.script(
            "/usr/local/bin/npu-smi", f"printf '%s\\n' '{table}'", f"exit {code}"
        )  # a builtin: no second process

    def identity(self, uid: int, gid: int, capabilities: int = 0) -> None:
        """Who the kernel says we are."""
        ids = f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\nGroups:\t{gid} \n"
        self.file("/proc/self/status", f"Name:\tdoctor\n{ids}CapEff:\t{capabilities:016x}\n")

    def module(self, name: str, version: str, body: str = "") -> None:
        """Install a Python package with metadata."""
        self.file(f"{SITE}/{name}/__init__.py", f"__version__ = {version!r}\n{body}\n")
        self.file(f"{SITE}/{name}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n")

    def docker(
        self, engine: str = "26.1.5", buildx: str = "v0.13.1", compose: str = "2.26.1", images: tuple[str, ...] = ()
    ) -> None:
        """Install a docker command that reports these versions and images (lines: repository tag digest id)."""
        self.script(
            "/usr/local/bin/docker",
            'case "$1 $2" in',
            f'"version --format") echo {engine};;',
            f'"buildx version") echo "github.com/docker/buildx {buildx} 788433953";;',
            f'"compose version") echo {compose};;',
            '"info --format") echo /var/lib/docker;;',
            f"""'image ls') printf '%s\\n' '{chr(10).join(images)}';;""",
            "*) exit 1;;",
            "esac",
        )

    # -- the healthy machine --

    def _system_files(self) -> None:
        uid, gid = os.getuid(), os.getgid()
        self.identity(uid, gid)
        self.file("/etc/passwd", f"root:x:0:0:root:/root:/bin/sh\nuser:x:{uid}:{gid}::/home/user:/bin/sh\n")
        self.file("/proc/1/comm", "tini\n" if self.where == CONTAINER else "systemd\n")
        self.file("/proc/7/stat", "7 (python3) S 1 7 7 0 -1\n")
        self.file(
            "/proc/meminfo",
            "MemTotal: 536870912 kB\nMemAvailable: 500000000 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB\n",
        )
        self.file(
            "/proc/self/limits", "Max processes  unlimited unlimited processes\nMax open files 1048576 1048576 files\n"
        )
        self.file("/proc/net/tcp", "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A\n")
        self.file("/sys/class/net/lo/operstate", "unknown\n")
        self.file("/sys/class/net/eth0/operstate", "up\n")
        for folder in ("/dev/shm", "/tmp", "/var/lib/docker"):
            (self.root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        if self.where == CONTAINER:
            self.file("/.dockerenv")
            self.file(
                "/proc/self/mountinfo", f"36 35 0:1 / / rw - overlay x rw\n40 36 8:1 /drv {DRIVER} ro - ext4 x ro\n"
            )
        for number in range(self.cards):
            self.file(f"/dev/davinci{number}", mode=0o660)
        for path in MANIFEST["devices"]["managers"]:
            self.file(path, mode=0o660)

    def _driver(self) -> None:
        version = MANIFEST["versions"]["driver"]
        self.file(f"{DRIVER}/version.info", f"Version={version}\ncompatible_version_fw=[7.0.0,7.9.99]\n")
        self.file(f"{DRIVER}/lib64/driver/libascend_hal.so")
        self.file(f"{DRIVER}/lib64/common/libc_sec.so")
        self.file("/usr/local/Ascend/firmware/version.info", "Version=7.8.0.2.212\n")
        self.file("/etc/ascend_install.info", "Driver_Install_Type=full\n")
        (self.root / "usr/local/dcmi").mkdir(parents=True)
        self.npu_smi(smi_table(self.cards))

    def _toolkit(self) -> None:
        if self.where != CONTAINER:
            self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
            return
        release = self.root / "usr/local/Ascend/ascend-toolkit/8.3.RC1"
        self.file("/usr/local/Ascend/ascend-toolkit/8.3.RC1/lib64/libhccl.so")
        self.file(
            "/usr/local/Ascend/ascend-toolkit/8.3.RC1/aarch64-linux/ascend_toolkit_install.info",
            "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\narch=aarch64\n",
        )
        release.with_name("latest").symlink_to("8.3.RC1")
        self.env = {
            "PATH": "/usr/local/bin:/opt/venv/bin:/usr/bin:/bin",  # the last two: what scripts call
            "LD_LIBRARY_PATH": f"{TOOLKIT}/lib64:{DRIVER}/lib64/common:{DRIVER}/lib64/driver",
            "PYTHONPATH": "",
            "ASCEND_HOME_PATH": TOOLKIT,
        }

    def _python(self) -> None:
        if self.where != CONTAINER:
            return
        self.file(
            "/opt/venv/pyvenv.cfg", f"home = {Path(sys.base_prefix) / 'bin'}\ninclude-system-site-packages = false\n"
        )
        (self.root / "opt/venv/bin").mkdir(parents=True)
        (self.root / "opt/venv/bin/python3").symlink_to(Path(sys.executable).resolve())
        self.module("torch", MANIFEST["versions"]["torch"])
        self.torch_counts(self.cards)

    def torch_counts(self, count: int) -> None:
        """A torch_npu that registers itself and counts this many cards."""
        body = f"import torch, types\ntorch.npu = types.SimpleNamespace(device_count=lambda: {count})"
        self.module("torch_npu", MANIFEST["versions"]["torch_npu"], body)

    def import_fails(self, error: str) -> None:
        """A torch_npu whose import raises what the real one raises."""
        self.module("torch_npu", MANIFEST["versions"]["torch_npu"], f"raise ImportError({error!r})")

    # -- examination --

    def system(self) -> System:
        """The machine as the doctor sees it."""
        roomy = FsUsage(2000 * GIB, 1500 * GIB, 1_000_000, 900_000)
        default = {"/dev/shm": FsUsage(32 * GIB, 32 * GIB, 1000, 1000)} | self.usage

        def usage_of(path: Path) -> FsUsage:
            path.stat()  # raises like the real one
            return default.get("/" + str(path.relative_to(self.root)), roomy)

        return System(self.root, self.env, usage_of, lambda: self.now)

    def context(self) -> Context:
        """Everything a rule gets."""
        view = facts_view(json.loads(json.dumps(self.facts)))
        return Context(self.system(), view, self.where, self.recap, self.nodes, self.mirrors, self.lock)

    def _import_once(self, context: Context) -> None:
        """Put the known answer for these packages where Context keeps its own, or make it known."""
        packages = sorted((self.root / SITE.lstrip("/")).glob("torch*/__init__.py"))
        if self.where == CONTAINER:
            key = "".join(path.read_text(encoding="utf-8") for path in packages)
            context.__dict__["imported"] = _IMPORTED.get(key) or _IMPORTED.setdefault(key, context.imported)

    def examine(self, only: tuple[str, ...] = ()) -> Report:
        """Run the rules, all of them by default."""
        context = self.context()
        if not only:
            self._import_once(context)
        return run(context, select(all_rules(), only))

    def fired(self) -> dict[str, str]:
        """Rule -> worst severity, of all rules; a rule that broke is an error of the test."""
        report = self.examine()
        assert not report.broken, report.broken
        names: dict[str, str] = {}
        for finding in report.findings:  # worst first
            names.setdefault(finding.rule, finding.severity.name.lower())
        return names


Break = Callable[[Machine], None]
