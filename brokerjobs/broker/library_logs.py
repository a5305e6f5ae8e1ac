"""What aiormq logs about our connections is kept out of users' logs, whatever the level of their root logger.

At DEBUG it logs every frame with the message's body; at WARNING and above, with tracebacks, what our own log says in
one line.  Who wants it sets a level for the logger `aiormq`; other users of aiormq in the process are not affected.
"""

from __future__ import annotations

import logging
from functools import cache

from brokerjobs.broker.own_context import is_ours


@cache
def quieten() -> None:
    """Install the filter; once for the process."""
    for name in ("aiormq.connection", "aiormq.channel"):
        logging.getLogger(name).addFilter(_passes)


def _passes(_: logging.LogRecord) -> bool:
    return not is_ours() or logging.getLogger("aiormq").level != logging.NOTSET
