"""What the model of one job is made of: every state of the world is one immutable value, and can be looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

FINISHED = ("succeeded", "failed", "cancelled")


class Job(NamedTuple):
    """The job's state row."""

    state: str = "queued"
    waiting: str = "delivery"  # delivery, retry, last (a retry that nobody may claim), or nothing
    ripe: bool = True  # the time until which it waits has come
    lease: str = ""  # live or over, while it runs
    attempt: int = 0  # the last attempt, from one
    started: bool = False  # its start was committed before its handler ran
    cancelled: bool = False  # a cancel is requested
    deadline: bool = False  # the deadline has passed
    charged: int = 0
    allowed: int = 2  # attempts; a decision of a person grants one more


class Attempt(NamedTuple):
    """One attempt id: its two facts, each written once."""

    number: int = 0  # in the order of claims, like its fencing number; 0: not granted
    minted: bool = False  # a worker has made the id
    closed: str = ""  # completed, failed, released, cancelled, timed_out
    said: str = ""  # what its worker reported first
    verdict: str = ""  # accepted, recorded, rejected
    charged: bool = True


class Outside(NamedTuple):
    """What happened outside the ledger's own tables."""

    intent: int = 0  # the attempt that holds the effect's intent
    known: bool = False  # the effect has an outcome
    runs: int = 0  # how often unsafe work began
    runs_allowed: int = 1  # how often somebody has said that it may
    paid: int = 0  # committed writes of handlers' own transactions
    paid_stale: bool = False  # one of them by an attempt that the ledger had given up


class Ledger(NamedTuple):
    """What one transaction sees and changes."""

    job: Job
    attempts: tuple[Attempt, ...]
    rings: int = 1  # in the outbox, not yet published
    outside: Outside = Outside()


class Worker(NamedTuple):
    """One worker process, with one slot."""

    phase: str = "idle"  # idle, delivered, claimed, active, reports, settles, hung
    attempt: int = 0
    outcome: str = ""  # what it has to report
    channel: str = ""  # of its delivery: good, lost, or none
    effect: int = 0  # how far the handler has come with its effect or transaction


class World(NamedTuple):
    """One state of everything."""

    ledger: Ledger
    workers: tuple[Worker, Worker]
    messages: int = 0  # at the broker
    delayed: tuple[str, int] | None = None  # a request that is still under way: call and attempt
    faults: int = 0  # that may still happen
    decisions: int = 0  # of persons, that may still happen


@dataclass(frozen=True, slots=True)
class Protocol:
    """What is agreed: as amended and built by default, and each thing as it was once written."""

    takes_over: bool = False  # a claim takes over a run out lease without the expire step
    guard: Literal["row", "state"] = "row"  # "state": a running job's result is taken from anybody
    reports_once: bool = True
    two_facts: bool = True  # False: a late report changes how its attempt was closed
    unknown_first: bool = True  # False: cancel and deadline end a job with an unknown outcome
    obeys_cancel: bool = True  # wherever an attempt ends
    result_obeys_cancel: bool = True
    result_obeys_deadline: bool = True
    release_looks: bool = True  # at a start, or at an intent without outcome
    start_awaited: bool = True
    claimed_counts_as_started: bool = False
    rings_on_release: bool = True
    fence_needs_running: bool = True
    after_unknown_commit: Literal["asks", "completes", "pays again"] = "asks"
    repeated_transaction_raises: bool = True  # False: it is answered its stored verdict and commits
    replay_clears: bool = True
    keeps_its_word: bool = True  # False: a worker that got no answer reports something else
    ack_on_claim: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is looked at: what may happen at all, and how often."""

    faults: int = 1
    attempts: int = 3  # ids
    allowed: int = 2
    decisions: int = 0
    messages: int = 2
    rings: int = 2
    once: bool = False  # the type is not repeatable
    effect: bool = False  # the handler has an unsafe effect with an intent
    transaction: Literal["", "fences", "completes"] = ""  # the handler has one of its own
    cancel: bool = False
    deadline: bool = False
    drain: bool = True
    other_ends: bool = False  # a handler may also say that its job is invalid, or its outcome unknown
    delays: bool = True
    loses_messages: bool = True
    hangs: bool = True
    reconcile: bool = True
    replay: bool = False  # decisions may also replay a failed job
    forbids_false_reviews: bool = False
