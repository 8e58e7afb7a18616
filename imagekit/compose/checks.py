"""Settings of .env that have a form: refused here by name, where Compose or the engine would name something else."""

import re
from dataclasses import dataclass

from imagekit.compose.settings import NAMES, Settings
from imagekit.errors import Problem
from imagekit.manifest import Devices


@dataclass(frozen=True)
class Form:
    """How a setting is written; `example` completes "write ..., for example"."""

    pattern: str
    what: str
    example: str


FORMS = {
    "tensorboard_port": Form(r"[1-9]\d{0,4}", "a port", "a number below 65536, for example TENSORBOARD_PORT=6006"),
    "shm_size": Form(
        r"0*[1-9]\d*(\.\d+)? ?([kmgt]i?b?|b)?", "a size", "a number with k, m or g, for example SHM_SIZE=32g"
    ),
    # Handed to the kernel's tmpfs as it is, which knows fewer units than Docker.
    "tmp_size": Form(r"0*[1-9]\d*[kmg]?", "a size", "a whole number with k, m or g, for example TMP_SIZE=16g"),
    "stop_grace": Form(
        r"(\d+(\.\d+)?(h|m|s|ms))+",
        "a time with its unit",
        "h, m, s or ms after each number, for example STOP_GRACE=360s",
    ),
    "network": Form(r"bridge|host|none", "a network for training", "bridge, host or none, for example NETWORK=bridge"),
    "hung_seconds": Form(r"0*[1-9]\d*(\.\d+)?", "a number of seconds", "1 or more, for example HUNG_SECONDS=900"),
}


def check_forms(settings: Settings) -> None:
    """Refuse a value that nobody downstream could read.

    Raises:
        Problem: names the key, the value and an example.
    """
    for field, form in FORMS.items():
        value = getattr(settings, field)
        if value and not re.fullmatch(form.pattern, value, re.IGNORECASE):
            raise _wrong(field, value, form)
    if int(settings.tensorboard_port) > 65535:
        raise _wrong("tensorboard_port", settings.tensorboard_port, FORMS["tensorboard_port"])


def _wrong(field: str, value: str, form: Form) -> Problem:
    return Problem(f"{NAMES[field]}={value} is not {form.what}", f"write {form.example}", usage=True)


def owner(settings: Settings, devices: Devices) -> tuple[int, int]:
    """Return uid and gid of the containers.

    Raises:
        Problem: RUN_AS is not uid:gid.
    """
    uid, _, gid = (settings.run_as or f"{devices.uid}:{devices.gid}").partition(":")
    if not uid.isdigit() or not (gid.isdigit() or not gid):
        raise Problem(f"RUN_AS={settings.run_as} is not uid:gid", "write numbers, for example 1000:1000", usage=True)
    return int(uid), int(gid or 0)
