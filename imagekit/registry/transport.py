"""Requests to one registry: oras's provider with docker's manners (Basic or Bearer, a token per right, retries)."""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import oras.logger
import requests
from oras.auth.utils import parse_auth_header
from oras.provider import Registry

from imagekit.registry import trust
from imagekit.registry.credentials import Credentials, find_credentials
from imagekit.registry.errors import Unauthorised, Unreachable, Untrusted
from imagekit.registry.reference import DOCKER_HUB, HUB_HOST, is_loopback

TIMEOUT = (10.0, 120.0)  # seconds to connect, seconds without a byte
PAUSES = (0.5, 1.5, 4.0)  # seconds between attempts
AGAIN = (408, 429, 500, 502, 503, 504)
WRITES = ("PUT", "POST", "PATCH", "DELETE")

oras.logger.setup_logger(quiet=True)
log = logging.getLogger(__name__)


class Transport(Registry):  # type: ignore[misc]  # oras is not typed
    """One registry. Plain http is spoken on loopback only, and only when the server there does not speak TLS."""

    def __init__(
        self,
        host: str,
        *,
        environ: Mapping[str, str] = os.environ,
        root: Path = Path("/"),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nothing is asked yet.

        Args:
            host: with its port.
            environ: where DOCKER_CONFIG, SSL_CERT_FILE, REGISTRY_USER, ... are read.
            root: of the file system with etc/docker/certs.d.
            sleep: between attempts.
        """
        self.trust = trust.for_host(host, environ=environ, root=root)
        super().__init__(hostname=HUB_HOST if host == DOCKER_HUB else host, tls_verify=self.trust.bundle)
        self.host, self._environ, self._sleep = host, environ, sleep
        self.session.cert = self.trust.client
        self.session.trust_env = True  # proxies; ~/.netrc is overruled by the Authorization header that we set
        self._granted: dict[str, str] = {}
        self._credentials: Credentials | None = None
        self._asked = False

    @property
    def base(self) -> str:
        """`https://host/v2/`."""
        if not self._asked:
            self._asked = True
            if is_loopback(self.host):
                self.prefix = _scheme(self)
        return f"{self.prefix}://{self.hostname}/v2/"

    @property
    def credentials(self) -> Credentials | None:
        """What we would show if asked."""
        if self._credentials is None:
            self._credentials = find_credentials(self.host, self._environ)
        return self._credentials

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        stream: bool = False,
    ) -> requests.Response:
        """Send a request, again when the registry is busy or was not there, logging in when it asks for that.

        Raises:
            Unreachable: no answer, or `not now` to the end. Untrusted: its certificate.
            Unauthorised: 401 or 403.
        """
        for pause in (*PAUSES, None):
            try:
                answer = self._send(url, method, data, dict(headers or {}), json, stream)
            except requests.exceptions.SSLError as error:
                raise self._untrusted(error) from None
            except requests.exceptions.RequestException as error:
                if pause is None:
                    raise Unreachable(
                        f"registry {self.host} does not answer: {_reason(error)}", "is it running, is the network up?"
                    ) from None
            else:
                if answer.status_code not in AGAIN:
                    return answer
                if pause is None:
                    raise Unreachable(f"registry {self.host} answers {answer.status_code} {answer.reason}", "try later")
            self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _send(
        self, url: str, method: str, data: bytes | None, headers: dict[str, str], json: Any, stream: bool
    ) -> requests.Response:
        right = _right(url, method)
        for attempt in range(2):
            sent = headers | ({"Authorization": self._granted[right]} if right in self._granted else {})
            answer: requests.Response = self.session.request(
                method,
                url,
                data=data,
                json=json,
                headers=sent,
                stream=stream,
                verify=self._tls_verify,
                timeout=TIMEOUT,
                auth=_as_it_is,
            )
            if answer.status_code not in (401, 403):
                return answer
            if attempt or answer.status_code == 403:
                break
            self._granted[right] = self._log_in(answer.headers.get("Www-Authenticate", ""))
        raise self._unauthorised(right)

    def _log_in(self, challenge: str) -> str:
        """Return an Authorization header for a challenge."""
        known = self.credentials
        if challenge.lower().startswith("basic"):
            if known is None:
                raise self._unauthorised("")
            return known.basic
        asked = parse_auth_header(challenge)
        if not asked.realm or not (asked.realm.startswith("https://") or is_loopback(_host_of(asked.realm))):
            raise Unauthorised(f"registry {self.host} asks for credentials at a place without TLS", "none were sent")
        return f"Bearer {self._token(asked.realm, asked.service or '', asked.scope or '', known)}"

    def _token(self, realm: str, service: str, scope: str, known: Credentials | None) -> str:
        query = {name: value for name, value in (("service", service), ("scope", scope)) if value}
        common: dict[str, Any] = {"verify": self._tls_verify, "timeout": TIMEOUT}
        if known and known.identity:
            form = query | {
                "grant_type": "refresh_token",
                "refresh_token": known.password,
                "client_id": "rlinf-npu-images",
            }
            answer = self.session.post(realm, data=form, auth=_as_it_is, **common)
        else:
            head = {"Authorization": known.basic} if known else {}
            answer = self.session.get(realm, params=query, headers=head, auth=_as_it_is, **common)
        if answer.status_code >= 500:
            raise requests.exceptions.ConnectionError(f"its token service answers {answer.status_code}")
        if not answer.ok:
            raise self._unauthorised(scope)
        found = answer.json()
        return str(found.get("token") or found.get("access_token") or "")

    def _unauthorised(self, right: str) -> Unauthorised:
        what = "the credentials for it do not suffice" if self.credentials else "there are no credentials for it here"
        about = f" ({right})" if right else ""
        return Unauthorised(
            f"registry {self.host} says: not authorised{about}; {what}",
            f"docker login {self.host}, or set REGISTRY_USER and REGISTRY_PASSWORD beside REGISTRY",
        )

    def _untrusted(self, error: Exception) -> Untrusted:
        return Untrusted(
            f"registry {self.host}: its TLS certificate is not trusted: {_reason(error)}",
            f"put its CA into /etc/docker/certs.d/{self.host}/ca.crt, or set SSL_CERT_FILE to a bundle that has it",
        )


def _scheme(transport: Transport) -> str:
    """Ask a server on loopback whether it speaks TLS. A certificate that is not trusted is no reason to do without."""
    try:
        transport.session.get(
            f"https://{transport.hostname}/v2/", verify=transport._tls_verify, timeout=TIMEOUT, auth=_as_it_is
        )
    except requests.exceptions.SSLError as error:
        return "http" if re.search(r"WRONG_VERSION_NUMBER|RECORD.LAYER|HTTP_REQUEST", str(error), re.I) else "https"
    except requests.exceptions.RequestException:
        return "https"  # the real request says what is wrong
    return "https"


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """As `auth`: keeps requests from adding what ~/.netrc says."""
    return request


def _right(url: str, method: str) -> str:
    """`repository:namespace/name:pull`: what a token is good for."""
    match = re.search(r"/v2/(.+?)/(?:manifests|blobs|tags|referrers)/", url)
    return f"repository:{match[1] if match else '?'}:{'push' if method in WRITES else 'pull'}"


def _host_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _reason(error: BaseException) -> str:
    """The innermost cause, without addresses of Python objects."""
    inner: Any = error
    while (
        deeper := getattr(inner, "reason", None) or (inner.args[0] if getattr(inner, "args", ()) else None)
    ) and isinstance(deeper, BaseException):
        inner = deeper
    text = re.sub(
        r"^<[^>]*>:\s*|^\w*Connection\w*\([^)]*\):\s*|\[Errno [^]]*\]\s*|\[SSL[^]]*\]\s*|\s*\(_ssl\.c.*", "", str(inner)
    )
    return text.strip("'\"()")[:160]
