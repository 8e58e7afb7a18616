"""The four steps: what each reads, how it is started, what must be there afterwards."""

from rlinf_npu.recap.steps.advantages import AdvantagesStep
from rlinf_npu.recap.steps.base import Context, Step
from rlinf_npu.recap.steps.returns import ReturnsStep
from rlinf_npu.recap.steps.training import CfgRlStep, ValueSftStep

ALL_STEPS: dict[str, Step] = {
    step.name: step for step in (ReturnsStep(), ValueSftStep(), AdvantagesStep(), CfgRlStep())
}

__all__ = ["ALL_STEPS", "Context", "Step"]
