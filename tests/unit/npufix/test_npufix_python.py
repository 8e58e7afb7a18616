"""Every pattern that a Python fix cures, and every near-miss that it must leave alone."""

import ast

import pytest
from mini_tree import Fixer, TreeMaker, changed_lines
from rlinf_npu.npufix.plan import Plan

HELPER = "from rlinf.utils.npu_compat import "
WORKER = "import torch\nfrom rlinf.scheduler import Worker\n\n\n"

# name: (source, lines that leave, lines that come)
CURED = {
    # calls -> the platform module
    "synchronize with Worker in scope": (
        WORKER + "def f():\n    torch.cuda.synchronize()  # wait\n",
        ["torch.cuda.synchronize()  # wait"],
        ["Worker.torch_platform.synchronize()  # wait"],
    ),
    "empty_cache without Worker": (
        "import torch\n\n\ndef f():\n    torch.cuda.empty_cache()\n",
        ["torch.cuda.empty_cache()"],
        [HELPER + "accel", "accel().empty_cache()"],
    ),
    "torch under another name": (
        "import torch as th\n\n\ndef f():\n    return th.cuda.memory_allocated() / 2\n",
        ["return th.cuda.memory_allocated() / 2"],
        [HELPER + "accel", "return accel().memory_allocated() / 2"],
    ),
    "cuda imported by itself": (
        "from torch import cuda\n\n\ndef f():\n    cuda.synchronize()\n",
        ["cuda.synchronize()"],
        [HELPER + "accel", "accel().synchronize()"],
    ),
    "function imported by itself": (
        "from torch.cuda import empty_cache as clean\n\n\ndef f():\n    clean()\n",
        ["clean()"],
        [HELPER + "accel", "accel().empty_cache()"],
    ),
    "torch imported in the function": (
        "def f():\n    import torch\n\n    return torch.cuda.device_count()\n",
        ["return torch.cuda.device_count()"],
        [HELPER + "accel", "return accel().device_count()"],
    ),
    "inside a lambda and a comprehension": (
        "import torch\n\nf = lambda: [torch.cuda.current_device() for _ in range(2)]\n",
        ["f = lambda: [torch.cuda.current_device() for _ in range(2)]"],
        [HELPER + "accel", "f = lambda: [accel().current_device() for _ in range(2)]"],
    ),
    "Worker is in scope but its use would come before a worker starts": (
        WORKER + "COUNT = torch.cuda.device_count()\n",
        ["COUNT = torch.cuda.device_count()"],
        [HELPER + "accel", "COUNT = accel().device_count()"],
    ),
    # availability
    "availability gate with its body": (
        WORKER
        + "def f(rank):\n    if torch.cuda.is_available():\n        torch.cuda.set_device(rank)\n"
        + '        return f"cuda:{rank}"\n    return "cpu"\n',
        ["if torch.cuda.is_available():", "torch.cuda.set_device(rank)"],
        [HELPER + "accel", "if accel().is_available():", "accel().set_device(rank)"],
    ),
    "availability as a choice": (
        'import torch\n\n\ndef f():\n    return 0, 1, "cuda" if torch.cuda.is_available() else "cpu"\n',
        ['return 0, 1, "cuda" if torch.cuda.is_available() else "cpu"'],
        [HELPER + "accel, accel_type", 'return 0, 1, accel_type() if accel().is_available() else "cpu"'],
    ),
    # tensors
    "tensor.cuda()": (
        WORKER + "def f(x):\n    return x.float().cuda()\n",
        ["return x.float().cuda()"],
        ["return x.float().to(Worker.torch_device_type)"],
    ),
    "tensor.cuda(non_blocking=True)": (
        "def f(x):\n    return x.cuda(non_blocking=True)\n",
        ["return x.cuda(non_blocking=True)"],
        [HELPER + "accel_type", "return x.to(accel_type(), non_blocking=True)"],
    ),
    "tensor.cuda() around a CUDA call": (
        "import torch\n\n\ndef f(x):\n    return x[torch.cuda.current_device()].cuda()\n",
        ["return x[torch.cuda.current_device()].cuda()"],
        [HELPER + "accel, accel_type", "return x[accel().current_device()].to(accel_type())"],
    ),
    # device literals
    "device keyword": (
        'import torch\n\n\ndef f(x):\n    return torch.tensor([x], device="cuda")\n',
        ['return torch.tensor([x], device="cuda")'],
        [HELPER + "accel_type", "return torch.tensor([x], device=accel_type())"],
    ),
    "torch.device with an index": (
        "import torch\n\n\ndef f():\n    return torch.device('cuda:0')\n",
        ["return torch.device('cuda:0')"],
        [HELPER + "accel_type", 'return torch.device(f"{accel_type()}:0")'],
    ),
    "f-string with a nested call": (
        WORKER + 'def f():\n    return torch.device(f"cuda:{torch.cuda.current_device()}")\n',
        ['return torch.device(f"cuda:{torch.cuda.current_device()}")'],
        ['return torch.device(f"{Worker.torch_device_type}:{Worker.torch_platform.current_device()}")'],
    ),
    "default value of a device parameter": (
        'def f(path, *, device: str = "cuda", name="cuda"):\n    return path, device, name\n',
        ['def f(path, *, device: str = "cuda", name="cuda"):'],
        [HELPER + "accel_type", 'def f(path, *, device: str = accel_type(), name="cuda"):'],
    ),
    "getattr default": (
        'def f(self):\n    return getattr(self, "_device", "cuda")\n',
        ['return getattr(self, "_device", "cuda")'],
        [HELPER + "accel_type", 'return getattr(self, "_device", accel_type())'],
    ),
    ".to": (
        "def f(x):\n    return x.to('cuda')\n",
        ["return x.to('cuda')"],
        [HELPER + "accel_type", "return x.to(accel_type())"],
    ),
    # autocast
    "autocast by position": (
        'import torch\n\n\ndef f():\n    with torch.autocast("cuda", dtype=torch.bfloat16):\n        pass\n',
        ['with torch.autocast("cuda", dtype=torch.bfloat16):'],
        [HELPER + "accel_type", "with torch.autocast(accel_type(), dtype=torch.bfloat16):"],
    ),
    "autocast by keyword": (
        WORKER + 'def f():\n    return torch.amp.autocast(device_type="cuda")\n',
        ['return torch.amp.autocast(device_type="cuda")'],
        ["return torch.amp.autocast(device_type=Worker.torch_device_type)"],
    ),
    "autocast behind is_cuda": (
        "import torch\nfrom contextlib import nullcontext\n\n\ndef f(x):\n"
        '    return torch.autocast("cuda") if x.is_cuda else nullcontext()\n',
        ['return torch.autocast("cuda") if x.is_cuda else nullcontext()'],
        [HELPER + "accel_type", 'return torch.autocast(accel_type()) if x.device.type != "cpu" else nullcontext()'],
    ),
    "autocast for the tensor's device, but only when that is CUDA": (
        "import torch\nfrom contextlib import nullcontext\n\n\ndef f(kind):\n"
        '    return torch.autocast(device_type=kind) if kind == "cuda" else nullcontext()\n',
        ['return torch.autocast(device_type=kind) if kind == "cuda" else nullcontext()'],
        ['return torch.autocast(device_type=kind) if kind != "cpu" else nullcontext()'],
    ),
    "autocast switched by a variable": (
        "import torch\n\n\ndef f(device):\n"
        '    enabled = device.type == "cuda"\n'
        '    return torch.autocast(device_type="cuda", enabled=enabled)\n',
        ['enabled = device.type == "cuda"', 'return torch.autocast(device_type="cuda", enabled=enabled)'],
        [
            HELPER + "accel_type",
            'enabled = device.type != "cpu"',
            "return torch.autocast(device_type=accel_type(), enabled=enabled)",
        ],
    ),
    # process groups
    "default backend": (
        'def f(cfg):\n    return cfg.get("backend", "nccl")\n',
        ['return cfg.get("backend", "nccl")'],
        [HELPER + "ccl_backend", 'return cfg.get("backend", ccl_backend())'],
    ),
    "init_process_group": (
        'import torch.distributed as dist\n\n\ndef f():\n    dist.init_process_group("nccl", rank=0)\n',
        ['dist.init_process_group("nccl", rank=0)'],
        [HELPER + "ccl_backend", "dist.init_process_group(ccl_backend(), rank=0)"],
    ),
    "backend parameter": (
        'def start(rank, backend="nccl"):\n    return rank, backend\n',
        ['def start(rank, backend="nccl"):'],
        [HELPER + "ccl_backend", "def start(rank, backend=ccl_backend()):"],
    ),
    # data
    "LeRobotDataset, one argument a line": (
        "import lerobot.common.datasets.lerobot_dataset as lerobot_dataset\n\n\ndef f(path):\n"
        "    return lerobot_dataset.LeRobotDataset(\n        path,\n        root=path,  # here\n    )\n",
        [],
        ['video_backend="pyav",'],
    ),
    "LeRobotDataset, newer and older module": (
        "try:\n    from lerobot.datasets.lerobot_dataset import LeRobotDataset\n"
        "except ImportError:\n    from lerobot.common.datasets.lerobot_dataset import LeRobotDataset\n"
        "\n\ndef f(path):\n    return LeRobotDataset(path)\n",
        ["return LeRobotDataset(path)"],
        ['return LeRobotDataset(path, video_backend="pyav")'],
    ),
    "subclass of LeRobotDataset": (
        "from lerobot.datasets.lerobot_dataset import LeRobotDataset\n\n\nclass Mine(LeRobotDataset):\n"
        "    def __init__(self, path):\n        super().__init__(path)\n",
        ["super().__init__(path)"],
        ['super().__init__(path, video_backend="pyav")'],
    ),
    "DataLoader": (
        "import torch.utils.data\n\n\ndef f(d):\n    return torch.utils.data.DataLoader(d, pin_memory=True)\n",
        ["return torch.utils.data.DataLoader(d, pin_memory=True)"],
        [
            HELPER + "pin_device",
            "return torch.utils.data.DataLoader(d, pin_memory=True, pin_memory_device=pin_device(True))",
        ],
    ),
    "arguments of a DataLoader in a dict": (
        "from torch.utils.data import DataLoader\n\n\ndef options(n, pin):\n"
        '    return {\n        "num_workers": n,\n        "pin_memory": pin,  # fast\n    }\n'
        "\n\ndef f(d):\n    return DataLoader(d, **options(1, True))\n",
        [],
        [HELPER + "pin_device", '"pin_memory_device": pin_device(pin),'],
    ),
    "advantage tag in a file name": (
        'def f(tag):\n    return f"advantages_{tag}.parquet"\n',
        ['return f"advantages_{tag}.parquet"'],
        [HELPER + "advantages_name", "return advantages_name(tag)"],
    ),
    "optional tensorflow": (
        "try:\n    import tensorflow as tf\nexcept ImportError:\n    tf = None\n",
        [],
        [HELPER + "require_tensorflow", "require_tensorflow()"],
    ),
}


