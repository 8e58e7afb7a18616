"""Every mention of CUDA and NCCL in code and configuration (comments and documentation are not code)."""

import ast
import re
from collections.abc import Iterator

from rlinf_npu.npufix.cuda import cuda_attributes, device_literals
from rlinf_npu.npufix.fixes.tensor_cuda_method import is_cuda_method
from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Use
from rlinf_npu.npufix.pyfile import PyFile
from rlinf_npu.npufix.shell import commands
from rlinf_npu.npufix.yamlfile import scalars

HINT = r"cuda|nccl|nvidia-smi"
YAML_HINT = r"""[:,\[-]\s*["']?(nccl|cuda)\b"""  # as a value; parsing YAML is slow


def python_uses(file: PyFile) -> Iterator[tuple[Use, ast.expr]]:
    """Uses in a Python file, each with its node."""
    for node, _, _ in cuda_attributes(file):
        yield _use(file, node, "torch.cuda"), node
    for call in file.calls():
        if is_cuda_method(file, call):
            yield _use(file, call, ".cuda()"), call
    for literal in device_literals(file):
        yield _use(file, literal, '"cuda"'), literal
    for constant in file.of(ast.Constant):
        assert isinstance(constant, ast.Constant)
        if isinstance(constant.value, str) and constant.value.lower() in {"nccl", "cpu:gloo,cuda:nccl"}:
            yield _use(file, constant, "nccl"), constant


def _use(file: PyFile, node: ast.expr, kind: str) -> Use:
    return Use(file.path, node.lineno, kind, file.code(node), file.span(node))


def yaml_uses(path: str, text: str) -> Iterator[tuple[Use, tuple[object, ...]]]:
    """Values nccl, cuda and lists of CUDA things in a YAML file, each with the keys that lead to it."""
    if not re.search(YAML_HINT, text, re.MULTILINE):
        return
    lines = split_lines(text)
    for scalar in scalars(text):
        value = scalar.value.lower()
        kind = "nccl" if value == "nccl" else '"cuda"' if value.split(":")[0].split(",")[0] == "cuda" else ""
        if kind:
            yield Use(path, scalar.line, kind, lines[scalar.line - 1].strip()), scalar.keys


def shell_uses(path: str, text: str) -> Iterator[Use]:
    """Calls of nvidia-smi in a script."""
    for command in commands(text):
        if "nvidia-smi" in command.text:
            yield Use(path, command.number, "nvidia-smi", command.text.strip())
