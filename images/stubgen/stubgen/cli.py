"""Make stub libraries from the symbols that other libraries ask for.

python3 -m stubgen cann OUT --sources DIR [--wheel DIR]
python3 -m stubgen cuda TORCH_LIB_DIR [FOLDER ...]
python3 -m stubgen kernels TORCH_LIB_DIR [FOLDER ...]
"""

import argparse
import sys
from pathlib import Path

from stubgen import cuda, kernels
from stubgen.build import Toolchain
from stubgen.cann import CannBuilder
from stubgen.errors import StubgenError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="stubgen", description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    cann = commands.add_parser("cann", help="build the simulated CANN libraries")
    cann.add_argument("out", type=Path, help="output folder")
    cann.add_argument("--sources", type=Path, required=True, help="hand-written part, one folder per library")
    cann.add_argument("--wheel", type=Path, help="unpacked torch_npu wheel; stubs are made from its symbols")
    cuda_parser = commands.add_parser("cuda", help="complete PyPI's x86-64 torch with simulated CUDA libraries")
    cuda_parser.add_argument("torch_lib", type=Path, help="lib folder of an installed torch")
    cuda_parser.add_argument("others", type=Path, nargs="*", help="folders whose libraries use the same CUDA libraries")
    kernels_parser = commands.add_parser("kernels", help="replace torch's CUDA kernels by a small library that throws")
    kernels_parser.add_argument("torch_lib", type=Path, help="lib folder of an installed torch")
    kernels_parser.add_argument("others", type=Path, nargs="*", help="folders whose libraries link to torch's")
    return parser


def main(arguments: list[str]) -> int:
    """Run one command. Exit code 0 done, 1 failed (one message on stderr), 2 usage."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "cann":
            print(CannBuilder(options.sources, options.out, options.wheel, Toolchain()).build())
        elif options.command == "kernels":
            print(kernels.install(options.torch_lib, options.others, Toolchain()))
        else:
            print(cuda.install(options.torch_lib, options.others, Toolchain()))
    except StubgenError as error:
        print(f"stubgen: {error}", file=sys.stderr)
        return 1
    return 0
