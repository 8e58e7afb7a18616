"""DataLoader(pin_memory=True), which torch 2.6 ignores on an NPU."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.model import Edit, Fix, Op, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "pin-memory-device"
LOADERS = (".DataLoader", ".StatefulDataLoader")
KEY = "pin_memory"
DEVICE_KEY = "pin_memory_device"


def find(file: PyFile) -> Iterator[Site]:
    """DataLoader calls, and dicts of their arguments, with pin_memory but without pin_memory_device."""
    for node in file.calls():
        if not _is_loader(file, node):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if KEY in given and not {DEVICE_KEY, None} & given.keys():
            edit = Edit(file.span(node), Op.ADD_KEYWORD, _device(file, given[KEY]), DEVICE_KEY)
            yield from _site(file, node, given[KEY], edit)
    for display in file.of(ast.Dict) if _unpacks_into_loader(file) else ():
        assert isinstance(display, ast.Dict)
        items = {
            key.value: value
            for key, value in zip(display.keys, display.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        if KEY in items and DEVICE_KEY not in items and "num_workers" in items:
            edit = Edit(file.span(display), Op.ADD_DICT_ITEM, _device(file, items[KEY]), DEVICE_KEY)
            yield from _site(file, display, items[KEY], edit)


def _site(file: PyFile, node: ast.AST, value: ast.expr, edit: Edit) -> Iterator[Site]:
    if not (isinstance(value, ast.Constant) and value.value is False):
        yield file.site(ID, node, [edit], frozenset({"pin_device"}))


def _device(file: PyFile, value: ast.expr) -> str:
    text = file.source(value)
    return "pin_device(True)" if "cuda" in text else f"pin_device({text})"  # the helper asks for an NPU itself


def _is_loader(file: PyFile, node: ast.Call) -> bool:
    name = file.name(node.func)
    return name.startswith(("torch.utils.data.", "torchdata.")) and name.endswith(LOADERS)


def _unpacks_into_loader(file: PyFile) -> bool:
    """Whether some loader of this file takes its arguments from a dict."""
    return any(_is_loader(file, node) and any(word.arg is None for word in node.keywords) for node in file.calls())


FIX = Fix(
    id=ID,
    title="pinned host memory for the device at hand",
    symptom="none visible: batches are copied from pageable memory, which blocks the training loop",
    why="torch 2.6's DataLoader pins only for CUDA unless pin_memory_device names another device.",
    seen="a4b6abe: CFG, value and steam SFT workers, reward worker, compute_advantages.py",
    kind="python",
    hint=r"pin_memory",
    find_python=find,
)
