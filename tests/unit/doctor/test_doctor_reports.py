"""Public reports that ask for a rule: each has one, it links the report, and a broken machine makes it fire."""

from pathlib import Path

import pytest
import test_doctor_container_faults as container_faults
import test_doctor_host_faults as host_faults
from rlinf_npu.doctor.registry import all_rules

# report -> rules that name its cause
REPORTS = {
    "vllm-project/vllm-ascend/issues/1440": ["driver-missing", "mount-missing", "manager-missing", "libpath-driver"],
    "vllm-project/vllm-ascend/issues/2698": ["card-held"],
    "Ascend/ascend-device-plugin/issues/139": ["node-access"],
    "vllm-project/vllm-ascend/issues/9490": ["passwd-entry"],
    "Project-HAMi/HAMi/issues/1894": ["visible-one"],
    "gpustack/gpustack/issues/3352": ["visible-range", "visible-host-ids"],
    "vllm-project/vllm-ascend/issues/14628": ["no-cards", "node-count", "torch-count"],
    "vllm-project/vllm-ascend/issues/5599": ["chip-mismatch"],
    "vllm-project/vllm-ascend/issues/5468": ["driver-version"],
    "vllm-project/vllm-ascend/issues/9141": ["libpath-toolkit"],
    "vllm-project/vllm-ascend/issues/661": ["libpath-shadowed"],
    "verl-project/verl/issues/4137": ["disk-docker"],
    "vllm-project/vllm-ascend/issues/8151": ["mirror"],
    "vllm-project/vllm-ascend/issues/1001": ["release-digest"],
    "vllm-project/vllm-ascend/issues/405": ["hccl-port-taken"],
    "gpustack/gpustack/issues/5014": ["shm-small"],
    "vllm-project/vllm-ascend/issues/9888": ["pid1", "zombies", "hbm-used"],
}
# Rules whose faults are not in a table of cases but have a test of their own.
ELSEWHERE = {
    "visible-host-ids": container_faults.test_host_numbers_that_do_not_work,
    "mirror": host_faults.test_mirrors,
}


def _fired_by_cases() -> set[str]:
    tables = (container_faults.CASES, host_faults.CASES, host_faults.IMAGES)
    return {rule for table in tables for _, expected in table.values() for rule in expected}


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_has_its_rules(report: str) -> None:
    rules = {rule.id: rule for rule in all_rules()}
    for name in REPORTS[report]:
        assert rules[name].link == f"https://github.com/{report}", name
        assert name in _fired_by_cases() | ELSEWHERE.keys(), f"no broken machine makes {name} fire"


def test_every_rule_is_made_to_fire_somewhere() -> None:
    """By a case, or by name in the assertions of another test."""
    files = ("container_faults", "host_faults")
    text = "".join((Path(__file__).parent / f"test_doctor_{file}.py").read_text("utf-8") for file in files)
    assert [rule.id for rule in all_rules() if f'"{rule.id}"' not in text] == []
