from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, ValidationError

from brokerjobs import App, errors
from brokerjobs.rules.failures import (
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Failure,
    FailureClass,
    FailureMapping,
    Snoozed,
    checked_mapping,
    classify,
    time_limit_failure,
)

SOON = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2031, 1, 1, tzinfo=UTC)


def failure(exc: BaseException, mapping: FailureMapping | None = None, *, repeatable: bool = False) -> Failure:
    found = classify(exc, mapping or {}, repeatable=repeatable)
    assert isinstance(found, Failure)
    return found


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc  # so that it has a traceback
    except type(exc) as caught:
        return caught


@pytest.mark.parametrize(
    ("signal", "failure_class"),
    [
        (errors.TemporaryFailure("busy"), FailureClass.TEMPORARY),
        (errors.InvalidJob("no such account"), FailureClass.INVALID),
        (errors.PolicyRejected("not allowed"), FailureClass.POLICY),
        (errors.UnknownOutcome("no answer"), FailureClass.UNSAFE),
        (errors.ResultTooLarge(job_type="x", size=2, limit=1), FailureClass.INVALID),
        (errors.InvalidResult(job_type="x", path="", problem="no", returned=True), FailureClass.INVALID),
    ],
)
@pytest.mark.parametrize("repeatable", [True, False])
def test_classify__believes_the_handler(signal: Exception, failure_class: FailureClass, repeatable: bool) -> None:
    found = failure(signal, repeatable=repeatable)

    assert (found.failure_class, found.classified) == (failure_class, True)


NEVER_STAGED = [
    errors.InvalidArtifact(name="a", problem="its source is a NoneType"),
    errors.ArtifactTooLarge(name="a", limit=2),
    errors.ArtifactNameUsed(job_id=uuid4(), attempt_id=uuid4(), name="a"),
]


@pytest.mark.parametrize("refused", NEVER_STAGED)
def test_classify__what_can_never_be_staged_fails_at_once_where_it_is_known_to_be_safe(refused: Exception) -> None:
    found = failure(refused, repeatable=True)
    assert (found.failure_class, found.classified) == (FailureClass.INVALID, True)

    found = failure(refused)  # the handler had not ended: what it had done is unknown
    assert (found.failure_class, found.classified) == (FailureClass.UNSAFE, False)


@pytest.mark.parametrize("refused", NEVER_STAGED)
@pytest.mark.parametrize("kind", [None, errors.ArtifactError, Exception])
@pytest.mark.parametrize("repeatable", [True, False])
def test_classify__of_what_can_never_be_staged_its_type_decides(
    refused: Exception, kind: type[Exception] | None, repeatable: bool
) -> None:
    mapping = checked_mapping({kind or type(refused): "temporary"}, job_type="x")
    found = failure(refused, mapping, repeatable=repeatable)

    assert (found.failure_class, found.classified) == (FailureClass.TEMPORARY, True)


def test_classify__a_group_with_what_can_never_be_staged_is_invalid_if_all_is_known() -> None:
    assert failure(ExceptionGroup("two", NEVER_STAGED), repeatable=True).failure_class is FailureClass.INVALID
    other = ExceptionGroup("two", [NEVER_STAGED[0], ValueError()])
    assert (failure(other, repeatable=True).failure_class, failure(other).classified) == (FailureClass.TEMPORARY, False)


@pytest.mark.parametrize(
    "problem", [errors.ArtifactStoreUnavailable, errors.ArtifactStoreFull, errors.ArtifactStoreRefused]
)
def test_classify__what_a_store_says_passes(problem: Any) -> None:
    found = failure(problem(store="s3://b", problem="p"), repeatable=True)
    assert (found.failure_class, found.classified) == (FailureClass.TEMPORARY, False)


def test_classify__a_result_that_the_handler_read_says_nothing_of_its_own() -> None:
    """It may have done half of its work by then."""
    read = errors.InvalidResult(job_type="another", path="", problem="no")

    assert (failure(read).failure_class, failure(read).classified) == (FailureClass.UNSAFE, False)
    assert failure(read, repeatable=True).failure_class is FailureClass.TEMPORARY


