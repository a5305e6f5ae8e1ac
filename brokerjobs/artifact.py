"""What stands for an artifact in results and payloads: its id, and what is known of its content."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field


class Artifact(BaseModel):
    """A large output that an attempt has staged, as `ctx.artifacts.put` returns it and as results refer to it.

    The ledger looks at every artifact that a result names before it accepts the result.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, validate_by_name=True)

    marker: Annotated[Literal["brokerjobs.artifact/1"], Field(alias="schema")] = "brokerjobs.artifact/1"
    """What the ledger recognises it by in a result."""
    id: UUID
    name: str
    """Metadata alone: never used as a path."""
    size: Annotated[int, Field(ge=0)]
    """In bytes."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of the content, in lower-case hexadecimal digits."""
    content_type: str | None = None
