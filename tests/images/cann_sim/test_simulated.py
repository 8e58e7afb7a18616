"""Nobody can take a simulated image for a real one."""

import pytest

from imagekit.tags import SIM
from tests.images.support.container import Container
from tests.images.support.subjects import Subject, manifest


def test_label_says_simulated(subject: Subject) -> None:
    assert subject.simulated
    assert subject.label("base") == "sim"


def test_every_tag_says_sim(subject: Subject) -> None:
    if not subject.tags:
        pytest.skip("image given by IMAGE: its tags are not recorded")
    assert all(tag.endswith(SIM) for tag in subject.tags)


def test_a_started_container_says_simulated(subject: Subject) -> None:
    with subject.run(["true"]) as container:
        assert container.wait(20) == 0
        out, err = container.logs()
    assert out == ""
    assert "simulated" in err.lower()


@pytest.mark.parametrize("file", ["ascend-toolkit/latest/version.cfg", "nnal/atb/latest/version.info"])
def test_version_files_say_simulated_and_which(idle: Container, file: str) -> None:
    text = idle.host.file(f"/usr/local/Ascend/{file}").content_string
    assert "simulated" in text
    assert f"Version={manifest().versions.cann.upper()}" in text


def test_errors_say_simulated(idle: Container) -> None:
    """The stand-in's own error text, asked for without a card."""
    code = "import acl; print(acl.rt.set_device(99), acl.get_recent_err_msg())"
    hal = "LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$ASCEND_TOOLKIT_HOME/devlib"
    done = idle.sh(f"{hal} /usr/local/python{manifest().versions.python}/bin/python3 -c '{code}'")
    assert done.ok, done.err
    number, text = done.out.split(maxsplit=1)
    assert int(number) != 0
    assert "simulated" in text.lower()
