"""A small registry client: what publishing and pulling share."""

from imagekit.registry.client import Descriptor, File, Manifest, RegistryClient, canonical, digest_of
from imagekit.registry.credentials import Credentials, engine_login, find_credentials
from imagekit.registry.errors import Altered, NotFound, Refused, Unauthorised, Unreachable, Untrusted
from imagekit.registry.reference import Reference, is_loopback, parse

__all__ = [
    "Altered",
    "Credentials",
    "Descriptor",
    "File",
    "Manifest",
    "NotFound",
    "Reference",
    "Refused",
    "RegistryClient",
    "Unauthorised",
    "Unreachable",
    "Untrusted",
    "canonical",
    "digest_of",
    "engine_login",
    "find_credentials",
    "is_loopback",
    "parse",
]
