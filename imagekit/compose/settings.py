"""The settings that the generated files depend on: the environment, then .env, as Compose itself reads them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from imagekit.errors import Problem

LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*[=:]\s*(.*?)\s*")
YES, NO = {"1", "true", "yes", "on"}, {"", "0", "false", "no", "off"}


@dataclass(frozen=True)
class Settings:
    """What the user asked for; texts as they stand in .env."""

    npus: str = "all"
    privileged: str = ""
    runtime: str = ""
    image: str = ""
    project: str = ""
    data_dir: str = ""
    log_dir: str = "./runs"
    run_as: str = ""
    tensorboard_port: str = "6006"
    # Only looked at for typing errors; compose.yaml has the defaults.
    shm_size: str = ""
    tmp_size: str = ""
    stop_grace: str = ""
    network: str = ""
    hung_seconds: str = ""

    @property
    def summary(self) -> str:
        """The text that compose.yaml calls RLINF_NPU_SETTINGS; a container compares the two when it starts."""
        return f"NPUS={self.npus} PRIVILEGED={self.privileged} RUNTIME={self.runtime} IMAGE={self.image}"

    @property
    def is_privileged(self) -> bool:
        """PRIVILEGED as a truth value.

        Raises:
            Problem: neither yes nor no.
        """
        word = self.privileged.lower()
        if word not in YES | NO:
            raise Problem(f"PRIVILEGED={self.privileged} is neither 1 nor 0", "correct it in .env", usage=True)
        return word in YES

    @property
    def uses_ascend_runtime(self) -> bool:
        """True with RUNTIME=ascend.

        Raises:
            Problem: a runtime that we know nothing about.
        """
        if self.runtime not in ("", "ascend"):
            raise Problem(
                f"RUNTIME={self.runtime} is not a runtime for NPUs", "use RUNTIME=ascend or leave it empty", usage=True
            )
        return self.runtime == "ascend"


NAMES = {
    "npus": "NPUS",
    "privileged": "PRIVILEGED",
    "runtime": "RUNTIME",
    "image": "IMAGE",
    "project": "COMPOSE_PROJECT_NAME",
    "data_dir": "DATA_DIR",
    "log_dir": "LOG_DIR",
    "run_as": "RUN_AS",
    "tensorboard_port": "TENSORBOARD_PORT",
    "shm_size": "SHM_SIZE",
    "tmp_size": "TMP_SIZE",
    "stop_grace": "STOP_GRACE",
    "network": "NETWORK",
    "hung_seconds": "HUNG_SECONDS",
}


def read_settings(env_file: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Read .env (which may be missing) with the environment over it. An empty value is the default.

    Raises:
        Problem: a line that is no assignment, or a value of ours that refers to another variable.
    """
    values = _read_env_file(env_file) | dict(os.environ if environ is None else environ)
    found = {field: values[name] for field, name in NAMES.items() if values.get(name)}
    for field, value in found.items():
        if "$" in value:
            raise Problem(f"{NAMES[field]}={value}: variables in values are not looked up", "write the value itself")
    return Settings(**found)


def _read_env_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path.name} cannot be read: {error}", "see .env.example") from None
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if not match:
            raise Problem(f"{path.name} line {number}: {line.strip()!r} is not NAME=value", "see .env.example")
        values[match[1]] = _unquote(match[2])
    return values


def _unquote(text: str) -> str:
    """Quotes go; without quotes a blank and # begin a comment."""
    for quote in "'\"":
        if text.startswith(quote) and (end := text.find(quote, 1)) > 0:
            return text[1:end]
    return "" if text.startswith("#") else re.split(r"\s+#", text)[0].rstrip()
