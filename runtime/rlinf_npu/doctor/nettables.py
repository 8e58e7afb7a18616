"""Listening ports and interfaces, from /proc/net and /sys/class/net."""

from rlinf_npu.doctor.system import System

_LISTEN = "0A"


def listening_ports(system: System) -> set[int]:
    """TCP ports (IPv4 and IPv6) somebody listens on in this network namespace."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (system.read(table) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _LISTEN:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def interfaces(system: System) -> dict[str, bool]:
    """Network interfaces without the loopback, and whether each is up; virtual ones often say `unknown`."""
    names = (path.rpartition("/")[2] for path in system.glob("/sys/class/net/*"))
    states = {name: (system.read(f"/sys/class/net/{name}/operstate") or "").strip() for name in names if name != "lo"}
    return {name: state in ("up", "unknown") for name, state in states.items()}


def selects(pattern: str, name: str) -> bool:
    """Whether HCCL_SOCKET_IFNAME selects an interface: prefixes; `=` exact names, `^` all but these."""
    negate = pattern.startswith("^")
    rest = pattern.removeprefix("^")
    exact = rest.startswith("=")
    wanted = [item for item in rest.removeprefix("=").split(",") if item]
    hit = any(name == item if exact else name.startswith(item) for item in wanted)
    return hit != negate
