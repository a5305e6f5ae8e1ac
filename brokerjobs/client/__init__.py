"""Submitted, and asked about: what producers use.

options     how a client works, and where it learns that
client      the block that is open, and what it can be asked
submit      group commit, many in one transaction, or the caller's transaction
new_jobs    submissions made ready, with their ids
answers     the ledger's verdicts as values and errors
announce    doorbells rung behind the commit
handle      one job: status, record, result, cancel
waiting     one poll for all who wait
"""

from __future__ import annotations

from brokerjobs.client.client import Client
from brokerjobs.client.handle import CancelOutcome, JobHandle
from brokerjobs.client.options import ClientOptions

__all__ = ["CancelOutcome", "Client", "ClientOptions", "JobHandle"]
