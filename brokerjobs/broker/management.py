"""The one thing that only RabbitMQ's management API tells: the consumer time-out that a policy gives a queue."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any, Final, cast

from yarl import URL

from brokerjobs.errors import BrokerUnavailable, ConfigurationError, PermissionDenied

_SECONDS: Final = 10.0
_MOST_BYTES: Final = 16_777_216
_UNAUTHORIZED: Final = frozenset({401, 403})
_KEY: Final = "consumer-timeout"


def consumer_timeouts(management_url: str, broker_url: str) -> dict[str, timedelta]:
    """The consumer time-outs that policies give queues of the broker's virtual host, by queue; most have none.

    User and password are those of `management_url`, else those of `broker_url`.  Blocks, for ten seconds at most.
    Raises BrokerUnavailable, PermissionDenied, ConfigurationError; no message has the password.
    """
    found: dict[str, timedelta] = {}
    for queue in _queues(management_url, broker_url):
        policy: dict[str, Any] = queue.get("effective_policy_definition") or {}
        if isinstance(timeout := policy.get(_KEY), int):
            found[str(queue["name"])] = timedelta(milliseconds=timeout)
    return found


def _queues(management_url: str, broker_url: str) -> list[dict[str, Any]]:
    where, broker = URL(management_url), URL(broker_url)
    shown = str(where.with_user(None).with_query(None))
    if where.scheme not in {"http", "https"} or not where.host:
        message = "the management URL is not of the form http://user:password@host:port"
        raise ConfigurationError(message)
    login = where if where.user else broker
    virtual_host = broker.path.removeprefix("/") or "/"
    address = str((where.with_user(None) / "api" / "queues").joinpath(virtual_host.replace("/", "%2F"), encoded=True))
    request = urllib.request.Request(f"{address}?columns=name,effective_policy_definition")  # noqa: S310  # http, above
    token = base64.b64encode(f"{login.user or 'guest'}:{login.password or 'guest'}".encode()).decode()
    request.add_header("Authorization", f"Basic {token}")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # ditto
            told = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        if error.code in _UNAUTHORIZED:
            message = f"{shown} refused the login ({error.code}); its user needs the tag `monitoring` or `management`"
            raise PermissionDenied(message) from None
        raise BrokerUnavailable(f"{shown} answered {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise BrokerUnavailable(f"{shown} gave no answer that can be read ({error})") from None
    return cast("list[dict[str, Any]]", told) if isinstance(told, list) else []
