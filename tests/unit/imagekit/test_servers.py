"""The servers that `make doctor` asks are those that a build would ask."""

import pytest

from imagekit import servers
from imagekit.manifest import Manifest
from imagekit.network import NetworkSettings


def test_the_originals(manifest: Manifest) -> None:
    urls = servers.server_urls(manifest, NetworkSettings())
    assert urls[:3] == ["https://pypi.org/simple", manifest.base.sim.archive, manifest.rlinf.git]
    assert {"https://quay.io/v2/", "https://registry-1.docker.io/v2/"} <= set(urls[3:])
    assert len(urls) == 3 + len(manifest.base.cann.repositories)


def test_a_mirror_replaces_them(manifest: Manifest) -> None:
    mirror = manifest.mirrors["cn"]
    network = NetworkSettings.from_host(mirror, environ={})
    assert servers.server_urls(manifest, network) == [
        mirror.pypi,
        f"{mirror.apt}/debian",
        mirror.git_prefix + manifest.rlinf.git,
        *(f"https://{repository.partition('/')[0]}/v2/" for repository in mirror.repositories),
    ]


def test_no_password_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("MIRROR", "USE_MIRRORS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:s3cret@index.example/simple")
    servers.main()
    out = capsys.readouterr().out
    assert "https://index.example/simple\n" in out
    assert "s3cret" not in out


def test_an_unknown_mirror_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRROR", "mars")
    with pytest.raises(SystemExit) as ended:
        servers.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: no mirrors called 'mars'\n  fix: ")