@pytest.mark.parametrize("name", CURED)
def test_cured(name: str, fix_text: Fixer) -> None:
    source, gone, come = CURED[name]
    fixed = fix_text(source)
    ast.parse(fixed)
    assert changed_lines(source, fixed) == (gone, sorted(come, key=fixed.index)), fixed


@pytest.mark.parametrize("name", CURED)
def test_idempotent(name: str, fix_text: Fixer) -> None:
    fixed = fix_text(CURED[name][0])
    assert fix_text(fixed) == fixed


WORKER_INIT = """import os
import torch
from rlinf.hybrid import FSDPModelManager
from rlinf.scheduler import Worker


class ValueWorker({bases}):
    def __init__(self, cfg):
        Worker.__init__(self)
        {init}

        self.cfg = cfg
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        self.device = torch.cuda.current_device()

        self.loader = self.build()
"""


@pytest.mark.parametrize(
    ("bases", "init"),
    [
        ("FSDPModelManager, Worker", "super().__init__(cfg.actor, 1)"),
        ("BaseWorker", "FSDPModelManager.__init__(self, cfg.actor, 1)"),
    ],
)
def test_second_device_set_up_goes(bases: str, init: str, fix_text: Fixer) -> None:
    source = WORKER_INIT.format(bases=bases, init=init)
    gone, come = changed_lines(source, fix_text(source))
    assert gone == [
        'torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))',
        "self.device = torch.cuda.current_device()",
    ]
    assert come == ["# npufix: FSDPModelManager.__init__ has set the device."]


