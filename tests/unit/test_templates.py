"""Fields that names of resources ask for are looked up in the payload's model when the job type is declared."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel, Field

from brokerjobs import App, ConfigurationError, needs
from brokerjobs.rules.templates import fields_of


class Customer(BaseModel):
    id: int
    region: str | None = None


class Tree(BaseModel):
    name: str
    child: Tree | None = None


class Order(BaseModel):
    account: str
    customer: Customer
    other: Customer | None = None
    tree: Tree | None = None
    labels: dict[str, str] = {}
    anything: Any = None
    lines: list[int] = []
    express: bool = False
    number: int = Field(default=0, alias="no", validation_alias=AliasChoices("no", "nr"), serialization_alias="nummer")


def declared(template: str, payload: Any = Order) -> str | None:
    """What is wrong with a job type that needs such a resource."""
    try:
        App("shop").job_type("charge", payload, None, repeatable=True, needs=[needs.exclusive(template)])
    except ConfigurationError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "field",
    [
        *("account", "customer.id", "customer.region", "other.id", "tree.child.child.name", "labels.a", "express"),
        *("anything", "anything.a.b", "nummer"),
    ],
)
def test_template__may_ask_for_what_a_payload_may_have(field: str) -> None:
    assert declared(f"a:{{{field}}}:b") is None


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("acount", "the payload has no field acount; did you mean account?"),
        ("customer.ids", "the payload has no field customer.ids; did you mean id?"),
        ("account.id", "the payload has no field account.id"),
        ("zzz", "the payload has no field zzz; it has account, "),
        ("number", "the payload has no field number; did you mean nummer?"),
        ("customer", "the payload's field customer is no text, number or boolean"),
        ("other", "the payload's field other is no text, number or boolean"),
        ("lines", "the payload's field lines is no text, number or boolean"),
        ("labels", "the payload's field labels is no text, number or boolean"),
    ],
)
def test_template__may_not_ask_for_what_no_payload_has(field: str, says: str) -> None:
    refusal = declared(f"a:{{{field}}}")

    assert refusal is not None
    assert f"job type 'charge':\n  need exclusive:a:{{{field}}}: {says}" in refusal


def test_template__of_payloads_without_fields() -> None:
    assert declared("a:{b}", dict[str, str]) is None
    assert declared("a:{b}", Any) is None
    assert "the payload has no field b" in (declared("a:{b}", int) or "")
    assert "the payload has no field b" in (declared("a:{b}", list[str]) or "")
    assert declared("a", int) is None


def test_fields__are_named_in_order() -> None:
    assert fields_of("{a}:{b.c}{a}") == ("a", "b.c", "a")
