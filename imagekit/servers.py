"""The servers that a build on this machine would ask: for `make doctor`, which looks whether they answer."""

import os
import sys
from urllib.parse import urlsplit, urlunsplit

from imagekit.errors import Problem
from imagekit.lookup import pick_mirror
from imagekit.manifest import Manifest, load_manifest
from imagekit.network import GITHUB, NetworkSettings
from imagekit.registry.reference import DOCKER_HUB, HUB_HOST
from imagekit.rlinf_source import PYPI


def server_urls(manifest: Manifest, network: NetworkSettings) -> list[str]:
    """URLs of the package index, Debian's archive, RLinf's git server and the vendor image's registries.

    Without user and password: any answer tells that the server is there.
    """
    archive = f"{network.apt.rstrip('/')}/debian" if network.apt else manifest.base.sim.archive
    git = manifest.rlinf.git
    if network.git_prefix and git.startswith(GITHUB):
        git = network.git_prefix + git
    repositories = network.repositories or manifest.base.cann.repositories
    hosts = [repository.partition("/")[0] for repository in repositories]
    registries = [f"https://{HUB_HOST if host == DOCKER_HUB else host}/v2/" for host in hosts]
    return [_bare(url) for url in [network.index or PYPI, archive, git, *registries]]


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def main() -> None:
    """Print them, one in a line; MIRROR and USE_MIRRORS mean what they mean for a build."""
    try:
        manifest = load_manifest()
        mirror = pick_mirror(manifest, os.environ.get("MIRROR", ""))
        print("\n".join(server_urls(manifest, NetworkSettings.from_host(mirror))))
    except Problem as problem:
        print(f"error: {problem.what}\n  fix: {problem.fix}", file=sys.stderr)
        sys.exit(problem.exit_code)


if __name__ == "__main__":
    main()
