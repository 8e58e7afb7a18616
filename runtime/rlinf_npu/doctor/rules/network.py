"""Proxy and mirrors."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import HOST, Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.system import proxy_of
from rlinf_npu.doctor.tables import limits

_DOCKER_PROXY = "https://docs.docker.com/engine/cli/proxy/"
_LOOPBACK = {"localhost", "127.0.0.1"}


@rule(
    "proxy-unreachable",
    "Proxy",
    where=HOST,
    meaning="A proxy is configured but nobody answers there: downloads in builds will fail.",
    fix="Correct or unset http_proxy and https_proxy.",
    link=_DOCKER_PROXY,
)
def proxy_unreachable(ctx: Context) -> Iterator[Hit]:
    """The proxy's port accepts a connection."""
    for proxy in sorted({proxy_of(scheme, ctx.system.env) for scheme in ("http", "https")} - {""}):
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        place = f"{parts.hostname}:{_port(parts.netloc, parts.scheme)}"
        try:
            socket.create_connection(
                (parts.hostname or "", _port(parts.netloc, parts.scheme)), limits().network_seconds
            ).close()
        except OSError as error:
            yield Hit(f"{place}: {error}")


def _port(netloc: str, scheme: str) -> int:
    tail = netloc.rpartition("@")[2].rpartition(":")[2]
    return int(tail) if tail.isdigit() else (443 if scheme == "https" else 80)


@rule(
    "proxy-loopback",
    "Proxy and loopback",
    severity=Severity.WARNING,
    meaning="A proxy is set without an exception for loopback: connections inside the host (Ray's gRPC and dashboard) "
    "go to the proxy and fail.",
    fix="Set no_proxy and NO_PROXY to localhost,127.0.0.1 and the hosts of the job.",
    link="https://github.com/ray-project/ray/issues/14350",
)
def proxy_loopback(ctx: Context) -> Iterator[Hit]:
    """no_proxy names loopback."""
    env = ctx.system.env
    exceptions = {item.strip() for item in (env.get("no_proxy") or env.get("NO_PROXY") or "").split(",")}
    if any(proxy_of(scheme, env) for scheme in ("http", "https")) and not exceptions & (_LOOPBACK | {"*"}):
        yield Hit(f"proxy set, no_proxy={','.join(sorted(exceptions)) or '(empty)'}")


@rule(
    "mirror",
    "Servers that builds ask",
    where=HOST,
    needs=("mirrors",),
    severity=Severity.WARNING,
    meaning="A server that builds or pulls would use does not answer within the time limit; a build does without it "
    "where it can, and says so.",
    fix="MIRROR=cn switches to mirrors in China; behind a TLS proxy set SSL_CERT_FILE to the company's CA.",
    link="https://github.com/vllm-project/vllm-ascend/issues/8151",
)
def mirror(ctx: Context) -> Iterator[Hit]:
    """Those that do not answer; an error when none does."""
    silent = {url: answer.error for url, answer in ctx.mirrors.items() if not answer.reached}
    if silent:
        worst = Severity.ERROR if len(silent) == len(ctx.mirrors) else None
        yield Hit("\n".join(f"{url}: {error}" for url, error in silent.items()), severity=worst)
