"""What must not be stored or shown in the text of an error: secrets by their shape, and this process's own by value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REDACTED: Final = "***"

# What a name says: `password=x`, `'api_key': 'x'`, `x-auth-token: x`.  A bare `token:` or `secret:` is how parsers and
# people begin a sentence, so a colon counts after a quoted or a compound name alone.  Every repetition is bounded, so
# that hostile texts cost linear time.
_VALUE: Final = r"(?:\"[^\"]{1,512}\"|'[^']{1,512}'|[^\s,;&'\"(){}\[\]<>]{1,512})"
_NAME: Final = r"(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)"
_NAMED: Final = re.compile(
    rf"(?P<kept>{_NAME}(?:\s{{0,3}}=\s{{0,3}}|['\"]\s{{0,3}}[:=]\s{{0,3}})|(?<=[_-]){_NAME}\s{{0,3}}:\s{{0,3}}"
    rf"|(?:passw(?:or)?d|passphrase|api[_-]?key)\s{{0,3}}:\s{{0,3}})(?!\*\*\*){_VALUE}",
    re.IGNORECASE,
)
_AUTHORIZATION: Final = re.compile(r"(?P<kept>\b(?:Bearer|Basic)\s{1,3})[A-Za-z0-9._~+/=-]{8,4096}", re.IGNORECASE)
# Tokens that say themselves what they are, in the shapes that their issuers document: JSON Web Tokens (RFC 7519),
# access keys of AWS, tokens of GitHub, GitLab, Slack and Stripe, keys of Google, and private keys (RFC 7468).
_TOKENS: Final = re.compile(
    r"\beyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{0,4096}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,255}|\bgithub_pat_[A-Za-z0-9_]{20,255}|\bglpat-[A-Za-z0-9_-]{20,255}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,255}"
    r"|\b(?:sk|rk|pk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,255}"
    r"|\bAIza[A-Za-z0-9_-]{35}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,16384}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
)
# Shorter values are words as well, and would be cut out of every sentence.
_SHORTEST: Final = 6
_SECRET_VARIABLE: Final = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$", re.IGNORECASE
)


class OwnSecrets:
    """Secret values of one process, cut out of every text wherever they stand."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def hide(self, values: Iterable[str]) -> None:
        """Hides these values from now on, too; those of less than six characters stay visible."""
        found = self._values | {value for value in values if len(value) >= _SHORTEST}
        if found != self._values:
            # The longest first: one may begin with another.
            ordered = sorted(found, key=lambda value: (-len(value), value))
            self._values, self._pattern = found, re.compile("|".join(map(re.escape, ordered)))

    def hide_url(self, url: str) -> None:
        """Hides the password of a URL, as it is written and as it is meant."""
        try:
            parts = urlsplit(url)
            password = parts.password
        except ValueError:  # what is no URL has no password that could be told from the rest
            return
        # A user called like the password, as RabbitMQ's guest is, would be cut out of every message about that user.
        if password and unquote(password) != unquote(parts.username or ""):
            self.hide({password, unquote(password)})

    def hide_variables(self, variables: Mapping[str, str]) -> None:
        """Hides the values of environment variables that are called like secrets: `STRIPE_API_KEY`, `DB_PASSWORD`."""
        self.hide(value for name, value in variables.items() if _SECRET_VARIABLE.search(name))

    def cut_out(self, text: str) -> str:
        """The text without them."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)


own: Final = OwnSecrets()
"""Those of this process: its settings hide their URLs here when they are read, a worker its environment's."""


def without_tokens(text: str) -> str:
    """The text with what is called or shaped like a secret replaced by `***`."""
    text = _AUTHORIZATION.sub(rf"\g<kept>{REDACTED}", text)
    text = _TOKENS.sub(REDACTED, text)
    return _NAMED.sub(rf"\g<kept>{REDACTED}", text)
