"""Names of the images, after the vendor's grammar `<version>-<cann>-<chip>-<os>-py<python>`."""

from dataclasses import dataclass

from imagekit.manifest import Installer, Manifest, Platform

SIM, UNFIXED, UPSTREAM = "-sim", "-unfixed", "-upstream"


@dataclass(frozen=True)
class Flavour:
    """What distinguishes one build of the chain from another in its tags."""

    base: str  # cann | sim
    os: str
    rlinf: str  # version, with the commit for a git tree
    revision: str  # of this repository
    platform: Platform
    native: bool
    fixes: bool = True
    installer: Installer = "lock"

    @property
    def suffix(self) -> str:
        """Images by RLinf's own installer, unfixed ones and simulated ones say so in every tag."""
        installer = UPSTREAM if self.installer == "upstream" else ""
        return installer + ("" if self.fixes else UNFIXED) + (SIM if self.base == "sim" else "")


def cann_part(manifest: Manifest, os: str) -> str:
    """Return `8.3.rc1-910b-debian12-py3.11`, the vendor's own tag."""
    v = manifest.versions
    return f"{v.cann}-{v.chip}-{os}-py{v.python_series}"


def tags(manifest: Manifest, image: str, flavour: Flavour) -> list[str]:
    """Return the tags of one image: the readable one, and the immutable one that ends in our revision.

    A foreign platform's local tags carry its architecture, so that they never replace this machine's own image.
    """
    base = cann_part(manifest, flavour.os)
    stem = f"{flavour.rlinf}-cann{base}" if image == "rlinf-npu" else base
    arch = "" if flavour.native else f"-{flavour.platform.arch}"
    return [f"{image}:{stem}{arch}{flavour.suffix}", f"{image}:{stem}-{flavour.revision}{arch}{flavour.suffix}"]
