"""The documented symptoms: what an image without the NPU fixes shows, and what ours shows in its place."""

from dataclasses import dataclass

EXAMPLES = "/opt/rlinf/examples/offline_rl"


@dataclass(frozen=True)
class Symptom:
    """One of them.

    Attributes:
        name: of the function in probes/symptoms.py that provokes it.
        title: for people.
        fixes: ids of npufix that cure it.
        before: pattern of what the unfixed image shows.
        after: pattern of what ours shows.
        needs: path without which this source of RLinf does not have the place.
    """

    name: str
    title: str
    fixes: tuple[str, ...]
    before: str
    after: str
    needs: str = "/opt/rlinf/rlinf"


SYMPTOMS = [
    Symptom(
        "worker_set_device",
        "A training worker starts",
        ("worker-set-device",),
        # The first two texts are those of CPU builds of torch (aarch64, the CPU index), the others those of PyPI's
        # x86-64 build with CUDA stand-ins.
        r"has no attribute '_cuda_setDevice'|not compiled with CUDA|no NVIDIA driver|Cannot initialize CUDA",
        r"the worker starts",
    ),
    Symptom(
        "silent_cpu",
        "Step 3 as one process: the device it runs on",
        ("cuda-availability", "cuda-device-literal"),
        r"device cpu",
        r"device npu",
        "/opt/rlinf/rlinf/data/process/distributed.py",
    ),
    Symptom(
        "nccl",
        "Step 3 as two processes",
        ("dist-backend-config", "dist-backend-default"),
        r"NCCL built in|ProcessGroupNCCL is only supported with GPUs|NCCL",
        r"backend hccl sum 2 device npu",
        "/opt/rlinf/rlinf/data/process/distributed.py",
    ),
    Symptom(
        "torchcodec",
        "First frame of an mp4, torchcodec for CUDA installed",
        ("lerobot-video-backend",),
        r"libnvrtc\.so\.13|torchcodec",
        r"a frame of \[3, \d+, \d+\]",
    ),
    Symptom(
        "tensorflow",
        "import transformers, tensorflow installed that crashes",
        ("tensorflow-import",),
        r"dies of signal 11",
        r"imported",
    ),
    Symptom(
        "gpus_one",
        "Cards that step 3's script counts on a machine with 8",
        ("script-device-count",),
        r"GPUs: 1$",
        r"GPUs: 8$",
        EXAMPLES,
    ),
    Symptom(
        "exit_code",
        "Exit code of a training script whose training fails",
        ("script-exit-code",),
        r"exit code 0",
        r"exit code [1-9]",
        EXAMPLES,
    ),
    Symptom(
        "advantage_tag",
        "A whole path as advantage_tag",
        ("advantage-tag",),
        r"Advantage file not found: \S*/advantages_\S*/",
        r"labels \{\(0, 0\): True\}",
    ),
    Symptom(
        "autocast",
        "bf16 mixed precision",
        ("autocast-device",),
        r"float32, with a warning",
        r"^torch.bfloat16$",
    ),
]
