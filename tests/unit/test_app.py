from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from brokerjobs.app import App
from brokerjobs.errors import ConfigurationError, JobTypeConflict
from brokerjobs.rules.failures import FailureClass
from brokerjobs.rules.retries import RetryPolicy
from brokerjobs.rules.terms import Terms

if TYPE_CHECKING:
    from decimal import Decimal

    from brokerjobs.context import JobContext, SyncJobContext


@dataclass(frozen=True)
class Charge:
    cents: int


@dataclass(frozen=True)
class Receipt:
    reference: str


class Undescribed:
    pass


def test_job_type__has_what_was_said_of_it() -> None:
    jobs = App("payments")

    made = jobs.job_type(
        "payment.charge",
        Charge,
        Receipt,
        repeatable=False,
        queue="payments",
        lease=timedelta(seconds=5),
        time_limit=timedelta(minutes=2),
        placement_deadline=timedelta(hours=1),
        retry=RetryPolicy(attempts=3),
        failures={ConnectionError: "temporary"},
    )

    assert (made.namespace, made.name) == ("payments", "payment.charge")
    assert (made.payload_model, made.result_model) == (Charge, Receipt)
    assert made.terms == Terms(
        repeatable=False,
        queue="payments",
        lease=timedelta(seconds=5),
        time_limit=timedelta(minutes=2),
        placement_deadline=timedelta(hours=1),
        retry=RetryPolicy(attempts=3),
    )
    assert made.failures == {ConnectionError: FailureClass.TEMPORARY}
    assert jobs.types == {"payment.charge": made}


def test_job_type__without_repeatable_is_told_why() -> None:
    with pytest.raises(ConfigurationError, match=r"repeatable= is missing: may a \*started\* attempt be done again"):
        App("payments").job_type("x", Charge, Receipt)  # type: ignore[call-overload]  # what is tested
    with pytest.raises(ConfigurationError, match="repeatable= is missing"):
        App("payments").job("x")  # type: ignore[call-arg]  # what is tested


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lesae": 1}, "lesae= is not known; did you mean lease=?"),
        ({"priority": 1}, "priority= is not known"),
        ({"lease": timedelta(0)}, "job type 'x':\n  lease=0:00:00 is not from 100ms to 1d"),
        ({"failures": {ValueError: "perhaps"}}, "failures= of job type 'x':\n  ValueError: 'perhaps' is not one of"),
    ],
)
def test_job_type__names_what_is_wrong(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        App("payments").job_type("x", Charge, Receipt, repeatable=True, **options)

    assert says.rstrip("?") in str(caught.value)


@pytest.mark.parametrize("model", [object(), "Unknown", Undescribed])
def test_job_type__whose_model_cannot_be_described_is_refused(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="job type 'x': pydantic cannot describe its payload type"):
        App("payments").job_type("x", model, None, repeatable=True)


def test_job_type__declared_again_is_the_same() -> None:
    jobs = App("payments")
    first = jobs.job_type("x", Charge, None, repeatable=True, lease=timedelta(seconds=30))

    assert jobs.job_type("x", Charge, None, repeatable=True) is first


def test_job_type__without_a_result_is_the_same_however_it_is_said() -> None:
    jobs = App("payments")

    @jobs.job("x", repeatable=True)
    async def forget(order: Charge) -> None: ...

    assert jobs.job_type("x", Charge, None, repeatable=True) is forget


def test_job_type__declared_again_with_other_terms_names_them() -> None:
    jobs = App("payments")
    jobs.job_type("x", Charge, Receipt, repeatable=True)

    with pytest.raises(JobTypeConflict) as caught:
        jobs.job_type("x", Charge, None, repeatable=False, lease=timedelta(minutes=1), failures={OSError: "temporary"})

    assert [line.partition(":")[0] for line in caught.value.problems] == [
        "repeatable",
        "lease",
        "result_model",
        "failures",
    ]
    assert "lease: 30s, then 1m" in str(caught.value)
    assert jobs.types["x"].result_model is Receipt


@pytest.mark.parametrize("name", ["Payments", "a.b", ""])
def test_app__refuses_a_name_that_no_queue_may_have(name: str) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        App(name)


def test_job__reads_its_models_from_the_annotations() -> None:
    jobs = App("images")

    @jobs.job("image.thumbnail", repeatable=True, queue="images")
    def thumbnail(image: Charge, ctx: SyncJobContext) -> Receipt:
        return Receipt(str(image.cents))

    @jobs.job("image.forget", repeatable=True)
    async def forget(image: list[Charge]) -> None: ...

    assert (thumbnail.payload_model, thumbnail.result_model) == (Charge, Receipt)
    assert thumbnail.terms.queue == "images"
    assert thumbnail.handled_by is not None
    assert (thumbnail.handled_by.is_async, thumbnail.handled_by.takes_context) == (False, True)
    assert forget.decode_payload("[]") == []
    assert forget.encode_result(None) == b"null"


def test_job__needs_annotations() -> None:
    def bare(image: Charge) -> None: ...

    bare.__annotations__.clear()
    with pytest.raises(ConfigurationError, match=r"bare of job type 'x' has no annotation for 'image' and 'return'"):
        App("images").job("x", repeatable=True)(bare)


def test_job__needs_annotations_that_can_be_read() -> None:
    async def hidden(price: Decimal, ctx: JobContext) -> None: ...

    with pytest.raises(
        ConfigurationError, match=r"hidden of job type 'x' cannot be read: name 'Decimal' is not defined"
    ):
        App("images").job("x", repeatable=True)(hidden)
