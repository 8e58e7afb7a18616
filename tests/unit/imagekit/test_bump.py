"""A bump changes images.toml and the locks together, by the compatibility table, or changes nothing."""

import http.server
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostkit import Said, Serve

from imagekit import bump, compat
from imagekit.errors import Problem
from imagekit.manifest import MANIFEST, Manifest, load_manifest
from imagekit.network import NetworkSettings

HASH = "ab" * 32


def plan(manifest: Manifest, name: str, version: str, **how: object) -> bump.Change:
    settings: dict[str, object] = {"force": False, "revision": "", "network": NetworkSettings()} | how
    return bump.plan_bump(manifest, name, version, **settings)  # type: ignore[arg-type]


def test_the_committed_pair_is_listed(manifest: Manifest) -> None:
    assert compat.is_listed(manifest)


@pytest.mark.parametrize("change", [{"cann": "8.2.rc1"}, {"torch_npu": "2.6.0"}, {"torch": "2.7.1"}, {"cann": "7.0"}])
def test_any_other_pair_is_not(manifest: Manifest, change: dict[str, str]) -> None:
    assert not compat.is_listed(manifest.model_copy(update={"versions": manifest.versions.model_copy(update=change)}))


def test_a_new_cann_brings_its_torch_npu_and_driver(manifest: Manifest) -> None:
    change = plan(manifest, "cann", "8.5.0")
    assert change.values == {"versions.cann": "8.5.0", "versions.driver": "25.5.0", "versions.torch_npu": "2.6.0.post5"}
    assert any(line.startswith("source: https://") for line in change.remarks)


@pytest.mark.parametrize(
    ("name", "version", "why"),
    [
        ("cann", "7.9", r"CANN 7\.9 is not in the compatibility table; known: .*8\.3\.RC1"),
        (
            "cann",
            "8.1.RC1",
            r"CANN 8\.1\.RC1 has no torch_npu for torch 2\.6\.0; .*2\.1\.0\.post12",
        ),
        ("torch-npu", "2.9.0", r"torch_npu 2\.9\.0 does not pair with CANN 8\.3\.rc1; it pairs with .*2\.6\.0\.post3"),
        ("cuda", "12", r"bump cuda: .*; use one of cann, torch-npu, rlinf"),
    ],
)
def test_unknown_pairs_are_refused_with_the_known_ones(manifest: Manifest, name: str, version: str, why: str) -> None:
    with pytest.raises(Problem, match=why):
        plan(manifest, name, version)


def test_force_takes_an_unlisted_cann_and_says_so(manifest: Manifest) -> None:
    change = plan(manifest, "cann", "7.9", force=True)
    assert change.values == {"versions.cann": "7.9"}
    assert "labels say unlisted" in change.remarks[0]


PAGE = {"files": [{"filename": "rlinf-0.3.1-py3-none-any.whl", "hashes": {"sha256": HASH}}]}


@pytest.fixture
def index(serve: Serve) -> NetworkSettings:
    """An index with one release of rlinf."""
    return NetworkSettings(index=f"http://{serve(lambda _: (200, json.dumps(PAGE).encode()))}/simple")


def test_rlinf_takes_the_hash_from_the_index(
    manifest: Manifest, index: NetworkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    change = plan(manifest, "rlinf", "0.3.1", revision="c" * 40, network=index)
    assert change.values == {"versions.rlinf": "0.3.1", "rlinf.pypi_sha256": HASH, "rlinf.revision": "c" * 40}
    with pytest.raises(Problem, match=r"the package index has no rlinf-0\.9\.9-py3-none-any\.whl"):
        plan(manifest, "rlinf", "0.9.9", network=index)


@pytest.fixture
def tls_index(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An index behind a certificate that no public authority has signed; its URL and that certificate."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(PAGE).encode())

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/simple", certificate
        server.shutdown()


@pytest.mark.programs
def test_the_index_is_asked_with_the_hosts_ca(tls_index: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    url, certificate = tls_index
    environ = {"PIP_INDEX_URL": url, "SSL_CERT_FILE": str(certificate)}
    assert bump.wheel_sha256("rlinf", "0.3.1", NetworkSettings.from_host(environ=environ)) == HASH
    with pytest.raises(Problem, match=r"does not say which wheels rlinf has \(SSLError\)"):
        bump.wheel_sha256("rlinf", "0.3.1", NetworkSettings(index=url))


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return Path(shutil.copy(MANIFEST, tmp_path / "images.toml"))


def test_only_the_values_change(toml: Path, said: Said) -> None:
    values = {"versions.cann": "8.5.0", "versions.torch_npu": "2.6.0.post5", "rlinf.revision": "c" * 40}
    seen: list[str] = []
    after = bump.apply(bump.Change(values), lambda new: seen.append(new.versions.cann), said, toml)
    assert seen == ["8.5.0"]
    assert after == load_manifest(toml)
    assert (after.versions.torch_npu, after.rlinf.revision) == ("2.6.0.post5", "c" * 40)
    before, now = (path.read_text(encoding="utf-8").splitlines() for path in (MANIFEST, toml))
    assert len([pair for pair in zip(before, now, strict=True) if pair[0] != pair[1]]) == 3


def test_a_set_that_cannot_be_resolved_changes_nothing(toml: Path, said: Said, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("old")

    def fail(_: Manifest) -> None:
        lock.write_text("half")
        raise Problem("uv could not resolve the set")

    change = bump.Change({"versions.cann": "8.5.0"})
    with pytest.raises(Problem, match="could not resolve"):
        bump.apply(change, fail, said, toml, lambda _: [lock])
    assert toml.read_bytes() == MANIFEST.read_bytes()
    assert lock.read_text() == "old"
    assert said[-1].startswith("nothing was changed")


def test_a_value_that_the_manifest_refuses_changes_nothing(toml: Path, said: Said) -> None:
    with pytest.raises(Problem, match=r"images\.toml: versions\.cann"):
        bump.apply(bump.Change({"versions.cann": "newest"}), lambda _: None, said, toml)
    assert toml.read_bytes() == MANIFEST.read_bytes()
