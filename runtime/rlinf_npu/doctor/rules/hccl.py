"""Collectives on one host: ports and interface. Facts: HCCL_IF_BASE_PORT in CANN's environment reference."""

import json
from collections.abc import Iterator

from rlinf_npu.doctor import nettables
from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import limits

_PORTS = "https://www.hiascend.com/document/detail/zh/canncommercial/83RC1/maintenref/envvar/envref_07_0074.html"
_BASE = "HCCL_IF_BASE_PORT"


def _base_port(ctx: Context) -> int | None:
    text = ctx.system.env.get(_BASE, "").strip()
    if not text:
        return limits().hccl_base_port
    return int(text) if text.isdigit() and limits().hccl_port_min <= int(text) <= limits().hccl_port_max else None


@rule(
    "hccl-port-value",
    "HCCL's base port",
    meaning="The base port is not a number that HCCL accepts.",
    fix=f"Set {_BASE} to a number within the limits, or unset it.",
    link=_PORTS,
)
def hccl_port_value(ctx: Context) -> Iterator[Hit]:
    """The variable's value."""
    if _base_port(ctx) is None:
        yield Hit(f"{_BASE}={ctx.system.env[_BASE]!r}, accepted: {limits().hccl_port_min} to {limits().hccl_port_max}")


@rule(
    "hccl-port-taken",
    "HCCL's ports are free",
    meaning="A port that HCCL will open on the host's network is in use: EJ0003 or EI0019.",
    fix=f"End the other job, or give each job its own range: {_BASE} (compose.yaml derives one from the "
    "project's name).",
    link="https://github.com/vllm-project/vllm-ascend/issues/405",
)
def hccl_port_taken(ctx: Context) -> Iterator[Hit]:
    """Listening sockets in the range HCCL takes."""
    base = _base_port(ctx)
    if base is None:
        return
    taken = sorted(nettables.listening_ports(ctx.system) & set(range(base, base + limits().hccl_ports)))
    if taken:
        yield Hit(f"in use: {', '.join(map(str, taken))}; HCCL takes {base} to {base + limits().hccl_ports - 1}")


@rule(
    "hccl-interface",
    "HCCL's interface",
    meaning="HCCL_SOCKET_IFNAME selects no interface that is up: ranks cannot find each other (EI0015).",
    fix="Name an interface of this host (ip -brief link). Forms: eth, =eth0, ^docker, ^=docker0.",
    link="https://www.hiascend.com/document/detail/en/canncommercial/850/commlib/hcclug/hcclug_000037.html",
)
def hccl_interface(ctx: Context) -> Iterator[Hit]:
    """The variable against /sys/class/net."""
    pattern = ctx.system.env.get("HCCL_SOCKET_IFNAME", "")
    found = nettables.interfaces(ctx.system)
    if pattern and not any(up and nettables.selects(pattern, name) for name, up in found.items()):
        listed = ", ".join(f"{name} ({'up' if up else 'down'})" for name, up in found.items()) or "none"
        yield Hit(f"HCCL_SOCKET_IFNAME={pattern}; interfaces: {listed}")


@rule(
    "rank-table",
    "Rank table",
    meaning="RANK_TABLE_FILE points to a file that HCCL cannot use (EI0004, EI0014).",
    fix="Correct the file, or unset RANK_TABLE_FILE: torch_npu needs none.",
    link="https://github.com/gpustack/runtime/pull/27",
)
def rank_table(ctx: Context) -> Iterator[Hit]:
    """Exists and is JSON."""
    path = ctx.system.env.get("RANK_TABLE_FILE", "")
    if not path:
        return
    text = ctx.system.read(path)
    if text is None:
        yield Hit(f"RANK_TABLE_FILE={path} cannot be read")
        return
    try:
        json.loads(text)
    except ValueError as error:
        yield Hit(f"RANK_TABLE_FILE={path} is not JSON: {error}")


@rule(
    "hccl-timeout",
    "HCCL's time to connect",
    severity=Severity.WARNING,
    meaning="The time limit is not a number that HCCL accepts, or shorter than its default; a slow rank then "
    "ends the job (EI0006).",
    fix="Set HCCL_CONNECT_TIMEOUT to seconds between 120 and 7200.",
    link="https://www.hiascend.com/document/detail/en/canncommercial/850/commlib/hcclug/hcclug_000050.html",
)
def hccl_timeout(ctx: Context) -> Iterator[Hit]:
    """The variable's value."""
    text = ctx.system.env.get("HCCL_CONNECT_TIMEOUT", "").strip()
    if text and not (text.isdigit() and 120 <= int(text) <= 7200):
        yield Hit(f"HCCL_CONNECT_TIMEOUT={text!r}")
