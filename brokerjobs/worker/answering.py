"""What a worker answers its processes by the line while their handlers run: what the ledger says of uploads.

A process speaks for the attempt that it runs and for no other, so nothing that its handler writes to the line reaches
another attempt.  An answer for an attempt that has ended meanwhile goes nowhere.  The other end is `asking`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from brokerjobs.ledger import artifacts
from brokerjobs.rules import texts

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from brokerjobs.ledger.calls import Holding
    from brokerjobs.worker.uploads import AttemptUploads

Answer = TypeVar("Answer")

_AT_ONCE: Final = 100
"""Open questions of an attempt: uploads of one process at a time are few, a loop of nonsense is not."""
_TEXT_LIMIT: Final = 10_000


class Answering:
    """Puts the questions of one attempt to the ledger; `say` sends an answer, if the attempt still runs."""

    def __init__(self, holding: Holding, uploads: AttemptUploads, say: Callable[[Mapping[str, Any]], None]) -> None:
        self._holding = holding
        self._uploads = uploads
        self._say = say
        self._open = 0

    def take(self, message: Mapping[str, Any]) -> None:
        """Asks the ledger; raises ValueError, KeyError or TypeError for what is no question of this attempt."""
        if message["attempt"] != str(self._holding.attempt_id):
            problem = "a question of another attempt"
            raise ValueError(problem)
        if self._open >= _AT_ONCE:
            problem = "too many questions at once"
            raise ValueError(problem)
        number = _whole(message["question"])
        match message:
            case {"stage": what}:
                self._put(number, self._uploads.stage, self._upload(what), _staged)
            case {"ready": what}:
                uploaded = artifacts.Uploaded(
                    UUID(what["id"]), self._holding.attempt_id, _whole(what["size"]), _text(what["sha256"])
                )
                self._put(number, self._uploads.ready, uploaded, _verdict)
            case {"discard": what}:
                given_up = artifacts.GivenUp(UUID(what["id"]), self._holding.attempt_id, _text(what["why"]))
                self._put(number, self._uploads.discard, given_up, _verdict)
            case _:
                problem = "what is no question"
                raise ValueError(problem)

    def _upload(self, what: Mapping[str, Any]) -> artifacts.Upload:
        content_type, keep_for = what["content_type"], what["keep_for"]
        return artifacts.Upload(
            self._holding,
            UUID(what["id"]),
            _text(what["name"]),
            None if content_type is None else _text(content_type),
            _text(what["store"]),
            None if keep_for is None else float(keep_for),
        )

    def _put(
        self,
        number: int,
        ask: Callable[[Any], asyncio.Future[Answer]],
        question: object,
        shown: Callable[[Answer], dict[str, Any]],
    ) -> None:
        self._open += 1
        ask(question).add_done_callback(partial(self._answered, number, shown))

    def _answered(self, number: int, shown: Callable[[Answer], dict[str, Any]], asked: asyncio.Future[Answer]) -> None:
        self._open -= 1
        if asked.cancelled():
            return
        if (error := asked.exception()) is not None:
            self._say(
                {"question": number, "refused": texts.first_part(f"{type(error).__name__}: {error}", _TEXT_LIMIT)}
            )
        else:
            self._say({"question": number, "said": shown(asked.result())})


def _staged(staged: artifacts.Staged) -> dict[str, Any]:
    return {"verdict": staged.verdict, "reason": staged.reason, "path": staged.path}


def _verdict(answer: artifacts.Ready | artifacts.Discarded) -> dict[str, Any]:
    return {"verdict": answer.verdict}


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _TEXT_LIMIT:
        problem = "what is no text"
        raise ValueError(problem)
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        problem = "what is no number"
        raise ValueError(problem)
    return value
