"""From a line in a log to the fix."""

import pytest
from rlinf_npu.npufix.symptoms import advice, fixes_for

LOGS = {
    "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'": "worker-set-device",
    "RuntimeError: Found no NVIDIA driver on your system.": "worker-set-device",
    "3 advantages: rank 0 allocated nothing on its NPU: step 3 ran on the CPU": "cuda-availability",
    "AssertionError: Torch not compiled with CUDA enabled": "cuda-device-call",
    "RuntimeError: Distributed package doesn't have NCCL built in": "dist-backend-config",
    "RuntimeError: Could not load libtorchcodec. Likely causes:": "lerobot-video-backend",
    "OSError: libnvrtc.so.13: cannot open shared object file": "lerobot-video-backend",
    'File "/x/tensorflow/python/platform/self_check.py", line 3': "tensorflow-import",
    "UserWarning: User provided device_type of 'cuda', but CUDA is not available. Disabling": "autocast-device",
    "FileNotFoundError: Advantage file not found: /d/advantages_/d/meta/advantages.parquet.parquet": "advantage-tag",
    "FileNotFoundError: /d/meta/advantages_d/meta/advantages.parquet.parquet": "advantage-tag-config",
}


@pytest.mark.parametrize("line", LOGS)
def test_known_symptoms(line: str) -> None:
    text = f"step 2 started\n{line}\nstopped"
    assert LOGS[line] in {fix.id for fix in fixes_for(text)}
    assert LOGS[line] in advice(text)


def test_one_process_is_a_symptom_only_with_several_cards() -> None:
    text = "==\n  GPUs: 1\n  Config: x\n"
    assert fixes_for(text) == []
    assert fixes_for(text, cards=1) == []
    assert [fix.id for fix in fixes_for(text, cards=8)] == ["script-device-count"]
    assert fixes_for("  GPUs: 16\n", cards=16) == []


@pytest.mark.parametrize("text", ["", "all fine", "Advantage file not found: /d/meta/advantages_b.parquet"])
def test_other_texts(text: str) -> None:
    assert advice(text) == ""
