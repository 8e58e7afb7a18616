"""What is known about the engine in use."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.tls import TLSConfig


@dataclass(frozen=True)
class Engine:
    """An engine that answers.

    Attributes:
        docker: argv prefix of the client.
        env: what a subprocess needs on top of our environment to reach this very engine and its own builder.
        endpoint: `unix://...`, `tcp://...` or `ssh://...`.
        version: of the engine; `buildx` and `compose` of the client's plugins, empty when a plugin is absent.
        arch: the engine's machine name, `x86_64` or `aarch64`.
        containerd_store: images are kept by containerd (multi-platform builds, OCI export), not in the old store.
        ours: started by us, so `stop_engine` may stop it.
        tls: folder with ca.pem, cert.pem and key.pem when the docker context has them.
    """

    docker: tuple[str, ...]
    env: dict[str, str]
    endpoint: str
    version: str
    buildx: str
    compose: str
    arch: str
    containerd_store: bool
    ours: bool = False
    tls: Path | None = field(default=None, repr=False)

    @property
    def local(self) -> bool:
        """True when the engine runs on this machine, so that its files and devices are ours to see."""
        return self.endpoint.startswith(("unix://", "npipe://"))

    def client(self, seconds: int | None = 60) -> DockerClient:
        """Connect the SDK to the same engine; by itself it does not follow contexts as the client does.

        Args:
            seconds: how long it may say nothing; None for work of which it says nothing for minutes (unpacking).

        Raises:
            docker.errors.DockerException: the engine has gone away.
        """
        limit: Any = seconds  # the stubs know no None
        if not self.tls:
            return DockerClient(
                base_url=self.endpoint, use_ssh_client=self.endpoint.startswith("ssh://"), timeout=limit
            )
        pair = (str(self.tls / "cert.pem"), str(self.tls / "key.pem"))
        config = TLSConfig(client_cert=pair, ca_cert=str(self.tls / "ca.pem"), verify=True)
        return DockerClient(base_url=self.endpoint, tls=config, timeout=limit)
