"""torch, torch_npu and CANN belong together, and can be imported."""

from collections.abc import Iterator

from rlinf_npu.doctor import versions
from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import signatures

_PAIRS = "https://www.hiascend.com/document/detail/zh/Pytorch/720/releasenote/releasenote_0003.html"
_OWN_KINDS = {
    "timeout": "The import did not finish: a hung driver, or a machine that is far too slow.",
    "crash": "The process died while importing, without a message.",
    "not-run": "Python could not be started.",
    "other": "The import failed for a reason that is not in our table.",
}


@rule(
    "versions",
    "torch, torch_npu and CANN",
    where=CONTAINER,
    needs=("python-packages",),
    meaning="torch and torch_npu are not a pair, or not for this CANN release.",
    fix="Install the pair that the table lists for this CANN; a later pip install has probably moved one of them.",
    link=_PAIRS,
)
def versions_triple(ctx: Context) -> Iterator[Hit]:
    """Package metadata against the compatibility table; nothing is imported."""
    torch, torch_npu = (versions.public(ctx.distributions.get(name, "")) for name in ("torch", "torch_npu"))
    absent = [name for name, version in (("torch", torch), ("torch_npu", torch_npu)) if not version]
    if absent:
        yield Hit(f"not installed: {', '.join(absent)}", link="https://github.com/vllm-project/vllm-ascend/issues/185")
        return
    evidence = f"torch {torch}, torch_npu {torch_npu}, CANN {ctx.cann}"
    if torch_npu.partition(".post")[0] != torch:
        yield Hit(f"{evidence}: torch_npu {torch_npu} is built for torch {torch_npu.partition('.post')[0]}")
    elif ctx.cann_row and ctx.cann_row.torch_npu and torch_npu not in ctx.cann_row.torch_npu.get(torch, []):
        listed = ", ".join(name for names in ctx.cann_row.torch_npu.values() for name in names)
        yield Hit(f"{evidence}: for this CANN the vendor lists torch_npu {listed}", severity=Severity.WARNING)


@rule(
    "versions-changed",
    "Packages are the image's",
    where=CONTAINER,
    needs=("python-packages",),
    severity=Severity.WARNING,
    meaning="A package of the image was replaced after it was built; what was tested is not what runs.",
    fix="Start a fresh container; put additions into an image of your own, resolved together with the lock.",
    link="https://github.com/verl-project/verl/pull/4143",
)
def versions_changed(ctx: Context) -> Iterator[Hit]:
    """Installed torch and torch_npu, and the toolkit, against facts.json."""
    wanted = {"torch": ctx.facts.versions.torch, "torch_npu": ctx.facts.versions.torch_npu}
    for name, version in wanted.items():
        found = versions.public(ctx.distributions.get(name, ""))
        if found and found != version:
            yield Hit(f"{name}: {found} installed, {version} built")
    if ctx.cann.lower() != ctx.facts.versions.cann.lower():
        yield Hit(f"CANN: {ctx.cann} installed, {ctx.facts.versions.cann} built")


@rule(
    "excluded-package",
    "Packages left out on purpose",
    where=CONTAINER,
    needs=("python-packages",),
    severity=Severity.WARNING,
    meaning="A package is installed that the image leaves out on purpose: it breaks torch_npu or is for CUDA only.",
    fix="Uninstall it; find out which pip install brought it.",
    link="https://github.com/RLinf/RLinf",
)
def excluded_package(ctx: Context) -> Iterator[Hit]:
    """Installed packages against python.excluded in facts.json."""
    unwanted = {name.lower().replace("-", "_"): name for name in ctx.facts.python.excluded}
    found = [f"{unwanted[name]} {version}" for name, version in ctx.distributions.items() if name in unwanted]
    if found:
        yield Hit(", ".join(sorted(found)))


@rule(
    "import",
    "import torch_npu",
    where=CONTAINER,
    imports=True,
    needs=("toolkit", "python-packages"),
    meaning="torch_npu cannot be imported.",
    fix="Read the error; run the same import by hand: python3 -c 'import torch_npu'.",
    link="https://github.com/vllm-project/vllm-ascend/issues/1440",
)
def import_fails(ctx: Context) -> Iterator[Hit]:
    """The import in a child process, its failure classified."""
    result = ctx.imported
    if result.kind == "ok":
        return
    known = next((signature for signature in signatures() if signature.id == result.kind), None)
    if known is None:
        yield Hit(result.evidence, meaning=_OWN_KINDS.get(result.kind), kind=result.kind)
    else:
        yield Hit(result.evidence, meaning=known.meaning, fix=known.fix, link=known.link, kind=known.id)


@rule(
    "torch-count",
    "torch counts the cards",
    where=CONTAINER,
    imports=True,
    needs=("toolkit", "cards", "python-packages"),
    meaning="torch.npu sees fewer cards than there are nodes, or than the visibility variable names.",
    fix="Look at the findings on driver, rights and visibility variables first; otherwise the card did not "
    "start (npu-smi info).",
    link="https://github.com/vllm-project/vllm-ascend/issues/14628",
)
def torch_count(ctx: Context) -> Iterator[Hit]:
    """torch.npu.device_count() after a good import."""
    if ctx.imported.kind != "ok":
        return
    value = ctx.visible("ASCEND_RT_VISIBLE_DEVICES")
    asked = len(value.ids) if value else len(ctx.cards)
    if ctx.imported.count < asked:
        yield Hit(f"torch.npu.device_count() = {ctx.imported.count}, expected {asked}")
