"""Reading the settings of a process, and saying what is wrong with them and where it was said."""

from __future__ import annotations

import difflib
import os
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel, ValidationError

from brokerjobs.errors import ConfigurationError
from brokerjobs.rules import texts
from brokerjobs.settings import CONFIG_VARIABLE, Settings, config_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails

_PREFIX: Final = "BROKERJOBS_"
# No settings: the place of the file, and what the tests and the demo alone read.
_NO_SETTINGS: Final = (CONFIG_VARIABLE, f"{_PREFIX}TEST_", f"{_PREFIX}DEMO_")
_SECRETS: Final = frozenset(
    {"database_url", "broker_url", "broker.management_url", "coordinator.database_url", "coordinator.broker_url"}
)
# A store's URL is refused where it has a secret, which may stand anywhere in it.
_NEVER_SHOWN: Final = frozenset({"artifacts.url", "artifacts.options"})
_SHOWN: Final = 80
# Whose names are the user's own.
_TABLES: Final = frozenset({"worker.capabilities", "artifacts.options"})


@dataclass(frozen=True, slots=True)
class _Given:
    """What each source says, by dotted key."""

    flags: Mapping[str, object]
    variables: Mapping[str, str]
    file: Mapping[str, object]


def load_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process: `flags` (by dotted key), then the environment, then brokerjobs.toml.

    Raises ConfigurationError with a line for each key that is unknown or wrong.
    """
    given = _Given(
        flags=dict(flags or {}),
        variables={name.upper(): value for name, value in os.environ.items() if name.upper().startswith(_PREFIX)},
        file=dict(_flat(_read_file())),
    )
    problems = sorted([*_unknown(given), *_not_text(given)])
    if not problems:
        try:
            return Settings(**_nested(given.flags))
        except ValidationError as error:
            problems = [_problem(one, given) for one in error.errors(include_url=False, include_context=False)]
    # Not raised from pydantic's error, which would show passwords in its input values.
    message = "the settings are wrong:"
    raise ConfigurationError(message, problems=tuple(problems))


def known_keys(model: type[BaseModel] = Settings, before: str = "") -> Iterator[str]:
    """Every key, dotted."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from known_keys(field.annotation, f"{before}{name}.")
        else:
            yield before + name


def variable_of(key: str) -> str:
    """The environment variable of a dotted key."""
    return _PREFIX + key.upper().replace(".", "__")


def _read_file() -> dict[str, Any]:
    file = config_file()
    if not file.exists() and CONFIG_VARIABLE not in os.environ:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"the settings file {file} cannot be read: {error}"
        raise ConfigurationError(message) from error


def _unknown(given: _Given) -> Iterator[str]:
    keys = list(known_keys())
    variables = {variable_of(key): key for key in keys}
    for key in given.flags.keys() - set(keys):
        yield f"{key} (a flag) is not a setting{_suggestion(key, keys)}"
    for key in given.file.keys() - set(keys):
        yield f"{key} ({config_file()}) is not a setting{_suggestion(key, keys)}"
    for name in given.variables.keys() - variables.keys():
        if not name.startswith(_NO_SETTINGS):
            yield f"{name} (environment) is not a setting{_suggestion(name, list(variables))}"


def _not_text(given: _Given) -> Iterator[str]:
    """Values that neither server could be told, found before either is asked."""
    for key in known_keys():
        said, origin = _said(key, given)
        if isinstance(said, str) and texts.storable(said) != said:
            yield f"{key} ({origin}): has a NUL, or bytes that are not UTF-8"


def _suggestion(name: str, known: list[str]) -> str:
    separator = "__" if name.startswith(_PREFIX) else "."
    if inside := [one for one in known if one.startswith(name + separator)]:
        return f" but a group of them: {', '.join(inside)}"
    # First a key that was put in the wrong group, or in none.
    last = name.rpartition(separator)[2].removeprefix(_PREFIX)
    misplaced = [one for one in known if one.endswith(separator + last)]
    close = misplaced or difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _problem(detail: ErrorDetails, given: _Given) -> str:
    key = ".".join(str(step) for step in detail["loc"] if step in _steps())
    said, origin = _said(key, given)
    # What is no URL cannot be redacted in part.
    hidden = key in _NEVER_SHOWN or (key in _SECRETS and "://" not in str(said))
    shown = texts.REDACTED if hidden else texts.first_part(repr(said), _SHOWN)
    value = f" = {shown} ({origin})" if origin else ""
    return f"{key}{value}: {detail['msg'].removeprefix('Value error, ')}"


def _steps() -> set[str]:
    """The words of keys; pydantic's paths also name members of unions."""
    return {step for key in known_keys() for step in key.split(".")}


def _said(key: str, given: _Given) -> tuple[object, str]:
    if key in given.flags:
        return given.flags[key], "a flag"
    if variable_of(key) in given.variables:
        return given.variables[variable_of(key)], f"environment, {variable_of(key)}"
    if key in given.file:
        return given.file[key], str(config_file())
    return None, ""


def _flat(values: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if isinstance(value, dict) and before + key not in _TABLES:
            yield from _flat(cast("dict[str, object]", value), f"{before}{key}.")
        else:
            yield before + key, value


def _nested(flags: Mapping[str, object]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for key, value in flags.items():
        *groups, name = key.split(".")
        inner = whole
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    return whole
