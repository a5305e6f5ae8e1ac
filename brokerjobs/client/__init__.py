"""Submitted, and asked about: what producers use.

options         how a client works, and where it learns that
client          the block that is open, and what it can be asked; sync_client the same for threads
submit          group commit, many in one transaction, or the caller's transaction; sync_submit
submissions     what both of them send and read; patience for how long they ask again
new_jobs        submissions made ready, with their ids
answers         the ledger's verdicts as values and errors
handle          one job: status, record, result, cancel; sync_handle
questions       what both of them ask
artifacts       what jobs have handed over: fetched and acknowledged; sync_artifacts, artifact_questions
behind          what goes on behind the callers; behind_thread runs it for threads
announce        doorbells rung behind the commit
waiting         one poll for all who wait
"""

from __future__ import annotations

from brokerjobs.client.client import Client
from brokerjobs.client.handle import JobHandle
from brokerjobs.client.options import ClientOptions
from brokerjobs.client.questions import CancelOutcome
from brokerjobs.client.sync_client import SyncClient
from brokerjobs.client.sync_handle import SyncJobHandle

__all__ = ["CancelOutcome", "Client", "ClientOptions", "JobHandle", "SyncClient", "SyncJobHandle"]
