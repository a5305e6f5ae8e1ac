"""Finds the user's application: `module:attribute`, with the current folder on the path."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brokerjobs.app import App
from brokerjobs.cli.failures import ApplicationError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from brokerjobs.job_type import JobType

_FORM: Final = "an application is given as MODULE:APP, such as payments.contracts:jobs"


def load(target: str) -> App:
    """The application that `target` names; raises ApplicationError, which shows the error of the user's module.

    Handlers register themselves when their modules are imported, so the named module must import them.
    """
    module_name, colon, attribute = target.partition(":")
    if not (module_name and colon and attribute) or not module_name.replace(".", "_").isidentifier():
        message = f"{target!r} names no application: {_FORM}"
        raise ApplicationError(message, hint="name the module that has your App, and the App's name in it")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _imported(module_name)
    found: Any = module
    for step in attribute.split("."):
        if not hasattr(found, step):
            message = f"module {module_name!r} ({_file_of(module)}) has no {attribute!r}{_known(module)}"
            raise ApplicationError(message, hint=_suggested(module, target))
        found = getattr(found, step)
    if not isinstance(found, App):
        message = f"{target!r} is of type {type(found).__name__}, not a brokerjobs.App{_known(module)}"
        raise ApplicationError(message, hint=_suggested(module, target))
    return found


def declared_type(target: str, namespace: str | None, name: str, *, asked_for: bool) -> JobType[Any, Any] | None:
    """The job type that the application declares; raises UsageError and ApplicationError.

    None for another namespace than that of an application that nobody `asked_for`.
    """
    app = load(target)
    if namespace not in {None, app.namespace}:
        if not asked_for:
            return None
        message = f"{target} is the application of namespace {app.namespace!r}, not of {namespace!r}"
        raise UsageError(message, hint="name the application of that namespace with --app, or leave the namespace out")
    if name not in app.types:
        known = ", ".join(app.types) or "none"
        message = f"{target} declares no job type {name!r}; it declares: {known}"
        raise UsageError(message, hint="check the name, or name another application with --app")
    return app.types[name]


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            message = f"there is no module {error.name!r} in {Path.cwd()} or among the installed packages"
            hint = "run it in the folder that has the module, or set PYTHONPATH"
            raise ApplicationError(message, hint=hint) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> ApplicationError:
    last = "".join(traceback.format_exception_only(error)).strip().splitlines()
    words = last[-1] if isinstance(error, SyntaxError) or not str(error) else f"{type(error).__name__}: {error}"
    message = f"importing {name!r} failed{_place(error)}: {words}"
    return ApplicationError(message, hint=f"python -c 'import {name}' shows the same error; or --debug")


def _place(error: BaseException) -> str:
    """Return the user's own line from which the error came: the last one outside of libraries."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {_short(error.filename)}:{error.lineno}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [place for place in frames if _is_own(place[0])]
    if not own:
        return ""
    file, line = own[-1]
    return f" at {_short(file)}:{line}"


def _is_own(file: str) -> bool:
    libraries = (*sysconfig.get_paths().values(), str(Path(__file__).parents[1]))
    return not file.startswith("<") and not file.startswith(libraries)


def _short(file: str) -> str:
    here = Path.cwd()
    path = Path(file)
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def _file_of(module: ModuleType) -> str:
    return _short(module.__file__) if module.__file__ else "without a file"


def _apps(module: ModuleType) -> Iterator[str]:
    return (name for name, value in vars(module).items() if isinstance(value, App))


def _known(module: ModuleType) -> str:
    names = ", ".join(_apps(module))
    return f"; its applications are: {names}" if names else "; it has no brokerjobs.App"


def _suggested(module: ModuleType, target: str) -> str:
    first = next(_apps(module), None)
    return f"use {module.__name__}:{first}" if first else f'make one: {target.partition(":")[2]} = App("namespace")'
