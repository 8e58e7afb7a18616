"""The Docker engine: the one that answers, or one that we install and start."""

from imagekit.engine.bringup import ensure_engine, stop_engine
from imagekit.engine.daemon import Daemon
from imagekit.engine.detect import find_engine
from imagekit.engine.model import Engine

__all__ = ["Daemon", "Engine", "ensure_engine", "find_engine", "stop_engine"]
