"""brokerjobs: jobs delivered by RabbitMQ, whose attempts are recorded and fenced in PostgreSQL.

This is the public door: what is not named here may change without notice.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from brokerjobs import needs
from brokerjobs.app import App
from brokerjobs.context import (
    AttemptContext,
    Finding,
    Happened,
    JobContext,
    JobTransaction,
    OpenEffect,
    ProcessJobContext,
    ReviewContext,
    StillUnknown,
    SyncJobContext,
    SyncJobTransaction,
)
from brokerjobs.errors import (
    AcknowledgementRefused,
    AlreadyReported,
    ArtifactError,
    ArtifactGone,
    ArtifactNameUsed,
    ArtifactNotFound,
    ArtifactNotReady,
    ArtifactNotVisible,
    ArtifactStoreFull,
    ArtifactStoreRefused,
    ArtifactStoreUnavailable,
    ArtifactTooLarge,
    AttemptError,
    BrokerjobsError,
    BrokerUnavailable,
    ConfigurationError,
    DecidedByPerson,
    DidNotHappen,
    EffectUnknown,
    ExpiredRecord,
    HandlerSignal,
    HashMismatch,
    IdempotencyConflict,
    InReview,
    InvalidArtifact,
    InvalidJob,
    InvalidPayload,
    InvalidReference,
    InvalidResult,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobTypeConflict,
    KeyInFlight,
    LedgerUnavailable,
    LoginRefused,
    MissingHandler,
    PayloadTooLarge,
    PermissionDenied,
    PolicyRejected,
    RefusedMove,
    ResultMissing,
    ResultTimeout,
    ResultTooLarge,
    SchemaMismatch,
    Snooze,
    StaleAttempt,
    StopRequested,
    SubmissionRefused,
    TemporaryFailure,
    TopologyMismatch,
    UnknownJobType,
    UnknownOutcome,
    WrongIsolation,
)
from brokerjobs.job_type import JobType, Submission
from brokerjobs.rules.failures import FailureClass
from brokerjobs.rules.retries import RetryPolicy
from brokerjobs.rules.states import AttemptShown, JobState, Waiting

if TYPE_CHECKING:
    from brokerjobs.artifact import Artifact
    from brokerjobs.client import CancelOutcome, Client, JobHandle, SyncClient, SyncJobHandle
    from brokerjobs.ledger.artifacts import StagedArtifact
    from brokerjobs.ledger.records import JobRecord, JobStatus

__all__ = [
    "AcknowledgementRefused",
    "AlreadyReported",
    "App",
    "Artifact",
    "ArtifactError",
    "ArtifactGone",
    "ArtifactNameUsed",
    "ArtifactNotFound",
    "ArtifactNotReady",
    "ArtifactNotVisible",
    "ArtifactStoreFull",
    "ArtifactStoreRefused",
    "ArtifactStoreUnavailable",
    "ArtifactTooLarge",
    "AttemptContext",
    "AttemptError",
    "AttemptShown",
    "BrokerUnavailable",
    "BrokerjobsError",
    "CancelOutcome",
    "Client",
    "ConfigurationError",
    "DecidedByPerson",
    "DidNotHappen",
    "EffectUnknown",
    "ExpiredRecord",
    "FailureClass",
    "Finding",
    "HandlerSignal",
    "Happened",
    "HashMismatch",
    "IdempotencyConflict",
    "InReview",
    "InvalidArtifact",
    "InvalidJob",
    "InvalidPayload",
    "InvalidReference",
    "InvalidResult",
    "JobCancelled",
    "JobContext",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobRecord",
    "JobState",
    "JobStatus",
    "JobTransaction",
    "JobType",
    "JobTypeConflict",
    "KeyInFlight",
    "LedgerUnavailable",
    "LoginRefused",
    "MissingHandler",
    "OpenEffect",
    "PayloadTooLarge",
    "PermissionDenied",
    "PolicyRejected",
    "ProcessJobContext",
    "RefusedMove",
    "ResultMissing",
    "ResultTimeout",
    "ResultTooLarge",
    "RetryPolicy",
    "ReviewContext",
    "SchemaMismatch",
    "Snooze",
    "StagedArtifact",
    "StaleAttempt",
    "StillUnknown",
    "StopRequested",
    "Submission",
    "SubmissionRefused",
    "SyncClient",
    "SyncJobContext",
    "SyncJobHandle",
    "SyncJobTransaction",
    "TemporaryFailure",
    "TopologyMismatch",
    "UnknownJobType",
    "UnknownOutcome",
    "Waiting",
    "WrongIsolation",
    "needs",
]

# Imported when they are asked for: they bring the drivers, or pydantic, with them.
_LATER: Final = {
    "Artifact": "brokerjobs.artifact",
    "CancelOutcome": "brokerjobs.client",
    "Client": "brokerjobs.client",
    "JobHandle": "brokerjobs.client",
    "JobRecord": "brokerjobs.ledger.records",
    "JobStatus": "brokerjobs.ledger.records",
    "StagedArtifact": "brokerjobs.ledger.artifacts",
    "SyncClient": "brokerjobs.client",
    "SyncJobHandle": "brokerjobs.client",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(_LATER[name]), name)
