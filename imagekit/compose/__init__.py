"""What compose.yaml cannot say by itself: this host's cards and the image built here, as generated Compose files."""

from imagekit.compose.cards import parse_npus
from imagekit.compose.generate import CARDS_FILE, OVERRIDE_FILE, Written, generate

__all__ = ["CARDS_FILE", "OVERRIDE_FILE", "Written", "generate", "parse_npus"]
