"""Who fills the Python environment: our lock, or RLinf's own requirements/install.sh (INSTALLER=upstream)."""

import fnmatch
from pathlib import Path

from imagekit.errors import Problem
from imagekit.manifest import Installer, Manifest, Mirror
from imagekit.network import GITHUB, NetworkSettings
from imagekit.probe import Probe, Prober, probe_git, probe_index
from imagekit.process import Say

CHOICES: tuple[Installer, ...] = ("lock", "upstream")
SCRIPT = "requirements/install.sh"


def check_wanted(wanted: str, source: str, torch: str) -> Installer:
    """Return the installer called `wanted`, before anything is looked for.

    Raises:
        Problem: no such installer, or settings that it cannot follow.
    """
    installer = next((choice for choice in CHOICES if choice == wanted), None)
    if installer is None:
        raise Problem(f"INSTALLER={wanted!r} is not an installer", f"use {' or '.join(CHOICES)}", usage=True)
    if installer == "lock":
        return installer
    if source == "pypi":
        raise Problem(
            f"INSTALLER=upstream runs RLinf's {SCRIPT}, which SOURCE=pypi does not have",
            "use SOURCE=git, or SOURCE=<folder> with a checkout of RLinf",
            usage=True,
        )
    if source not in ("auto", "git") and not (Path(source).expanduser() / SCRIPT).is_file():
        raise Problem(f"SOURCE={source} holds no {SCRIPT}", "name the top of an RLinf checkout", usage=True)
    if torch == "cpu":
        raise Problem(
            "INSTALLER=upstream takes torch from where RLinf's install.sh says, not from where TORCH=cpu does",
            "leave TORCH out, or use INSTALLER=lock",
            usage=True,
        )
    return installer


def as_installed(manifest: Manifest, installer: str) -> Manifest:
    """Return the manifest as this installer leads to: exclusions, known complaints about them, size of the result."""
    if installer != "upstream":
        return manifest
    exclude = [
        entry.model_copy(update={"names": names})
        for entry in manifest.python.exclude
        if (names := [name for name in entry.names if is_stripped(manifest, name)])
    ]
    known = [*manifest.python.check_exception, *manifest.upstream.check_exception]
    python = manifest.python.model_copy(update={"exclude": exclude, "check_exception": known})
    *below, last = manifest.image
    images = [*below, last.model_copy(update={"budget_mib": manifest.upstream.budget_mib})]
    return manifest.model_copy(update={"python": python, "image": images})


def is_stripped(manifest: Manifest, name: str) -> bool:
    """Return whether a package is uninstalled again after RLinf's installer."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in manifest.upstream.strip)


def upstream_probes(
    manifest: Manifest, installer: Installer, mirror: Mirror | None, network: NetworkSettings, seconds: float
) -> list[Probe]:
    """Return what RLinf's installer will need: its git repositories and pages, by the mirrors it would use itself."""
    if installer != "upstream":
        return []
    env = network.env()
    pages = [_mirrored(page, mirror) for page in manifest.upstream.pages]
    return [
        *(probe_git(url, env) for url in manifest.upstream.git),
        *(probe_index(page, page, env, seconds) for page in pages),
    ]


def check_reach(manifest: Manifest, source: str, probes: list[Probe], prober: Prober, say: Say) -> None:
    """Show what is in reach of RLinf's installer.

    A folder of the user's own may hold an installer that fetches from elsewhere: there it is said and nothing more.

    Raises:
        Problem: an address that the installer of the manifest's commit needs does not answer; all of them are named.
    """
    results = prober.ask(probes)
    for result in results:
        say(result.line)
    silent = [result.name for result in results if not result.ok]
    if not silent:
        return
    if source not in ("auto", "git"):
        say(f"note: RLinf's own {SCRIPT} of {manifest.rlinf.revision[:12]} would need what is not in reach above.")
        return
    raise Problem(
        f"RLinf's installer needs what does not answer: {', '.join(silent)}",
        "check network and proxy, try MIRROR=cn, or use INSTALLER=lock, which needs Python packages only",
    )


def _mirrored(page: str, mirror: Mirror | None) -> str:
    """Where install.sh --use-mirror would go instead; PyTorch's index it asks in any case."""
    if mirror and page.startswith(GITHUB):
        return mirror.git_prefix + page
    if mirror and page.startswith("https://huggingface.co/"):
        return page.replace("https://huggingface.co", mirror.huggingface, 1)
    return page
