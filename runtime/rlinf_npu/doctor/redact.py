"""Take secrets out of text before it leaves the machine.

Two nets: the values of variables with secret names are removed wherever they occur, and known forms of secrets are
removed whatever they are called.
"""

import base64
import json
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

MASK = "[redacted]"
_SHORTEST = 4  # a shorter value would blank out half the text

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|(api|access|private|auth|license|account|ssh|signing)_?key|credential|auth(?!or)|cookie|"
    r"netrc|bearer|_pat$|^pat$|session_?id|webhook|dsn|connection_?string",
    re.IGNORECASE,
)
# Repetitions that meet others are bounded, and begin only where a word does: long lines would take forever otherwise.
_FORMS = [
    # user:password@host and token@host in any URL; a password may have an @ of its own
    (re.compile(r"(?<=://)[^/\s'\"]+@"), f"{MASK}@"),
    # the same without a scheme, as proxies are often written: user:password@host:3128
    (re.compile(r"(?<![\w/.%+-])[\w.%+-]{1,100}:[^\s/'\"]{1,200}@(?=[\w.-]{1,200}:\d+\b)"), f"{MASK}@"),
    # signed URLs
    (re.compile(r"([?&](?:X-Amz-[\w-]+|sig|signature|se|key|code)=)[^&\s'\"]+", re.IGNORECASE), rf"\1{MASK}"),
    # ~/.netrc, on one line or several, where wandb keeps its key; and its command
    (re.compile(r"(\bmachine\s+\S+\s+login\s+\S+\s+(?:account\s+\S+\s+)?password\s+)\S+"), rf"\1{MASK}"),
    (re.compile(r"(\b(?:wandb|huggingface-cli|hf auth)\s+login\s+(?:--\S+\s+)*)\S+"), rf"\1{MASK}"),
    # key: value, key=value, "key": "value" with a secret key
    (
        re.compile(
            r"((?<![\w-])(?:[\w-]{0,100}(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization|cookie)"
            r"[\w-]{0,100})[\"']?\s{0,100}[:=]\s{0,100})(?:\"[^\"]*\"|'[^']*'|(?:bearer\s+|basic\s+)?[^\s,;&}\]]+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"(--?(?:password|passwd|token|secret|api-key)[= ])\S+", re.IGNORECASE), rf"\1{MASK}"),
    # Docker's config.json keeps base64 of user:password under "auth"
    (re.compile(r"(\"(?:auth|identitytoken|registrytoken)\"\s*:\s*)\"[^\"]*\""), rf'\1"{MASK}"'),
    # well-known prefixes: GitHub, GitLab, Hugging Face, AWS, Slack, OpenAI-like, PyPI, Docker Hub, Weights & Biases
    (
        re.compile(
            r"\b(gh[pousr]_|github_pat_|glpat-|hf_|AKIA|ASIA|xox[abprs]-|sk-|pypi-|dckr_pat_|wandb_v\d_)"
            r"[A-Za-z0-9_-]{8,}"
        ),
        MASK,
    ),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"), MASK),
    # keys; of one whose beginning was cut off the rest up to its end
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MASK),
    (re.compile(r"\A(?:(?!-----BEGIN).)*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL), MASK),
]


def _forms_of(secret: str) -> set[str]:
    """A secret as it may occur in text: itself, its lines, and as JSON, URLs and base64 write it."""
    encoded = base64.b64encode(secret.encode()).decode()
    return {secret, *secret.splitlines(), json.dumps(secret)[1:-1], quote(secret, safe=""), quote(secret), encoded}


def _passwords(value: str) -> list[str]:
    """Passwords in a URL or proxy setting, as written and decoded: they may occur elsewhere without the URL."""
    written = re.findall(r"(?:^|//|\s)[^/\s:@]*:([^/\s]+)@", value)
    return [*written, *map(unquote, written)]


class Redactor:
    """Removes secrets; made once from the environment it protects."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Remember the values of variables with secret names."""
        secrets = [value for name, value in env.items() if self.is_secret_name(name)]
        secrets += [word for value in env.values() for word in _passwords(value)]
        values = {form for secret in secrets for form in _forms_of(secret) if len(form) >= _SHORTEST}
        self._values = sorted(values, key=len, reverse=True)  # a longer one may contain a shorter one

    @staticmethod
    def is_secret_name(name: str) -> bool:
        """Whether a variable's name promises a secret."""
        return bool(_SECRET_NAME.search(name))

    def text(self, text: str) -> str:
        """The text without secrets."""
        for value in self._values:
            text = text.replace(value, MASK)
        for pattern, replacement in _FORMS:
            text = pattern.sub(replacement, text)
        return text

    def environment(self, env: Mapping[str, str]) -> str:
        """name=value lines; secret names keep only the name."""
        lines = (
            f"{name}={MASK if self.is_secret_name(name) else self.text(value)}" for name, value in sorted(env.items())
        )
        return "\n".join(lines) + "\n"
