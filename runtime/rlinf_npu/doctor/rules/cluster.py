"""Jobs over several hosts: the cards' own network."""

import re
from collections.abc import Iterator

from rlinf_npu.doctor import nettables
from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import limits

_CONF = "/etc/hccn.conf"
_SOURCE = "https://github.com/gpustack/runtime/pull/28"


def _addresses(ctx: Context) -> dict[int, str]:
    text = ctx.system.read(_CONF) or ""
    return {int(match[1]): match[2] for match in re.finditer(r"^address_(\d+)=(\S+)", text, re.MULTILINE)}


@rule(
    "hccn-conf",
    "Addresses of the cards",
    needs=("several-hosts", "cards"),
    meaning="Cards talk to other hosts through network ports of their own; without an address they cannot.",
    fix="Configure the ports on the host (hccn_tool -i <n> -ip -s address ... netmask ...) and mount "
    "/etc/hccn.conf and hccn_tool.",
    link=_SOURCE,
)
def hccn_conf(ctx: Context) -> Iterator[Hit]:
    """/etc/hccn.conf exists and has an address for every card here."""
    if not ctx.system.exists(_CONF):
        yield Hit(f"{_CONF} does not exist")
        return
    missing = [number for number in ctx.cards if number not in _addresses(ctx)]
    if missing:
        yield Hit(f"{_CONF} has no address_<n> for {missing}")


@rule(
    "hccn-address",
    "Addresses in file and card agree",
    needs=("several-hosts", "cards"),
    meaning="A card's real address is not the one in /etc/hccn.conf (EJ0004, EI0014).",
    fix="Set the address again on the host, or correct the file.",
    link="https://www.hiascend.com/document/detail/en/canncommercial/800/hcclug/hcclug/hcclug_000042.html",
)
def hccn_address(ctx: Context) -> Iterator[Hit]:
    """hccn_tool against the file, card by card."""
    places = ("hccn_tool", f"{ctx.facts.devices.driver}/tools/hccn_tool")
    tool = next((place for place in places if ctx.system.which(place)), None)
    if tool is None:
        return
    for number, address in _addresses(ctx).items():
        if number not in ctx.cards:
            continue
        answer = ctx.system.run(tool, "-i", str(number), "-ip", "-g", seconds=limits().command_seconds)
        match = re.search(r"ipaddr:\s*(\S+)", answer.out)
        if match and match[1] != address:
            yield Hit(f"card {number}: {_CONF} {address}, hccn_tool {match[1]}")


@rule(
    "interface-chosen",
    "Interface between hosts",
    needs=("several-hosts",),
    severity=Severity.WARNING,
    meaning="HCCL takes the first interface by name when none is chosen; with several that may be one the other "
    "hosts cannot reach.",
    fix="Set HCCL_SOCKET_IFNAME to the interface that connects the hosts.",
    link="https://www.hiascend.com/document/detail/en/canncommercial/850/commlib/hcclug/hcclug_000037.html",
)
def interface_chosen(ctx: Context) -> Iterator[Hit]:
    """Several interfaces up, none chosen."""
    up = [name for name, state in nettables.interfaces(ctx.system).items() if state]
    if len(up) > 1 and not ctx.system.env.get("HCCL_SOCKET_IFNAME") and not ctx.system.env.get("HCCL_IF_IP"):
        yield Hit(f"interfaces: {', '.join(up)}; HCCL would take {min(up)}")
