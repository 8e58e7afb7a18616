"""Let this machine run programs of another processor: qemu, registered with the kernel."""

import platform as host
import re
import shutil
import tempfile
from pathlib import Path

from imagekit import apt
from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.manifest import Platform, load_manifest
from imagekit.process import Say, run, version_tuple

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


def ensure_emulation(platform: Platform, say: Say, *, engine: Engine | None = None, mirror: str = "") -> None:
    """Make sure that programs of `platform` can run; set emulation up when we are root on Debian or Ubuntu.

    Args:
        platform: of the programs.
        say: gets what is done.
        engine: the engine that will run them, which may be on another machine; None for this machine.
        mirror: root URL of a mirror of Debian's archive, empty for none.

    Raises:
        Problem: they cannot run, or on a qemu that is too old for them, and we may not or cannot change that.
    """
    if platform.machine == (engine.arch if engine else host.machine()):
        return
    emulated = engine is not None and _engine_emulates(platform, engine)
    if engine and not engine.local:
        if emulated:
            return
        raise Problem(
            f"the engine at {engine.endpoint} cannot run {platform.name} programs: no emulation there",
            f"there: {_by_hand(platform)}",
        )
    oldest = load_manifest().engine.min_qemu
    there = emulated or is_registered(platform.machine)
    found = registered_version(platform.machine) if there else ""
    if there and not is_older(found, oldest):
        return
    system = apt.read_system()
    if not (system.root and system.has_apt):
        if there:
            raise _too_old(platform, found, oldest)
        raise Problem(
            f"{platform.name} programs cannot run on this {host.machine()} machine: no emulation",
            f"as root: install qemu-user-static, {oldest} or newer, and register it, or run {_by_hand(platform)}",
        )
    _set_up(platform, system, found, oldest, mirror, say)


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


def registered_version(machine: str) -> str:
    """Return the version of the qemu that the kernel starts for `machine`, empty when it does not say.

    The kernel holds the file open, so its path tells nothing: tonistiigi/binfmt registers one out of an image, under
    the name of the distribution's. So it is started, on a file of which only the beginning is there, and asked.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        program.write_bytes(_program(machine))
        program.chmod(0o755)
        return _version(run((str(program),), seconds=10, env={"QEMU_VERSION": "1"}).out)


def is_older(version: str, oldest: str) -> bool:
    """True when `version` is known and below `oldest`."""
    return bool(version) and version_tuple(version) < version_tuple(oldest)


def _program(machine: str) -> bytes:
    return ELF[machine][0].encode("ascii").decode("unicode_escape").encode("latin-1")


def _version(shown: str) -> str:
    found = re.search(r"^qemu-\S+ version (\d[\d.]*)", shown, re.MULTILINE)
    return found[1] if found else ""


def _by_hand(platform: Platform) -> str:
    return f"`docker run --privileged --rm tonistiigi/binfmt --install {platform.arch}` (Docker Hub, or a mirror of it)"


def _too_old(platform: Platform, version: str, oldest: str) -> Problem:
    """The kernel keeps what is registered under a name, so that goes first; without one it does no harm."""
    remove = f"`docker run --privileged --rm tonistiigi/binfmt --uninstall qemu-{platform.machine}`"
    return Problem(
        f"qemu {version} is too old to run {platform.name} programs: it crashes far into a build, "
        f"{oldest} or newer is needed",
        f"{remove}, then {_by_hand(platform)}",
    )


def _set_up(platform: Platform, system: apt.System, registered: str, oldest: str, mirror: str, say: Say) -> None:
    """Register a qemu that is new enough, installing it where the distribution has one."""
    say(f"{platform.name} needs emulation on this machine: installing qemu and registering it with the kernel.")
    if registered:
        say(f"The qemu that is registered is {registered}; {oldest} or newer is needed.")
    interpreter, version = _find_qemu(platform.machine, oldest)
    if not interpreter:
        offered = _offered(system)
        if is_older(offered, oldest):
            raise _too_old(platform, offered, oldest)
        _install_qemu(system, mirror, say)
        interpreter, version = _find_qemu(platform.machine, oldest)
    if not interpreter:
        if version:
            raise _too_old(platform, version, oldest)
        raise Problem(f"no qemu-{platform.machine} after installing it", "install qemu-user-static by hand")
    register(platform.machine, interpreter)


def _find_qemu(machine: str, oldest: str) -> tuple[str, str]:
    """Return path and version of one that is new enough; without a path the version of one that is not."""
    version = ""
    for name in (f"qemu-{machine}-static", f"qemu-{machine}"):
        if path := shutil.which(name):
            version = _version(run((path, "--version"), seconds=10).out)
            if not is_older(version, oldest):
                return path, version
    return "", version


def _package(system: apt.System) -> str:
    """Debian 13's qemu-user is static."""
    return "qemu-user-static" if system.id == "ubuntu" else "qemu-user"


def _offered(system: apt.System) -> str:
    """What the machine's own sources offer, as far as apt knows without asking them: nothing is installed in vain."""
    return "" if system.takes_from_newer else apt.candidate(_package(system))


def _install_qemu(system: apt.System, mirror: str, say: Say) -> None:
    packages = [_package(system)]
    if system.takes_from_newer:
        # Debian 12's other packages of qemu, where they are here, would have to be removed: they come along
        packages += [name for name in ("qemu-user-static", "qemu-user-binfmt") if apt.is_installed(name)]
        manifest = load_manifest()
        apt.pin_suite(manifest.engine.debian_suite, packages, manifest.base.sim.archive, mirror)
    apt.install(packages, say)


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
