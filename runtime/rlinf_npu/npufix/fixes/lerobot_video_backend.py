"""LeRobotDataset without a video backend."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.model import Edit, Expectation, Fix, Op, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "lerobot-video-backend"
CLASS = "LeRobotDataset"


def find(file: PyFile) -> Iterator[Site]:
    """Constructions of lerobot's LeRobotDataset, also by a subclass, that do not say how to decode videos."""
    for node in file.calls():
        if not (_is_dataset(file, node.func) or _is_subclass_init(file, node)):
            continue
        if any(keyword.arg in {"video_backend", None} for keyword in node.keywords):
            continue  # given, or possibly given through **kwargs
        yield file.site(ID, node, [Edit(file.span(node), Op.ADD_KEYWORD, '"pyav"', "video_backend")])


def _is_dataset(file: PyFile, node: ast.AST) -> bool:
    names = file.names(node)
    return bool(names) and all(name.startswith("lerobot.") and name.endswith(f".{CLASS}") for name in names)


def _is_subclass_init(file: PyFile, node: ast.Call) -> bool:
    if ast.unparse(node.func) != "super().__init__":
        return False
    owner = next((up for up in file.scopes.ancestors(node) if isinstance(up, ast.ClassDef)), None)
    return owner is not None and bool(owner.bases) and _is_dataset(file, owner.bases[0])


FIX = Fix(
    id=ID,
    title="decode videos with PyAV at every LeRobotDataset",
    symptom="RuntimeError: Could not load libtorchcodec (OSError: libnvrtc.so.13), at the first frame of an mp4",
    why="LeRobot takes torchcodec when it is merely installed; PyPI's torchcodec needs CUDA libraries.",
    seen="a4b6abe: value_dataset.py, fsdp_cfg_worker.py, compute_advantages.py, steam/pair_dataset.py",
    kind="python",
    signs=(r"libtorchcodec", r"libnvrtc\.so", r"No module named 'torchcodec'"),
    hint=r"LeRobotDataset",
    find_python=find,
    expect=(
        Expectation(
            suffix=".py",
            anchor=r"^\s+(\w+(\.\w+)* = )(lerobot_dataset\.)?LeRobotDataset\(",
            cured=r"video_backend=",
            required=True,
        ),
    ),
)
