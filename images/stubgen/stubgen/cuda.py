"""Stand-ins for the CUDA libraries that PyPI's x86-64 torch links to.

With them torch imports and runs on the CPU without 2.7 GB of nvidia packages. Every function returns an error, so
torch.cuda.is_available() is False and a call by mistake is seen. Symbols carry the versions torch was linked against.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from stubgen import elf, naming
from stubgen.build import Toolchain
from stubgen.errors import StubgenError

# cudaErrorInsufficientDriver: torch turns it into "Found no NVIDIA driver on your system"
_RUNTIME_ERROR = 35
# CUDA_ERROR_NO_DEVICE, for the driver interface
_DRIVER_ERROR = 100
# "not initialized" or "internal error" of the math libraries and NCCL: any value but 0 is a failure there
_LIBRARY_ERROR = 1

_MARK = "simulated-cuda"


@dataclass(frozen=True)
class _Owner:
    stem: str
    names: re.Pattern[str]
    error: int


def _owner(stem: str, pattern: str, error: int = _LIBRARY_ERROR) -> _Owner:
    return _Owner(stem, re.compile(pattern), error)


# Longest prefixes first: cublasLt before cublas, cusparseLt before cusparse, cuda* before cu*.
_OWNERS = (
    _owner("libcublasLt", "cublasLt"),
    _owner("libcublas", "cublas"),
    _owner("libcudnn", "cudnn"),
    _owner("libcusparseLt", "cusparseLt"),
    _owner("libcusparse", "cusparse"),
    _owner("libcusolver", "cusolver"),
    _owner("libcurand", "curand"),
    _owner("libcufft", "cufft"),
    _owner("libcufile", "cuFile"),
    _owner("libcupti", "cupti"),
    _owner("libnccl", "p?nccl"),
    _owner("libnvrtc", "nvrtc"),
    _owner("libnvJitLink", "nvJitLink"),
    _owner("libnvToolsExt", "nvtx"),
    _owner("libcudart", "cuda[A-Z]|__cuda", _RUNTIME_ERROR),
    _owner("libcuda", "cu[A-Z]", _DRIVER_ERROR),
)
# Functions that explain an error code. Callers print what they get, so these answer: by value, or through a pointer.
_TEXT = re.compile(r"(nccl|cudnn|nvrtc|cusparse|cublas|cufft)Get\w*(String|Name)$|cudaGetError(String|Name)$")
_TEXT_BY_POINTER = re.compile(r"(cuptiGetResultString|cuGetError(String|Name))$")
_MESSAGE = "simulated CUDA: not available"


def install(torch_lib: Path, others: Iterable[Path], toolchain: Toolchain) -> str:
    """Complete the folder `torch/lib` and say in one line what was done.

    `others` are folders whose libraries use the same CUDA libraries (torchvision); what else they link to is theirs.

    A CPU build of torch, or a second run, changes nothing. Libraries appear complete or not at all.

    Raises:
        StubgenError: not torch's library folder, or a library or symbol that no rule knows.
    """
    if not (torch_lib / "libtorch_cpu.so").is_file():
        raise StubgenError(f"{torch_lib}: no libtorch_cpu.so there; expected the lib folder of an installed torch")
    libraries = elf.shared_objects(torch_lib)
    originals = [library for library in libraries if not _is_stand_in(library)]
    absent = _absent_sonames(originals, torch_lib)
    if not absent:
        made = len(libraries) - len(originals)
        return f"CUDA stand-ins: {f'{made} present already' if made else 'none needed, this torch is a CPU build'}"
    guests = [library for folder in others for library in elf.shared_objects(folder)]
    symbols = _symbols_by_soname(originals, guests, absent)
    with TemporaryDirectory(prefix="stubgen-") as scratch:
        for soname in sorted(absent):
            built = _build(soname, symbols[soname], Path(scratch), toolchain)
            _put(built, torch_lib / soname)
    total = sum(len(names) for versions in symbols.values() for names in versions.values())
    return f"CUDA stand-ins (simulated): {len(absent)} libraries, {total} functions that return an error"


def _is_stand_in(library: Path) -> bool:
    # Ours are small; torch's own are up to 0.9 GB and not worth reading.
    return library.stat().st_size < (1 << 20) and _MARK.encode() in library.read_bytes()


def _absent_sonames(libraries: list[Path], folder: Path) -> set[str]:
    own = {library.name for library in libraries} | {path.name for path in _carried(folder).glob("*.so*")}
    wanted = {soname for library in libraries for soname in elf.needed(library)} - own
    foreign = {soname for soname in wanted if not naming.SYSTEM_SONAMES.match(soname)}
    unknown = sorted(soname for soname in foreign if not _owner_of_soname(soname))
    if unknown:
        raise StubgenError(f"torch links to libraries that are not CUDA's: {', '.join(unknown)} (see stubgen/cuda.py)")
    return {soname for soname in foreign if not (folder / soname).exists()}


def _carried(torch_lib: Path) -> Path:
    """Where auditwheel packs a wheel's libraries; aarch64's torch has OpenBLAS and others there."""
    package = torch_lib.parent
    return package.with_name(f"{package.name}.libs")


def _owner_of_soname(soname: str) -> _Owner | None:
    return next((owner for owner in _OWNERS if soname.startswith(f"{owner.stem}.so")), None)


def _symbols_by_soname(libraries: list[Path], guests: list[Path], absent: set[str]) -> dict[str, dict[str, set[str]]]:
    """soname -> symbol version ('' for none) -> names. Guests may want more of a library, but no further ones."""
    provided = {symbol.name for library in libraries for symbol in elf.defined(library)}
    sonames = {owner.stem: soname for soname in absent if (owner := _owner_of_soname(soname))}
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    orphans: set[str] = set()
    for library in [*libraries, *guests]:
        for symbol in elf.undefined(library):
            owner = next((o for o in _OWNERS if o.names.match(symbol.name)), None)
            if symbol.name in provided or owner is None or naming.is_system_version(symbol.version):
                continue
            if owner.stem in sonames:
                found[sonames[owner.stem]][symbol.version].add(symbol.name)
            elif library not in guests:
                orphans.add(symbol.name)
    if orphans:
        raise StubgenError(f"no library to hold the CUDA functions {', '.join(sorted(orphans)[:10])}")
    return found


def _build(soname: str, versions: dict[str, set[str]], scratch: Path, toolchain: Toolchain) -> Path:
    owner = _owner_of_soname(soname)
    error = owner.error if owner else _LIBRARY_ERROR
    folder = scratch / soname
    folder.mkdir()
    source = folder / "stubs.c"
    source.write_text(_source(versions, error), encoding="utf-8")
    script = folder / "versions.map"
    script.write_text(_version_script(versions), encoding="utf-8")
    extra = [f"-Wl,--version-script={script}"] if any(versions) else []
    return toolchain.link(soname, toolchain.compile([source], folder), folder, extra)


def _source(versions: dict[str, set[str]], error: int) -> str:
    lines = [
        "/* Generated by stubgen: simulated CUDA entry points; each returns an error. */",
        f'__attribute__((used)) static const char mark[] = "{_MARK}";',
    ]
    lines += [_function(name, error) for names in versions.values() for name in sorted(names)]
    return "\n".join(lines) + "\n"


def _function(name: str, error: int) -> str:
    if _TEXT.match(name):
        signature, body = f"const char *{name}(void)", f'return "{_MESSAGE}";'
    elif _TEXT_BY_POINTER.match(name):
        signature, body = f"int {name}(int code, const char **text)", f'(void)code; *text = "{_MESSAGE}"; return 0;'
    else:
        signature, body = f"int {name}(void)", f"return {error};"
    return f"{signature};\n{signature} {{ {body} }}"


def _version_script(versions: dict[str, set[str]]) -> str:
    blocks = []
    for version, names in sorted(versions.items()):
        listing = " ".join(f"{name};" for name in sorted(names))
        blocks.append(f"{version} {{ global: {listing} }};" if version else "")
    return "\n".join(blocks) + "\n"


def _put(built: Path, target: Path) -> None:
    """Copy beside the target and rename: an interrupted run leaves no half-written library."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.copy2(built, partial)
    partial.replace(target)
