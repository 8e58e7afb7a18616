"""Who we are to a registry: docker's own store, or two variables. Nothing here is ever printed or put in arguments."""

import base64
import binascii
import json
import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imagekit.errors import Problem
from imagekit.registry.reference import DOCKER_HUB, HUB_HOST

HUB_KEY = "https://index.docker.io/v1/"  # docker's own name for Docker Hub in its store
USER, PASSWORD, HOST = "REGISTRY_USER", "REGISTRY_PASSWORD", "REGISTRY"
HELPER_SECONDS = 30
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Credentials:
    """A user and a password, or a refresh token (`identity`) in place of a password."""

    user: str
    password: str = field(repr=False)
    identity: bool = False

    @property
    def basic(self) -> str:
        """Value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def engine_login(login: Credentials | None) -> dict[str, str] | None:
    """Return a login in the form that the Docker SDK hands to the engine; None for anonymous."""
    if login is None:
        return None
    return {"identitytoken": login.password} if login.identity else {"username": login.user, "password": login.password}


def find_credentials(host: str, environ: Mapping[str, str] = os.environ) -> Credentials | None:
    """Return what docker would use for `host`, None for nothing (anonymous).

    REGISTRY_USER and REGISTRY_PASSWORD go before docker's store, and to the host of REGISTRY only: no other registry,
    a mirror for instance, ever sees them.

    Raises:
        Problem: docker's config.json, or what a credential helper says, is not readable.
    """
    if environ.get(USER) and environ.get(PASSWORD) and environ.get(HOST, "").partition("/")[0] == host:
        return Credentials(environ[USER], environ[PASSWORD])
    config = read_config(environ)
    for key in names(host):
        if found := _ask_helper(config, key, environ) or _inline(config, key):
            return found
    return None


def names(host: str) -> list[str]:
    """The keys that docker may have stored a host under."""
    if host in (DOCKER_HUB, HUB_HOST):
        return [HUB_KEY, DOCKER_HUB]
    return [host, f"https://{host}", f"http://{host}"]


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where docker's client keeps its configuration."""
    return Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME") or Path.home(), ".docker"))


def read_config(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Read docker's config.json; nothing when there is none.

    Raises:
        Problem: not JSON, or not readable.
    """
    path = config_folder(environ) / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not JSON"
        raise Problem(
            f"docker's {path.name} cannot be read: {reason}", "repair it, or log in again: docker login"
        ) from None
    return found if isinstance(found, dict) else {}


def _inline(config: Mapping[str, Any], key: str) -> Credentials | None:
    entry = (config.get("auths") or {}).get(key) or {}
    try:
        user, _, password = base64.b64decode(entry.get("auth") or "", validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise Problem(f"docker's entry for {key} is not readable", "docker logout, then docker login") from None
    if token := entry.get("identitytoken"):
        return Credentials(user, token, identity=True)
    password = password.rstrip("\0")
    return Credentials(user, password) if user and password else None


def _ask_helper(config: Mapping[str, Any], key: str, environ: Mapping[str, str]) -> Credentials | None:
    """Ask docker-credential-NAME; the protocol is a line in, a JSON document out."""
    helper = (config.get("credHelpers") or {}).get(key) or config.get("credsStore")
    if not helper:
        return None
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=key,
            capture_output=True,
            text=True,
            check=False,
            timeout=HELPER_SECONDS,
            env=dict(environ),
        )
    except FileNotFoundError:
        raise Problem(
            f"docker is set to use {program}, which is not installed", "install it, or docker login"
        ) from None
    except subprocess.TimeoutExpired:
        raise Problem(f"{program} did not answer within {HELPER_SECONDS} s", "unlock it, then again") from None
    if done.returncode:  # `credentials not found` and its kind: another key may do
        log.debug("%s has nothing for %s", program, key)
        return None
    try:
        answer = json.loads(done.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError):
        raise Problem(f"{program} gave no credentials but something else", "docker login again") from None
    return Credentials(user, secret, identity=user == "<token>") if secret else None
