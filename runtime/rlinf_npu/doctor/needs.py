"""What a rule may need; when it is not there the rule is skipped, with the reason."""

from collections.abc import Callable

from rlinf_npu.doctor.context import Context

Need = Callable[[Context], bool]


def _driver(ctx: Context) -> bool:
    return ctx.system.is_dir(ctx.facts.devices.driver)


NEEDS: dict[str, tuple[str, Need]] = {
    "cards": ("no card node (see no-cards)", lambda ctx: bool(ctx.cards)),
    "driver": ("no driver folder (see driver-missing)", _driver),
    "npu-smi": ("npu-smi gave no table", lambda ctx: ctx.smi is not None and bool(ctx.smi.chips)),
    "npu-smi-output": ("npu-smi is missing or silent", lambda ctx: ctx.smi is not None),
    "toolkit": (
        "no CANN toolkit here",
        lambda ctx: bool(ctx.toolkit) and ctx.system.is_dir(ctx.toolkit),
    ),
    "python-packages": ("no Python packages found", lambda ctx: bool(ctx.distributions)),
    "engine-facts": ("facts.json has no [engine]", lambda ctx: ctx.facts.engine is not None),
    "docker": ("no docker command", lambda ctx: ctx.system.which("docker") is not None),
    "mirrors": ("no mirror given", lambda ctx: bool(ctx.facts.mirrors or ctx.extra_mirrors)),
    "lock": ("no images.lock here (--lock)", lambda ctx: ctx.lock_file is not None),
    "several-hosts": ("one host only", lambda ctx: ctx.multi_node),
    "recap": (
        "no recap.yaml given (--recap), or no recap command",
        lambda ctx: ctx.recap_file is not None and ctx.system.which("recap") is not None,
    ),
}


def missing(ctx: Context, names: tuple[str, ...]) -> str | None:
    """Why a rule with these needs cannot be checked here, or None."""
    for name in names:
        reason, there = NEEDS[name]
        if not there(ctx):
            return reason
    return None
