"""Start of every Python process in the simulated image: make torch_npu's operators computable.

The `torch.backends` entry point of cannsim_host_ops does the same after `import torch`. It does not run when a program
imports torch_npu first, because torch_npu then switches torch's extension loading off; this file covers that case.
"""

from cannsim_host_ops import hook

hook.arm()
