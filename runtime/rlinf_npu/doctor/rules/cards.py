"""The cards themselves, as npu-smi sees them."""

import re
from collections.abc import Iterator

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import codes, limits

_DCMI = "https://www.hiascend.com/document/detail/zh/Atlas%20200I%20A2/253RC1/re/api/api_177.html"
_BUSY_CODES = {"-8005", "-8020"}


@rule(
    "npu-smi-fails",
    "npu-smi",
    needs=("driver",),
    meaning="npu-smi is here but does not answer: the driver cannot reach the cards.",
    fix="See the message and dmesg on the host; explain a code with `doctor explain`.",
    link=_DCMI,
)
def npu_smi_fails(ctx: Context) -> Iterator[Hit]:
    """Exit code, silence, or an error of DCMI other than 'in use'."""
    if ctx.system.which("npu-smi") is None:
        return
    run = ctx.smi_run
    if run.code is None:
        yield Hit(run.error)
    elif run.code and not _BUSY_CODES & set(ctx.smi.errors if ctx.smi else []):
        first = next((line.strip() for line in (run.err + run.out).splitlines() if line.strip()), "no output")
        yield Hit(f"npu-smi info: exit {run.code}: {first}")


@rule(
    "chip-mismatch",
    "Chip of the cards and of the image",
    needs=("npu-smi",),
    meaning="The image is built for another chip: operators for this card are not inside.",
    fix="Use the image for this chip; the chip stands in the tag after the CANN release.",
    link="https://github.com/vllm-project/vllm-ascend/issues/5599",
)
def chip_mismatch(ctx: Context) -> Iterator[Hit]:
    """npu-smi's names against the image's chip tag."""
    entry = next((chip for chip in ctx.facts.chip if chip.tag == ctx.facts.versions.chip), None)
    names = sorted({chip.name for chip in ctx.smi.chips}) if ctx.smi else []
    wrong = [name for name in names if entry and not re.match(entry.names, name)]
    if wrong:
        fitting = next((chip.tag for chip in ctx.facts.chip if re.match(chip.names, wrong[0])), "unknown")
        yield Hit(f"npu-smi info: {', '.join(wrong)} (chip tag {fitting}); image: {ctx.facts.versions.chip}")


@rule(
    "card-health",
    "Health of the cards",
    needs=("npu-smi",),
    meaning="A card reports a fault.",
    fix="npu-smi info -t health -i <number> names it; take the card out of the list until it is cured.",
    link=_DCMI,
)
def card_health(ctx: Context) -> Iterator[Hit]:
    """The Health column; Warning is a warning."""
    for chip in ctx.smi.chips if ctx.smi else []:
        if chip.health != "OK":
            mild = Severity.WARNING if chip.health.lower() == "warning" else None
            yield Hit(f"NPU {chip.npu} ({chip.name}): health {chip.health}", severity=mild)


@rule(
    "card-held",
    "Cards are free",
    needs=("npu-smi-output",),
    meaning="A card is held by another process or container.",
    fix="End that process (on the host: npu-smi info shows its number), or choose other cards (NPUS=).",
    link="https://github.com/vllm-project/vllm-ascend/issues/2698",
)
def card_held(ctx: Context) -> Iterator[Hit]:
    """DCMI errors that stand for 'in use' are errors; processes on a card are a warning, they may be yours."""
    if ctx.smi is None:
        return
    nodes = [ctx.system.stat(path) for path in ctx.cards.values()]
    usable = all(status is not None and ctx.identity.may(status) for status in nodes)
    # DCMI gives the same code when there is no node or no right to it; other rules tell that better.
    for code in sorted(_BUSY_CODES & set(ctx.smi.errors)) if nodes and usable else ():
        yield Hit(f"npu-smi info: {code} ({codes()[code].name})", kind=code)
    for process in ctx.smi.processes:
        yield Hit(
            f"NPU {process.npu}: process {process.pid} ({process.name}), {process.memory} MB", severity=Severity.WARNING
        )


@rule(
    "hbm-used",
    "Free memory of the cards",
    needs=("npu-smi",),
    severity=Severity.WARNING,
    meaning="Memory of a card is in use although no process is listed: another container's, or one left by a "
    "process that died.",
    fix="Stop the other container; for leftovers end the zombie's parent, at last reset the card (npu-smi "
    "set -t reset).",
    link="https://github.com/vllm-project/vllm-ascend/issues/9888",
)
def hbm_used(ctx: Context) -> Iterator[Hit]:
    """HBM in use above the idle level on cards without a process."""
    if ctx.smi is None:
        return
    busy = {process.npu for process in ctx.smi.processes}
    for chip in ctx.smi.chips:
        if chip.npu not in busy and chip.hbm_used * 100 > chip.hbm_total * limits().hbm_used_percent:
            yield Hit(f"NPU {chip.npu}: {chip.hbm_used} of {chip.hbm_total} MB in use, no process listed")
