"""What can only run on NVIDIA hardware, and why. Data for the safety rules; every entry carries its reason."""

# Packages that do not exist for Ascend NPUs: code that imports one at module level can never be imported there.
PACKAGES = {
    "megatron": "Megatron-LM needs NVIDIA kernels; on an NPU RLinf trains with FSDP",
    "params_resharding": "CUDA extension for Megatron resharding",
    "transformer_engine": "NVIDIA Transformer Engine",
    "apex": "NVIDIA Apex",
    "sglang": "the sglang wheels that RLinf drives are CUDA builds",
    "sglang_router": "part of sglang",
    "vllm": "the vllm versions that RLinf patches are CUDA builds",
    "flash_attn": "CUDA kernels",
    "nvidia": "NVIDIA libraries (nvcomp)",
    "pynvml": "NVIDIA management library",
    "cupy": "CUDA arrays",
    "genesis": "the Genesis simulator runs RLinf's tasks on CUDA",
    "isaaclab": "Isaac Lab needs an NVIDIA RTX card",
    "isaacsim": "Isaac Sim needs an NVIDIA RTX card",
    "omnigibson": "OmniGibson stands on Isaac Sim",
    "metasim": "RoboVerse drives GPU simulators",
    "robotwin": "RoboTwin plans with cuRobo, a CUDA library",
    "polaris": "Polaris stands on Isaac Lab",
    "mani_skill": "ManiSkill's batched simulation is GPU PhysX, which is CUDA",
    "sapien": "SAPIEN's batched simulation is GPU PhysX, which is CUDA",
}

# Simulators, by `env_type` in RLinf's environment configurations, that run on CUDA only.
SIMULATORS = {
    "genesis": PACKAGES["genesis"],
    "embodichain": "EmbodiChain simulates on CUDA",
    "isaaclab": PACKAGES["isaaclab"],
    "maniskill": PACKAGES["mani_skill"],
    "behavior": PACKAGES["omnigibson"],
    "robotwin": PACKAGES["robotwin"],
    "roboverse": PACKAGES["metasim"],
    "polaris": PACKAGES["polaris"],
}

# Folders whose purpose is one of the above, although no import at module level gives it away.
FOLDERS = {
    "rlinf/utils/ckpt_convertor/megatron_convertor/": "offline converter for checkpoints of Megatron-LM",
    "rlinf/envs/maniskill/": "ManiSkill's batched simulation is GPU PhysX, which is CUDA",
    "rlinf/hybrid_engines/megatron/": "Megatron-LM needs NVIDIA kernels; on an NPU RLinf trains with FSDP",
}

# Single modules that implement a CUDA feature; RLinf imports or calls them only when that feature is configured.
MODULES = {
    "cuda_graph.py": "CUDA graphs; used only with enable_cuda_graph",
    "musa_patches.py": "patches for Moore Threads cards",
    "npu_patches.py": "upstream's own patch that makes a CUDA query work on an NPU",
}

# Managers of other vendors' accelerators: RLinf picks one by what it detects.
MANAGERS = "rlinf/scheduler/hardware/accelerators/"
OURS = ("npu", "ascend")
