"""What must not lie about in an image, and how big it may be."""

from collections.abc import Iterator

import pytest

from imagekit import apt_lock
from tests.images.support.container import Container
from tests.images.support.ours import only_ours, own_size
from tests.images.support.subjects import Subject, manifest

# Debian's and Ubuntu's own: account tools, mount, and the PAM and terminal helpers.
SET_ID = {
    "/usr/bin/chage",
    "/usr/bin/chfn",
    "/usr/bin/chsh",
    "/usr/bin/expiry",
    "/usr/bin/gpasswd",
    "/usr/bin/mount",
    "/usr/bin/newgrp",
    "/usr/bin/passwd",
    "/usr/bin/su",
    "/usr/bin/umount",
    "/usr/bin/wall",
    "/usr/sbin/pam_extrausers_chkpwd",
    "/usr/sbin/unix_chkpwd",
}
EMPTY = [
    "/tmp",
    "/var/tmp",
    "/var/lib/apt/lists",
    "/var/cache/apt",
    "/run/secrets",
    "/root/.cache",
    "/root/.config",
    "/root/.ssh",
]


@pytest.fixture(scope="module")
def idle(subject: Subject) -> Iterator[Container]:
    """A container of its own: what other files run in theirs (uv, for one) leaves files."""
    with subject.run() as container:
        yield container


def test_no_set_id_surprises(subject: Subject, idle: Container) -> None:
    found = set(idle.sh("find / -xdev -perm /6000 -type f").out.split())
    assert only_ours(subject, found - SET_ID) == set()


@pytest.mark.parametrize("folder", EMPTY)
def test_left_overs(subject: Subject, idle: Container, folder: str) -> None:
    found = idle.sh(f"[ ! -e {folder} ] || find {folder} -type f -size +0").out.split("\n")
    assert only_ours(subject, filter(None, found)) == set()


def test_no_logs(subject: Subject, idle: Container) -> None:
    """Log files of a build have its times in them: two builds of one tree would differ."""
    found = idle.sh("find /var/log -type f -size +0").out.split("\n")
    assert only_ours(subject, filter(None, found)) == set()


def test_no_package_manager_state_of_the_build(idle: Container) -> None:
    folders = (
        "/etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/sources.list.d /etc/pip.conf /etc/uv /root/.pip /root/.netrc"
    )
    text = idle.sh(f"grep -rsiE 'proxy|CAInfo|index-url|password' {folders}").out
    assert text == ""


def test_world_writable_only_where_it_belongs(subject: Subject, idle: Container) -> None:
    found = idle.sh("find / -xdev -perm -0002 ! -type l ! -path '/proc/*' ! -path '/dev/*'").out.split()
    found = [path for path in found if not subject.is_asset(path)]
    assert only_ours(subject, set(found) - {"/tmp", "/var/tmp", "/run/lock"}) == set()


def test_nothing_without_an_owner(subject: Subject, idle: Container) -> None:
    found = idle.sh("find / -xdev '(' -nouser -o -nogroup ')'").out.split("\n")
    assert only_ours(subject, filter(None, found)) == set()


def test_within_its_size_budget(subject: Subject) -> None:
    """On the vendor's base only what we add counts."""
    budget, size = subject.promised.get_image(subject.name).budget_mib, own_size(subject)
    assert size / 2**20 <= budget, f"{size / 2**20:.0f} MiB, the budget is {budget} MiB"


def test_what_differs_from_the_recorded_system_packages_is_on_record(idle: Container) -> None:
    name = idle.sh('. /etc/os-release; echo "$ID$VERSION_ID-$(dpkg --print-architecture).txt"').out.strip()
    lock = apt_lock.FOLDER / name
    if not lock.is_file():
        pytest.skip(f"no {name} records versions")
    shown = idle.sh("dpkg-query --show --showformat='${db:Status-Abbrev}${Package}=${Version}\\n'").out
    here = {line.split()[1] for line in shown.splitlines() if line.startswith("ii ")}
    recorded = {f"{package}={version}" for package, version in apt_lock.read_lock(lock).items()}
    assert set(idle.sh("cat /usr/share/rlinf-npu/apt-differs.txt").out.split()) == here - recorded


def test_passwords_do_not_say_on_which_day_the_image_was_built(subject: Subject, idle: Container) -> None:
    """shadow(5): the third field is the day of the last change."""
    day = manifest().apt.seconds // 86400
    lines = [line.split(":") for line in idle.sh("cat /etc/shadow", user="root").out.split()]
    assert [line[0] for line in lines if int(line[2] or 0) > day and only_ours(subject, ["/etc/shadow"])] == []