def test_classify__knows_a_result_that_the_handler_gave() -> None:
    job_type = App("x").job_type("x", int, int, repeatable=False)
    refused: list[Failure] = []
    for result in ("no number", 10**300_000):
        with pytest.raises(errors.BrokerjobsError) as caught:
            job_type.encode_result(result)  # type: ignore[arg-type]
        refused.append(failure(caught.value))

    assert [(one.failure_class, one.returned, one.as_data()["returned"]) for one in refused] == [
        ("invalid", True, True)
    ] * 2
    assert not failure(ValueError()).returned


def test_classify__a_snooze_is_no_failure() -> None:
    assert classify(errors.Snooze(SOON), {}, repeatable=False) == Snoozed(SOON)


def test_classify__keeps_the_wait_that_was_asked_for() -> None:
    assert failure(errors.TemporaryFailure("x", retry_after=timedelta(seconds=7))).retry_after == timedelta(seconds=7)
    assert failure(errors.TemporaryFailure("x", retry_after=timedelta(0))).retry_after == timedelta(0)
    assert failure(errors.TemporaryFailure("x")).retry_after is None


@pytest.mark.parametrize("exc", [ValueError("x"), asyncio.CancelledError(), TimeoutError(), ConnectionError()])
def test_classify__guesses_nothing_harmless_of_a_type_that_is_not_repeatable(exc: BaseException) -> None:
    assert failure(exc, repeatable=True).failure_class is FailureClass.TEMPORARY
    assert failure(exc, repeatable=False).failure_class is FailureClass.UNSAFE
    assert not failure(exc).classified


def test_classify__a_validation_error_of_the_handlers_own_is_not_an_invalid_payload() -> None:
    class Answer(BaseModel):
        cents: int

    with pytest.raises(ValidationError) as caught:
        Answer.model_validate({})

    assert failure(caught.value).failure_class is FailureClass.UNSAFE


def test_classify__the_most_specific_class_decides_whatever_the_order() -> None:
    mapping: dict[type[BaseException], FailureClass | str] = {
        Exception: "policy",
        LookupError: FailureClass.INVALID,
        OSError: "temporary",
    }

    assert failure(KeyError(), mapping).failure_class is FailureClass.INVALID
    assert failure(ConnectionResetError(), mapping).failure_class is FailureClass.TEMPORARY
    assert failure(ValueError(), mapping).failure_class is FailureClass.POLICY
    assert failure(asyncio.CancelledError(), mapping).classified is False
    assert failure(KeyError(), dict(reversed(mapping.items()))).failure_class is FailureClass.INVALID


def test_classify__a_general_entry_does_not_overrule_a_signal() -> None:
    assert failure(errors.InvalidJob("x"), {Exception: "temporary"}).failure_class is FailureClass.INVALID


def test_classify__a_group_is_as_bad_as_its_worst() -> None:
    group = ExceptionGroup("both", [errors.TemporaryFailure("x"), ExceptionGroup("in", [errors.InvalidJob("y")])])

    assert (failure(group).failure_class, failure(group).classified) == (FailureClass.INVALID, True)


def test_classify__one_unclassified_error_makes_its_group_so() -> None:
    group = ExceptionGroup("both", [errors.TemporaryFailure("x"), ValueError()])

    assert (failure(group).failure_class, failure(group).classified) == (FailureClass.UNSAFE, False)
    assert failure(group, {ExceptionGroup: "invalid"}).failure_class is FailureClass.INVALID


def test_classify__a_group_of_snoozes_alone_is_the_last_of_them() -> None:
    wishes = [errors.Snooze(SOON), errors.Snooze(LATER)]

    assert classify(ExceptionGroup("all", wishes), {}, repeatable=False) == Snoozed(LATER)
    assert failure(ExceptionGroup("some", [*wishes, errors.InvalidJob("x")])).failure_class is FailureClass.INVALID


def test_classify__names_the_type_as_people_know_it() -> None:
    assert failure(KeyError("k")).error_type == "KeyError"
    assert failure(errors.InvalidJob("x")).error_type == "InvalidJob"
    assert failure(json.JSONDecodeError("x", "", 0)).error_type == "json.decoder.JSONDecodeError"


