"""The root of the errors that brokerjobs raises on purpose, and how they are made of evidence and a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound="BrokerjobsError")
_UNSAID: Final = {"path": "top level", "reason": "no reason given"}  # how "" reads in a message


def _made_again(kind: type[E], *args: object) -> E:
    return kind.__new__(kind, *args)  # not by the constructor, whose arguments are keywords


@dataclass_transform(eq_default=False, kw_only_default=True)
def says(template: str) -> Callable[[type[E]], type[E]]:
    """Make an error of keyword evidence, whose message is `template` filled in with it."""

    def made(kind: type[E]) -> type[E]:
        names = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
        defaults = {name: getattr(kind, name) for name in names if hasattr(kind, name)}

        def init(self: E, **evidence: object) -> None:
            evidence = defaults | evidence
            if evidence.keys() != names:
                message = f"{kind.__name__} takes {sorted(names)}, not {sorted(evidence)}"
                raise TypeError(message)
            vars(self).update(evidence)
            said = {name: _UNSAID.get(name, value) if value == "" else value for name, value in evidence.items()}
            Exception.__init__(self, template.format(self=self, **said))

        kind.__init__ = init  # type: ignore[method-assign, assignment]  # a dataclass, without its 1 ms a class
        return kind

    return made


class BrokerjobsError(Exception):
    """Root of every error that brokerjobs raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), *self.args), dict(vars(self))
