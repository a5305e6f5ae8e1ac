"""What artifacts.options means to a bucket's library: what is secret, and what its client is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

# A request, with its body of a part at most, and its beginning.
_TIMES: Final[Mapping[str, Any]] = {"timeout": "30s", "connect_timeout": "5s"}
_CLIENT_KEYS: Final = frozenset({
    "allow_http", "timeout", "connect_timeout", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
    "root_certificate",
})  # fmt: skip
_ENDPOINTS: Final = ("endpoint", "aws_endpoint", "endpoint_url", "aws_endpoint_url", "aws_endpoint_url_s3",
                     "azure_storage_endpoint", "azure_endpoint")  # fmt: skip
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_ENDPOINT")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_VARIABLES: Final = ("AWS_", "AZURE_", "GOOGLE_")
_SECRET_ENDINGS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHOWN: Final = _CLIENT_KEYS | frozenset(_ENDPOINTS) | {
    "region", "aws_region", "default_region", "aws_default_region", "bucket", "virtual_hosted_style_request",
    "account_name", "azure_storage_account_name",
}  # fmt: skip
_URLS: Final = frozenset(_ENDPOINTS) | {"proxy_url"}


def parted(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """What is for the store, and what for its client; raises ConfigurationError for one that others hear."""
    config: dict[str, str] = {}
    client: dict[str, Any] = dict(_TIMES)
    for key, value in options.items():
        (client if key.lower() in _CLIENT_KEYS else config)[key.lower()] = value
    _decide_http(config, client)
    return config, client


def hide(options: Mapping[str, str]) -> None:
    """No text of this process shows them from now on, nor those of the environment."""
    secrets.own.hide(value for key, value in options.items() if key.lower() not in _SHOWN)
    for key, value in options.items():
        if key.lower() in _URLS:
            secrets.own.hide_url(value)
    secrets.own.hide(
        value for name, value in os.environ.items() if name.startswith(_VARIABLES) and name.endswith(_SECRET_ENDINGS)
    )


def _decide_http(config: Mapping[str, Any], client: dict[str, Any]) -> None:
    """Without TLS to this machine itself alone, or where options allow it."""
    said = [config[key] for key in _ENDPOINTS if key in config]
    endpoint = next(iter(said or [os.environ[name] for name in _ENDPOINT_VARIABLES if name in os.environ]), "")
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    if "allow_http" in client:
        client["allow_http"] = str(client["allow_http"]).lower() in {"true", "1", "yes"}
    elif parts.scheme == "http" and host in _LOOPBACK:
        client["allow_http"] = True
    elif parts.scheme == "http" and said:
        message = (
            f"artifacts.options: the endpoint http://{host} is without TLS: secrets and artifacts could be read on "
            "their way; give it as https://, or set allow_http to true"
        )
        raise ConfigurationError(message)
