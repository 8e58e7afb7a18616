"""What rlinf-npu images carry beside RLinf: NPU fixes, the four-step runner, the doctor, the smoke test."""
