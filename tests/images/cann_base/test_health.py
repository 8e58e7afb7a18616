"""HEALTHCHECK: it notices a missing toolkit and a card that may not be opened. Cards: see rlinf_npu/devices."""

from tests.images.support.container import Container
from tests.images.support.subjects import Subject

SECOND = 1_000_000_000
FAST = {"interval": SECOND, "timeout": 5 * SECOND, "retries": 2, "start_period": 0}


def health(container: Container, seconds: float = 30) -> tuple[str, str]:
    """Wait for a verdict; return it with what the check last said."""
    container.until(lambda: container.state()["Health"]["Status"] != "starting", seconds)
    found = container.state()["Health"]
    return found["Status"], found["Log"][-1]["Output"].strip() if found["Log"] else ""


def test_the_image_has_a_health_check(subject: Subject) -> None:
    check = subject.config["Healthcheck"]
    assert check["Test"] == ["CMD", "container-health"]
    assert check["Timeout"] <= 10 * SECOND


def test_healthy(subject: Subject) -> None:
    with subject.run(healthcheck=FAST) as container:
        assert health(container) == ("healthy", "healthy")


def test_healthy_as_the_owner(subject: Subject) -> None:
    with subject.run(healthcheck=FAST, user="1000") as container:
        assert health(container)[0] == "healthy"


def test_unhealthy_without_the_toolkit(subject: Subject) -> None:
    with subject.run(healthcheck=FAST, environment={"ASCEND_TOOLKIT_HOME": "/nowhere"}) as container:
        status, said = health(container)
    assert status == "unhealthy"
    assert "/nowhere" in said