def test_classify__keeps_message_and_traceback_within_bounds() -> None:
    found = failure(raised(ValueError("a" * 10**6)))

    assert len(found.message) == MESSAGE_LIMIT
    assert found.message.endswith(" … (1000000 characters)")
    assert len(found.traceback) == TRACEBACK_LIMIT
    assert "in raised" in failure(raised(ValueError("short"))).traceback


def test_classify__texts_can_be_stored() -> None:
    found = failure(raised(ValueError("nul \0, half \ud83d")))

    assert found.message == "nul \ufffd, half \ufffd"
    assert "\\ud83d" not in json.dumps(found.as_data())
    assert "\\u0000" not in json.dumps(found.as_data())


def test_classify__texts_show_no_password() -> None:
    found = failure(raised(OSError("no route to postgresql://app:s3cret@db/pay")))

    assert "s3cret" not in found.message + found.traceback.replace('raised(OSError("', "")
    assert "postgresql://app:***@db/pay" in found.message


def test_classify__survives_an_error_that_cannot_be_shown() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure(raised(Broken())).message == "(str() of it raised RuntimeError)"


def test_classify__survives_an_error_whose_own_code_ends_processes() -> None:
    class Exits(Exception):
        def __str__(self) -> str:
            raise SystemExit

    class Unlooked(Exception):
        def __getattribute__(self, name: str) -> Any:
            if name == "__notes__":
                raise SystemExit
            return super().__getattribute__(name)

    deep: Any = ValueError()
    for _ in range(5_000):
        deep = ExceptionGroup("more", [deep])

    assert failure(raised(Exits())).message == "(str() of it raised SystemExit)"
    for error in (Unlooked(), deep):
        found = failure(raised(error))
        assert (found.failure_class, found.classified) == (FailureClass.UNSAFE, False)
        assert "looking at it raised" in found.message


def test_classify__a_signal_of_a_subclass_that_forgot_its_base_has_no_wish() -> None:
    class Busy(errors.TemporaryFailure):
        def __init__(self) -> None:
            self.retry_after = 5  # type: ignore[assignment]  # seconds, somebody thought

    class Later(errors.Snooze):
        def __init__(self) -> None:
            self.until = "tomorrow"  # type: ignore[assignment]

    assert (failure(Busy()).failure_class, failure(Busy()).retry_after) == (FailureClass.TEMPORARY, None)
    assert (failure(Later()).failure_class, failure(Later()).classified) == (FailureClass.UNSAFE, False)


def test_classify__survives_the_deepest_recursion() -> None:
    def deeper() -> None:
        deeper()

    with pytest.raises(RecursionError) as caught:
        deeper()

    assert failure(caught.value).error_type == "RecursionError"


def test_failure__is_plain_data_for_the_ledger() -> None:
    found = failure(errors.TemporaryFailure("busy", retry_after=timedelta(seconds=1.5)))

    assert found.as_data() == {
        "class": "temporary",
        "classified": True,
        "type": "TemporaryFailure",
        "message": "busy",
        "traceback": found.traceback,
        "retry_after": 1.5,
    }


@pytest.mark.parametrize(("repeatable", "failure_class"), [(True, "temporary"), (False, "unsafe")])
def test_time_limit_failure__is_unclassified(repeatable: bool, failure_class: str) -> None:
    found = time_limit_failure(timedelta(minutes=2), repeatable=repeatable)

    assert (found.failure_class, found.classified) == (failure_class, False)
    assert (found.error_type, found.message) == (
        "TimeLimitExceeded",
        "the handler had not ended after its time limit of 2m",
    )


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({ValueError: "tempory"}, r"ValueError: 'tempory' is not one of 'unsafe', 'invalid', 'policy', 'temporary'"),
        ({ValueError: "exhausted"}, "ValueError: 'exhausted' is not one of"),
        ({"ValueError": "temporary"}, "'ValueError' is not an exception class"),
        ({int: "temporary"}, "is not an exception class"),
        ({errors.InvalidJob: "temporary"}, "InvalidJob says itself what it means"),
        ({errors.Snooze: "temporary"}, "Snooze says itself what it means"),
    ],
)
def test_checked_mapping__refuses_what_would_never_apply(mapping: Any, says: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=says):
        checked_mapping(mapping, job_type="payment.charge")
