"""The visibility variables. Facts: CANN's environment reference, ASCEND_RT_VISIBLE_DEVICES."""

from collections.abc import Iterator

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.visible import CONTAINER_VARIABLE, RUNTIME_VARIABLE

_REFERENCE = (
    "https://www.hiascend.com/document/detail/zh/CANNCommunityEdition/83RC1/maintenref/envvar/envref_07_0028.html"
)
_VARIABLES = (RUNTIME_VARIABLE, CONTAINER_VARIABLE)


@rule(
    "visible-one",
    "Both visibility variables",
    where=CONTAINER,
    needs=("cards",),
    severity=Severity.WARNING,
    meaning="Only one of the two is set: CANN then opens a card that is not this container's (507033) as soon as "
    "it is not card 0.",
    fix=f"Set both {CONTAINER_VARIABLE} and {RUNTIME_VARIABLE}, or neither (compose.yaml sets both).",
    link="https://github.com/Project-HAMi/HAMi/issues/1894",
)
def visible_one(ctx: Context) -> Iterator[Hit]:
    """One set, the other not, unless the cards start at 0 without a gap."""
    is_set = [name for name in _VARIABLES if name in ctx.system.env]
    plain = list(ctx.cards) == list(range(len(ctx.cards)))
    if len(is_set) == 1 and not plain:
        yield Hit(f"{is_set[0]}={ctx.system.env[is_set[0]]}, the other is not set; nodes: {_nodes(ctx)}")


@rule(
    "visible-garbage",
    "Visibility variables are numbers",
    meaning="Reading stops at the first character that is not a digit or comma (a blank counts), so fewer cards "
    "are used than asked for.",
    fix="Write plain numbers separated by commas without blanks: 0,1,2,3.",
    link=_REFERENCE,
)
def visible_garbage(ctx: Context) -> Iterator[Hit]:
    """Items that are not numbers; an empty value hides all cards, which is right where there are none."""
    for name in _VARIABLES:
        value = ctx.visible(name)
        if value and value.garbage and (value.text or ctx.cards):
            wrong = ", ".join(repr(item) for item in value.garbage)
            yield Hit(f"{name}={value.text!r}: {wrong}")


@rule(
    "visible-duplicates",
    "Visibility variables name a card once",
    meaning="A card is named twice; two ranks would share it.",
    fix="Name each card once.",
    link=_REFERENCE,
)
def visible_duplicates(ctx: Context) -> Iterator[Hit]:
    """Repeated numbers."""
    for name in _VARIABLES:
        value = ctx.visible(name)
        if value and value.duplicates:
            yield Hit(f"{name}={value.text}: {value.duplicates}")


@rule(
    "visible-order",
    "Visibility variable ascends",
    meaning="CANN supports ascending numbers only.",
    fix="Sort the numbers.",
    link=_REFERENCE,
)
def visible_order(ctx: Context) -> Iterator[Hit]:
    """Order of the variable that CANN itself reads."""
    value = ctx.visible(RUNTIME_VARIABLE)
    if value and not value.garbage and not value.duplicates and not value.ascending:
        yield Hit(f"{RUNTIME_VARIABLE}={value.text}")


@rule(
    "visible-range",
    "Visibility variables name existing cards",
    needs=("cards",),
    meaning="A card is named that does not exist here; CANN reads only what stands before it, or fails with "
    "107001 or 507033.",
    fix=f"{CONTAINER_VARIABLE}: numbers of the host's nodes; {RUNTIME_VARIABLE}: 0 to number of cards - 1.",
    link="https://github.com/gpustack/gpustack/issues/3352",
)
def visible_range(ctx: Context) -> Iterator[Hit]:
    """Numbers with neither a node of that number nor a card at that place."""
    for name in _VARIABLES:
        value = ctx.visible(name)
        places = set(range(len(ctx.cards))) if name == RUNTIME_VARIABLE else set()
        wrong = [number for number in (value.ids if value else []) if number not in places | set(ctx.cards)]
        if value and wrong:
            yield Hit(f"{name}={value.text}: {wrong}; nodes: {_nodes(ctx)}")


@rule(
    "visible-host-ids",
    "Host numbers inside a container",
    where=CONTAINER,
    imports=True,
    needs=("cards", "toolkit"),
    meaning="The numbers are those of the host's nodes, and torch sees fewer cards than asked for: here they "
    "count from 0.",
    fix=f"Set {RUNTIME_VARIABLE} to 0,1,... for the cards of this container.",
    link="https://github.com/gpustack/gpustack/issues/3352",
)
def visible_host_ids(ctx: Context) -> Iterator[Hit]:
    """Valid node numbers beyond the count, where the import proves that they do not work."""
    value = ctx.visible(RUNTIME_VARIABLE)
    if not value or value.garbage or not all(number in ctx.cards for number in value.ids):
        return
    beyond = [number for number in value.ids if number >= len(ctx.cards)]
    if beyond and ctx.imported.kind == "ok" and ctx.imported.count < len(value.ids):
        yield Hit(
            f"{RUNTIME_VARIABLE}={value.text}, {len(ctx.cards)} nodes ({_nodes(ctx)}), torch.npu counts "
            f"{ctx.imported.count}"
        )


def _nodes(ctx: Context) -> str:
    return ",".join(map(str, ctx.cards)) or "none"
