"""Lets pamqp take `~` in the name of a queue: it stands before the lane, where no other part of a route's name has it.

pamqp refuses names that its reading of the AMQP specification does not list.  RabbitMQ takes any text (3.10 to 4.3).
"""

from __future__ import annotations

import re
from typing import Final

from pamqp import constants

_KEY: Final = "queue-name"
_NAME: Final = re.compile(r"[a-zA-Z0-9-_.:@#,/+ ~]*")


def install() -> None:
    """Allow it in this process; a repetition changes nothing."""
    constants.DOMAIN_REGEX[_KEY] = _NAME
