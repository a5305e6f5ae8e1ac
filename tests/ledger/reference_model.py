"""One job as the design describes it, in plain Python: what every ledger call must answer, and how the job then stands.

Written from the rules, not from the SQL.  Times are seconds; random delays are told to the model by the ledger's
answer, and checked against their bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LEASE = 30.0
UNCHARGED_ROADS = 20
FINISHED = ("succeeded", "failed", "cancelled")


@dataclass(slots=True)
class ModelTerms:
    """What was frozen into the job at submit."""

    repeatable: bool
    attempts: int
    elapsed: float
    first_delay: float
    max_delay: float
    deadline: float | None


@dataclass(slots=True)
class ModelAttempt:
    """An attempt's two facts, each written once."""

    closed: bool = False
    at_deadline: bool = False  # closed since its job's deadline passed while it ran
    answer: tuple[str, str | None, str] | None = None  # to its first report: verdict, reason, state
    reported: tuple[str, object] | None = None  # what it reported


@dataclass(slots=True)
class ModelJob:
    """The job's state row."""

    terms: ModelTerms
    now: float = 0.0
    state: str = "queued"
    waiting: str | None = "delivery"
    until: float | None = None
    last: bool = False
    current: int | None = None
    started: bool = False
    lease_until: float | None = None
    cancelled: bool = False
    deadline_noted: bool = False
    """On a review, which time never closes."""
    cancel_answer: str = "refused"
    """To the same person who asks again once the job has ended."""
    first_claimed: float | None = None
    charged: int = 0
    uncharged: int = 0
    accepted: int | None = None
    failure_class: str | None = None
    attempts: dict[int, ModelAttempt] = field(default_factory=dict[int, ModelAttempt])
    delay_bound: float | None = None  # set by a decision whose delay the ledger draws; `learn` takes it

    def learn(self, until: float | None) -> None:
        """Takes the time that the ledger drew, within its bounds."""
        if self.delay_bound is None:
            return
        if self.state == "failed":  # no retry fitted: this too depends on what was drawn
            assert until is None
        else:
            assert until is not None
            assert -0.001 <= until - self.now <= self.delay_bound + 0.001, (until, self.now, self.delay_bound)
            self.until = until
        self.delay_bound = None

    # What the ledger may find before it looks at a call: nothing; every step is a call.

    def claim(self, attempt: int) -> str:
        """A worker asks for the job."""
        if attempt in self.attempts:
            running = self.current == attempt and self.state == "running" and self.attempts[attempt].reported is None
            return "granted" if running else "lost"
        self._expire()
        self._end_at_deadline()
        if self.state == "queued" and (self._past_deadline() or (self.waiting == "retry" and self._is_due())):
            self._end_waiting(ring=False)
        if self.state != "queued":
            return {"running": "held", "review": "review"}.get(self.state, "finished")
        if self.until is not None and self.until > self.now:
            return "not_due"
        self.state, self.waiting, self.until, self.last = "running", None, None, False
        self.current, self.started, self.lease_until = attempt, False, self.now + LEASE
        self.delay_bound = None
        self.charged += 1
        self.first_claimed = self.now if self.first_claimed is None else self.first_claimed
        self.attempts[attempt] = ModelAttempt()
        return "granted"

    def start(self, attempt: int) -> str:
        """The start is committed before the handler runs."""
        if not self._runs(attempt):
            return "lost"
        if self.started:
            return "started"
        if self._end_at_deadline() or self._lease_is_over():
            return "lost"
        if self.cancelled:
            return "cancel_requested"
        self.started = True
        return "started"

    def renew(self, attempt: int) -> str:
        """A lease is renewed while it has not run out, nor its job's deadline passed."""
        if not self._runs(attempt) or self._end_at_deadline() or self._lease_is_over():
            return "lost"
        self.lease_until = self.now + LEASE
        return "cancel_requested" if self.cancelled else "kept"

    def complete(self, attempt: int, result: object) -> tuple[str, str | None, str]:
        """A result: accepted from the attempt that holds its place, unless cancel or deadline refuse it."""
        if (answer := self._answer(attempt, ("completed", result))) is not None:
            return answer
        if self._past_deadline() or self.cancelled:
            reason = "deadline" if self._past_deadline() else "job_cancelled"
            self._decide("refused", None, classified=False)
            return self._reported(attempt, ("completed", result), ("rejected", reason, self.state))
        self.state, self.waiting, self.until, self.lease_until = "succeeded", None, None, None
        self.accepted = attempt
        return self._reported(attempt, ("completed", result), ("accepted", None, "succeeded"))

    def fail(self, attempt: int, failure_class: str, *, classified: bool) -> tuple[str, str | None, str]:
        """A failure: decides the job if its attempt runs, and is only kept if it comes late."""
        report = ("failed", (failure_class, classified))
        if (answer := self._answer(attempt, report)) is not None:
            return answer
        if self.state == "running":
            self._decide("failed", failure_class, classified=classified)
        return self._reported(attempt, report, ("recorded", None, self.state))

    def release(self, attempt: int, why: str, until: float | None = None) -> tuple[str, str | None, str]:
        """An attempt is given back: uncharged while the roads last."""
        report = ("released", (why, until))
        if (answer := self._answer(attempt, report)) is not None:
            return answer
        if self.state == "running":
            if self.uncharged < UNCHARGED_ROADS:
                self.charged -= 1
                self.uncharged += 1
            self._decide(why, None, classified=why != "drain", until=until)
        return self._reported(attempt, report, ("recorded", None, self.state))

    def expire(self) -> bool:
        """The reaper gives up an attempt whose lease is over."""
        return self._expire()

    def due(self) -> str | None:
        """The scheduler ends a waiting, or what is past its deadline; answers the state if it did."""
        if self._end_at_deadline():
            return self.state
        if self.state == "review" and self._past_deadline() and not self.deadline_noted:
            self.deadline_noted = True
            return "review"
        if self.state == "queued" and (self._is_due() or self._past_deadline()):
            self._end_waiting(ring=True)
            return self.state
        return None

    def cancel(self) -> str:
        """A person cancels; the same one again, with the same reason, gets the same answer."""
        if self.state in FINISHED:
            return self.cancel_answer
        self.cancelled = True
        if self.state != "queued":
            self.cancel_answer = "requested"
            return "requested"
        self._end("cancelled")
        if self.cancel_answer == "refused":
            self.cancel_answer = "cancelled"
        return "cancelled"

    # The rules.

    def _runs(self, attempt: int) -> bool:
        return self.state == "running" and self.current == attempt

    def _holds_place(self, attempt: int) -> bool:
        return (
            self.current == attempt
            and self.attempts[attempt].reported is None
            and self.state in ("running", "queued", "review")
        )

    def _past_deadline(self) -> bool:
        return self.terms.deadline is not None and self.terms.deadline <= self.now

    def _is_due(self) -> bool:
        return self.until is not None and self.until <= self.now

    def _lease_is_over(self) -> bool:
        return self.lease_until is not None and self.lease_until <= self.now

    def _expire(self) -> bool:
        if self.state != "running" or not self._lease_is_over():
            return False
        assert self.current is not None
        self.attempts[self.current].closed = True
        self._decide("lost", None, classified=False)
        return True

    def _end_at_deadline(self) -> bool:
        if self.state != "running" or not self._past_deadline():
            return False
        assert self.current is not None
        attempt = self.attempts[self.current]
        attempt.closed = attempt.at_deadline = True
        self._decide("deadline", None, classified=False)
        self.deadline_noted = self._is_in_review()
        return True

    def _is_in_review(self) -> bool:
        return self.state == "review"

    def _end_waiting(self, *, ring: bool) -> None:
        """`ring`: made claimable; a claim goes on without one."""
        if self._past_deadline():
            self._fail("deadline")
        elif self.waiting == "retry" and self.last:
            self._fail("exhausted")
        elif ring:
            self.waiting, self.until = "delivery", None

    def _decide(self, ended: str, failure_class: str | None, *, classified: bool, until: float | None = None) -> None:
        self.lease_until = None
        if failure_class == "unsafe" or (not self.terms.repeatable and self.started and not classified):
            self.state, self.waiting, self.until = "review", None, None
        elif self.cancelled:
            self._end("cancelled")
        elif self._past_deadline():
            self._fail("deadline")
        elif failure_class in ("invalid", "policy"):
            self._fail(failure_class)
        else:
            self._wait(ended, until)

    def _wait(self, ended: str, until: float | None) -> None:
        assert self.first_claimed is not None
        ends = self.first_claimed + self.terms.elapsed
        self.state, self.last = "queued", False
        match ended:
            case "drain":
                self.waiting, self.until = "delivery", None
            case "snooze":
                self.waiting, self.until = "schedule", until
            case "not_here":
                self.waiting, self.until = "placement", self.now + min(30, 2 ** min(self.uncharged, 10))
            case _:
                self.waiting = "retry"
                self.delay_bound = min(self.terms.max_delay, self.terms.first_delay * 2 ** (self.charged - 1))
                self.until = self.now + self.delay_bound / 2  # until `learn` is told the real one
        if self.charged >= self.terms.attempts or (self.until or self.now) > ends:
            self.delay_bound = None
            if ended == "lost":
                self.last, self.until = True, self.now + LEASE
            else:
                self._fail("exhausted")

    def _fail(self, failure_class: str) -> None:
        self.failure_class = failure_class
        self._end("failed")

    def _end(self, state: str) -> None:
        self.state, self.waiting, self.until, self.lease_until = state, None, None, None
        if state == "cancelled":
            self.current = None

    def _answer(self, attempt: int, report: tuple[str, object]) -> tuple[str, str | None, str] | None:
        """The answer to a report that finds no open place; None if it has one."""
        known = self.attempts[attempt]
        if known.reported is not None:
            assert known.answer is not None
            if known.reported == report:
                return known.answer
            return "already_reported", "released" if known.reported[0] == "released" else "already_reported", self.state
        if self._holds_place(attempt):
            return None
        reason = f"job_{self.state}" if self.state in FINISHED else "newer_attempt"
        if self.state == "failed" and known.at_deadline:
            reason = "deadline"
        return self._reported(attempt, report, ("rejected", reason, self.state))

    def _reported(
        self, attempt: int, report: tuple[str, object], answer: tuple[str, str | None, str]
    ) -> tuple[str, str | None, str]:
        known = self.attempts[attempt]
        known.closed, known.reported, known.answer = True, report, answer
        return answer
