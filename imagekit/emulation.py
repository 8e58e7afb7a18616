"""Let this machine run programs of another processor: qemu, registered with the kernel."""

import platform as host
import re
import shutil
from pathlib import Path

from imagekit import apt
from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.manifest import Platform, load_manifest
from imagekit.process import Say, run

BINFMT = Path("/proc/sys/fs/binfmt_misc")
# O: the kernel opens the program, C: with its credentials, F: the interpreter is loaded now, so that it is there inside
# containers and chroots. Debian 12's own registration points to a wrapper without F.
FLAGS = "OCF"
# The beginning of an ELF file of the machine and the bits of it that matter (qemu's scripts/qemu-binfmt-conf.sh).
ELF = {
    "aarch64": (
        r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
        r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
    ),
    "x86_64": (
        r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00",
        r"\xff\xff\xff\xff\xff\xfe\xfe\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
    ),
}


def ensure_emulation(platform: Platform, say: Say, *, engine: Engine | None = None) -> None:
    """Make sure that programs of `platform` can run; set emulation up when we are root on Debian or Ubuntu.

    Args:
        platform: of the programs.
        say: gets what is done.
        engine: the engine that will run them, which may be on another machine; None for this machine.

    Raises:
        Problem: they cannot run, and we may not change that.
    """
    if platform.machine == (engine.arch if engine else host.machine()):
        return
    if engine and _engine_emulates(platform, engine):
        return
    if engine and not engine.local:
        raise Problem(
            f"the engine at {engine.endpoint} cannot run {platform.name} programs: no emulation there",
            f"there: `docker run --privileged --rm tonistiigi/binfmt --install {platform.arch}`",
        )
    if is_registered(platform.machine):
        return
    system = apt.read_system()
    if not (system.root and system.has_apt):
        raise Problem(
            f"{platform.name} programs cannot run on this {host.machine()} machine: no emulation",
            "as root: install qemu-user-static and register it, or run "
            f"`docker run --privileged --rm tonistiigi/binfmt --install {platform.arch}`",
        )
    _set_up(platform, system, say)


def is_registered(machine: str) -> bool:
    """True when the kernel knows an enabled interpreter for `machine` that containers can use (flag F)."""
    magic = ELF[machine][0].replace(r"\x", "").replace("ELF", "454c46")
    for entry in BINFMT.iterdir() if BINFMT.is_dir() else ():
        if entry.name in ("register", "status"):
            continue
        lines = entry.read_text(encoding="utf-8").splitlines()
        flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
        if "enabled" in lines and "F" in flags and f"magic {magic}" in lines:
            return True
    return False


def _engine_emulates(platform: Platform, engine: Engine) -> bool:
    """BuildKit has tried: it lists what it can run. Right also where the kernel is not this machine's."""
    shown = run((*engine.docker, "buildx", "inspect"), seconds=15, env=engine.env)
    listed = re.search(r"(?m)^Platforms:(.*)$", shown.out)
    return bool(listed) and platform.name in re.split(r"[,\s]+", listed[1] if listed else "")


def _set_up(platform: Platform, system: apt.System, say: Say) -> None:
    say(f"{platform.name} needs emulation on this machine: installing qemu and registering it with the kernel.")
    interpreter = _find_qemu(platform.machine)
    if not interpreter:
        _install_qemu(system, say)
        interpreter = _find_qemu(platform.machine)
    if not interpreter:
        raise Problem(f"no qemu-{platform.machine} after installing it", "install qemu-user-static by hand")
    register(platform.machine, interpreter)


def _find_qemu(machine: str) -> str | None:
    return shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")


def _install_qemu(system: apt.System, say: Say) -> None:
    """Debian 13's qemu-user is static; on Debian 12 it comes from there, because 12's 7.2 is too old for this set."""
    if system.id == "debian" and system.version[:1] == (12,):
        manifest = load_manifest()
        apt.pin_suite(manifest.engine.debian_suite, ["qemu-user"], manifest.base.sim.archive)
    apt.install(["qemu-user-static" if system.id == "ubuntu" else "qemu-user"], say)


def register(machine: str, interpreter: str) -> None:
    """Tell the kernel that `interpreter` runs programs of `machine`.

    Raises:
        Problem: the kernel refuses (no binfmt_misc, or a container without the right to).
    """
    magic, mask = ELF[machine]
    try:
        if not (BINFMT / "register").exists():
            mounted = run(("mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)), seconds=10)
            if not mounted.ok:
                raise OSError(mounted.last_line)
        old = BINFMT / f"qemu-{machine}"
        if old.exists():  # without flag F, see above: replaced until the next boot
            old.write_text("-1", encoding="ascii")
        (BINFMT / "register").write_text(f":qemu-{machine}:M::{magic}:{mask}:{interpreter}:{FLAGS}", encoding="ascii")
    except OSError as error:
        raise Problem(f"the kernel takes no interpreter for {machine}: {error}", "is binfmt_misc available?") from None
