"""Where torch itself comes from on x86-64: PyPI's CUDA build beside stand-ins, or PyTorch's own CPU wheels.

PyPI has torch for x86-64 with CUDA only; the image then replaces the CUDA libraries it links to by stand-ins. PyTorch's
CPU index, or a mirror of it, has the same release without CUDA: the better choice where it answers. On aarch64 PyPI's
wheel is a CPU build already.
"""

from imagekit.errors import Problem
from imagekit.manifest import Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.probe import Probe, Prober, probe_index
from imagekit.process import Say
from imagekit.torch_lock import Wheels, cpu_wheels

CHOICES = ("auto", "cpu", "pypi")


def check_wanted(wanted: str) -> None:
    """Refuse a word that is none of ours.

    Raises:
        Problem: not auto, cpu or pypi.
    """
    if wanted not in CHOICES:
        raise Problem(f"TORCH={wanted!r} is not a source of torch", f"use {', '.join(CHOICES)}", usage=True)


def torch_probes(
    manifest: Manifest, wanted: str, platform: Platform, network: NetworkSettings, seconds: float
) -> list[Probe]:
    """Return what `choose` would have to ask: the first page of the CPU wheels, for `auto` on x86-64."""
    if wanted == "pypi" or platform.name != manifest.python.cpu.platform or cpu_wheels(manifest) is None:
        return []
    return [probe_index("PyTorch's CPU wheels", pages(manifest, network)[0], network.env(), seconds)]


def choose(
    manifest: Manifest, wanted: str, platform: Platform, network: NetworkSettings, prober: Prober, say: Say
) -> Wheels:
    """Return where torch is taken from.

    Raises:
        Problem: `cpu` is asked for and not in reach, or of a release whose hash is not recorded.
    """
    probes = torch_probes(manifest, wanted, platform, network, prober.seconds)
    if not probes:
        if wanted == "cpu" and platform.name == manifest.python.cpu.platform:
            raise Problem(
                f"no CPU wheel of torch {manifest.versions.torch} is recorded in images.toml",
                "add its hash and torchvision's to [python.cpu.sha256], or use TORCH=pypi",
            )
        return "pypi"
    (result,) = prober.ask(probes)
    say(result.line)
    if result.ok:
        return "cpu"
    if wanted == "cpu":
        raise Problem(
            f"PyTorch's CPU wheels are not in reach ({result.reason})", "try MIRROR=cn, or TORCH=pypi for PyPI's wheel"
        )
    return "pypi"


def pages(manifest: Manifest, network: NetworkSettings) -> tuple[str, ...]:
    """Return the pages that list the CPU wheels: the mirror's, else PyTorch's."""
    return network.torch_pages or tuple(manifest.python.cpu.pages)
