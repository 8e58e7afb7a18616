"""DATA_DIR and LOG_DIR: what of them is there, and what is made."""

import os
from pathlib import Path

from imagekit.compose.checks import owner
from imagekit.compose.settings import Settings
from imagekit.errors import Problem
from imagekit.manifest import Devices
from imagekit.process import Say


def check_folders(folder: Path, settings: Settings, devices: Devices, say: Say) -> None:
    """Look at both; make LOG_DIR, for the containers' user.

    A DATA_DIR that is not there is no obstacle to the simulated run. Of LOG_DIR only the last folder is made: where
    more is missing, the path is a typing error, or a disk that is not mounted.

    Raises:
        Problem: LOG_DIR is a file, or the folder that it lies in is not there.
    """
    _check_data(folder, settings.data_dir, say)
    logs = _at(folder, settings.log_dir)
    if logs.exists() and not logs.is_dir():
        raise Problem(f"LOG_DIR={settings.log_dir} is not a folder", "correct it in .env")
    uid, gid = owner(settings, devices)
    if not logs.exists():
        _make(logs, settings.log_dir, uid, gid, say)
    state = logs.stat()
    if uid not in (state.st_uid, 0) and not state.st_mode & 0o002:
        say(f"Note: {settings.log_dir} belongs to uid {state.st_uid}, the containers run as {uid}:")
        say(f"      chown {uid}:{gid} {settings.log_dir}, or RUN_AS={state.st_uid}:{state.st_gid} in .env")


def _check_data(folder: Path, data: str, say: Say) -> None:
    if not data:
        say("Note: DATA_DIR is not set, so only the simulated run will start; in .env, for example DATA_DIR=/data")
    elif not _at(folder, data).is_dir():
        say(f"Note: DATA_DIR={data} is not a folder, so nothing will start: correct it in .env")


def _make(logs: Path, given: str, uid: int, gid: int, say: Say) -> None:
    if not logs.parent.is_dir():
        raise Problem(
            f"LOG_DIR={given}: {logs.parent} is not there",
            "correct LOG_DIR in .env; only its last folder is made, for example LOG_DIR=./runs",
        )
    logs.mkdir()
    if os.geteuid() == 0:
        os.chown(logs, uid, gid)
    say(f"LOG_DIR={given} was not there: made it")


def _at(folder: Path, path: str) -> Path:
    """As Compose finds it: from the checkout, `~` being the home folder."""
    return folder / Path(path).expanduser()
