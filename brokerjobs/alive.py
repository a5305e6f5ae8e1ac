"""A file that a process touches while all is well with it, for whoever looks after containers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


class AliveFile:
    """The file, or nothing where none is wanted; whoever looks judges by its age."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def begin(self) -> None:
        """Removes what an earlier process left; raises ConfigurationError if the file cannot be written."""
        if self._path is None:
            return
        try:
            self._path.touch()
            self._path.unlink()
        except OSError as error:
            message = f"worker.alive_file is {self._path}, which cannot be written: {error.strerror}"
            raise ConfigurationError(message) from error

    def show(self) -> None:
        """Says that all is well now."""
        if self._path is not None:
            with suppress(OSError):  # it grows old, which is what there is to say
                self._path.touch()