def test_only_device_set_up_stays_and_asks_the_platform(fix_text: Fixer) -> None:
    source = WORKER_INIT.format(bases="Worker", init="pass")
    _, come = changed_lines(source, fix_text(source))
    assert come == [
        'Worker.torch_platform.set_device(int(os.environ.get("LOCAL_RANK", 0)))',
        "self.device = Worker.torch_platform.current_device()",
    ]


def test_body_of_deleted_statements_stays_valid(fix_text: Fixer) -> None:
    source = WORKER_INIT.format(bases="FSDPModelManager, Worker", init="super().__init__(cfg, 1)")
    source = source.replace("\n        self.loader = self.build()\n", "")
    fixed = fix_text(source)
    ast.parse(fixed)
    assert "# npufix:" in fixed


LEFT_ALONE = {
    "string": 'MESSAGE = "call torch.cuda.synchronize() first"\n',
    "comment": "import torch  # torch.cuda.empty_cache()\n",
    "docstring": 'def f():\n    """Run torch.cuda.synchronize(); device="cuda"."""\n',
    "shadowed by a parameter": "import torch\n\n\ndef f(torch):\n    torch.cuda.synchronize()\n",
    "shadowed by an assignment": "import torch\n\ntorch = object()\n\n\ndef f():\n    torch.cuda.synchronize()\n",
    "shadowed in a loop": "import torch\n\n\ndef f(xs):\n    for torch in xs:\n        torch.cuda.synchronize()\n",
    "another library's cuda": "import cupy as torch\n\n\ndef f():\n    torch.cuda.synchronize()\n",
    "attribute of an object": "def f(self):\n    self.torch.cuda.synchronize()\n",
    "monkeypatch": "import torch\n\ntorch.cuda.get_device_capability = lambda: (8, 0)\n",
    "annotation": "import torch\n\n\ndef f(graph: torch.cuda.Stream) -> torch.cuda.Event:\n    pass\n",
    "CUDA-only function behind its own gate": (
        "import torch\n\n\ndef f(name):\n    if torch.cuda.is_available():\n        torch.cuda.nvtx.range_push(name)\n"
    ),
    "unknown function of torch.cuda": "import torch\n\n\ndef f():\n    return torch.cuda.make_graphed_callables\n",
    "comparison": 'def f(device):\n    return device.type == "cuda"\n',
    "guarded by the device type": (
        'import torch\n\n\ndef f(x):\n    if x.device.type == "cuda":\n        torch.cuda.synchronize()\n'
    ),
    "guarded by is_cuda": "import torch\n\n\ndef f(x):\n    if x.is_cuda:\n        torch.cuda.synchronize()\n",
    "behind an assertion": (
        'import torch\n\n\ndef f(d):\n    assert d.type == "cuda"\n    return torch.cuda.current_stream()\n'
    ),
    "expected to fail": (
        'import torch\n\n\ndef f(g):\n    try:\n        return g.get(torch.device("cuda"))\n'
        "    except RuntimeError:\n        pass\n"
    ),
    "key of a table": 'TABLE = {"cuda": 1}\n',
    "unknown call with the word": 'def f(x):\n    return x.register("cuda")\n',
    "cuda with an index": "def f(x):\n    return x.cuda(1)\n",
    "method named cuda of an imported module": "import genericlib\n\n\ndef f():\n    return genericlib.cuda()\n",
    "module that needs CUDA": "import megatron\nimport torch\n\n\ndef f():\n    torch.cuda.synchronize()\n",
    "class that needs CUDA": (
        "import torch\n\n\nclass Engine:\n    def start(self):\n        import vllm\n\n        return vllm\n\n"
        "    def stop(self):\n        torch.cuda.empty_cache()\n"
    ),
    "backend of something else": 'def f(cfg):\n    return cfg.get("transport", "nccl")\n',
    "Megatron option": 'def f(cfg):\n    cfg.megatron.backend = cfg.megatron.get("backend", "nccl")\n',
    "video backend given": (
        "from lerobot.datasets.lerobot_dataset import LeRobotDataset\n\n\ndef f(p):\n"
        '    return LeRobotDataset(p, video_backend="torchcodec")\n'
    ),
    "video backend possibly given": (
        "from lerobot.datasets.lerobot_dataset import LeRobotDataset\n\n\n"
        "def f(p, **kw):\n    return LeRobotDataset(p, **kw)\n"
    ),
    "another LeRobotDataset": "class LeRobotDataset:\n    pass\n\n\ndef f():\n    return LeRobotDataset()\n",
    "no pinning": (
        "from torch.utils.data import DataLoader\n\n\ndef f(d):\n    return DataLoader(d, pin_memory=False)\n"
    ),
    "dict for something else": 'OPTIONS = {"num_workers": 1, "pin_memory": True}\n',
    "pinning device given": (
        "from torch.utils.data import DataLoader\n\n\ndef f(d):\n"
        '    return DataLoader(d, pin_memory=True, pin_memory_device="npu")\n'
    ),
    "another file name": 'def f(tag):\n    return f"advantages_{tag}.csv", f"my_advantages_{tag}.parquet"\n',
    "tensorflow that is required": "import tensorflow as tf\n",
    "autocast for another device": 'import torch\n\n\ndef f():\n    return torch.autocast("cpu")\n',
    "already fixed": (
        "from rlinf.scheduler import Worker\n\n\ndef f(x):\n    Worker.torch_platform.synchronize()\n"
        "    return x.to(Worker.torch_device_type)\n"
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str, fix_text: Fixer) -> None:
    source = LEFT_ALONE[name]
    ast.parse(source)
    assert fix_text(source) == source


def test_script_that_does_not_import_rlinf_gets_no_helper(fix_text: Fixer) -> None:
    source = "import torch\n\ntorch.cuda.empty_cache()\n"
    assert fix_text(source, "examples/tool/run.py") == source
    inside = (
        "import sys\n\nsys.path.insert(0, '..')\n\nimport torch\nfrom rlinf.x import y\n\ntorch.cuda.empty_cache()\n"
    )
    fixed = fix_text(inside, "examples/tool/run.py").splitlines()
    assert fixed.index(HELPER + "accel") == fixed.index("from rlinf.x import y") + 1


def test_environment_of_a_cuda_simulator_is_left_alone(fix_text: Fixer) -> None:
    source = 'class Env:\n    def device(self):\n        return "cuda"\n\n\ndef start():\n    import omnigibson\n'
    assert fix_text(source, "rlinf/envs/house/env.py") == source
    assert "accel_type()" in fix_text(source.replace("omnigibson", "libero"), "rlinf/envs/house/env.py")


def test_module_that_imports_a_cuda_only_module_is_left_alone(make_tree: TreeMaker) -> None:
    plan = Plan(
        make_tree(
            {
                "rlinf/base.py": "from megatron.core import parallel_state\n",
                "rlinf/child.py": "from rlinf.base import parallel_state\n\n\ndef f(x):\n    return x.cuda()\n",
            }
        )
    )
    (use,) = [use for use in plan.uses if use.path == "rlinf/child.py"]
    assert use.status == "safe"
    assert "imports rlinf.base" in use.reason
    assert "megatron" in use.reason


PLACES_OF_THE_IMPORT = {
    "behind rlinf's imports": ("import torch\nfrom rlinf.a import b\n\nX = 1\n", "from rlinf.a import b"),
    "behind relative imports": ("import torch\nfrom .a import b\n", "from .a import b"),
    "behind several lines": ("import torch\nfrom rlinf.a import (\n    b,\n)  # end\n", ")  # end"),
    "behind other imports": ('"""Doc."""\n\nfrom __future__ import annotations\n\nimport torch\n', "import torch"),
    "not behind imports between functions": ("import torch\n\n\ndef g():\n    pass\n\n\nimport os\n", "import torch"),
}


@pytest.mark.parametrize("name", PLACES_OF_THE_IMPORT)
def test_place_of_the_helper_import(name: str, fix_text: Fixer) -> None:
    head, before = PLACES_OF_THE_IMPORT[name]
    lines = fix_text(f"{head}\n\n@decorated\ndef f():\n    torch.cuda.empty_cache()\n").splitlines()
    assert lines[lines.index(before) + 1] == HELPER + "accel"
    assert lines[-3:] == ["@decorated", "def f():", "    accel().empty_cache()"]


@pytest.mark.parametrize("head", ["", '"""Doc."""\n', "# licence\n"])
def test_helper_import_without_other_imports(head: str, fix_text: Fixer) -> None:
    fixed = fix_text(f"{head}def f(x):\n    return x.cuda()\n")
    assert fixed == (
        f"{head if head.startswith(chr(34)) else ''}{HELPER}accel_type\n"
        f"{'' if head.startswith(chr(34)) else head}def f(x):\n    return x.to(accel_type())\n"
    )


def test_statements_on_one_line_and_form_feeds(fix_text: Fixer) -> None:
    source = "import torch; import os\n\x0c\n\ntorch.cuda.empty_cache(); torch.cuda.synchronize()\n"
    fixed = fix_text(source)
    assert fixed == f"import torch; import os\n{HELPER}accel\n\x0c\n\naccel().empty_cache(); accel().synchronize()\n"


def test_helper_names_are_added_to_a_fixed_file(fix_text: Fixer) -> None:
    source = f"import torch\n{HELPER}accel\n\n\ndef f(x):\n    accel().synchronize()\n    return x.cuda()\n"
    assert changed_lines(source, fix_text(source))[1] == [HELPER + "accel_type", "return x.to(accel_type())"]
