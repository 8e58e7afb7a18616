"""What is looked at whenever a tiny image is gated."""

from tests.e2e.tiny_suite.tiny import shell


def test_no_secret() -> None:
    assert shell("ls /secret 2>/dev/null || true") == ""
