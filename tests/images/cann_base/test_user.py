"""Root, and the user that owns the device nodes on an Ascend host."""

from tests.images.support.container import Container
from tests.images.support.subjects import Subject, manifest

OWNER = manifest().devices
SHARED = ("/tmp", "/var/tmp", "/run/lock")


def test_passwd_entry(idle: Container) -> None:
    """vllm-ascend#9490: HCCL refuses a uid without one."""
    name, _, uid, gid, _, home, shell = idle.exec(["getent", "passwd", str(OWNER.uid)]).out.strip().split(":")
    assert (name, int(uid), int(gid)) == (OWNER.owner, OWNER.uid, OWNER.gid)
    assert shell == "/bin/bash"
    folder = idle.host.file(home)
    assert folder.is_directory
    assert (folder.uid, folder.gid) == (OWNER.uid, OWNER.gid)


def test_group_entry(idle: Container) -> None:
    assert idle.exec(["getent", "group", str(OWNER.gid)]).out.split(":")[0] == OWNER.owner


def test_root_is_the_default(subject: Subject, idle: Container) -> None:
    assert subject.config["User"] in ("", "root", "0")
    assert idle.exec(["id", "-u"]).out.strip() == "0"


def test_no_other_accounts_with_a_shell_or_password(idle: Container) -> None:
    shells = idle.sh("grep -vE '(nologin|false|sync)$' /etc/passwd | cut -d: -f1").out.split()
    assert sorted(shells) == sorted(["root", OWNER.owner])
    assert idle.sh("cut -d: -f2 /etc/shadow | grep -vE '^[*!]*$'").out == ""


def test_the_owner_gets_its_home_and_can_write_there_and_in_the_work_folder(subject: Subject, idle: Container) -> None:
    done = idle.sh(
        'cd "$HOME" && touch here && cd - >/dev/null && touch here && pwd && rm here "$HOME/here"', user=str(OWNER.uid)
    )
    assert done.ok, done.err
    assert done.out.strip() == subject.config["WorkingDir"]


def test_the_owner_may_not_write_outside(subject: Subject, idle: Container) -> None:
    """What a training job runs as must not be able to change what it runs."""
    find = "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/dev/*' 2>/dev/null"
    writable = [path for path in idle.sh(find, user=str(OWNER.uid)).out.split() if not subject.is_asset(path)]
    allowed = (f"/home/{OWNER.owner}", "/workspace")
    assert [path for path in writable if not path.startswith(allowed) and path not in SHARED] == []
