"""What the reader sees while the demo runs: on stderr, a line for each thing that happened and what is waited for."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Voice:
    """Tells; on a terminal with a moving sign for what is waited for, elsewhere in plain lines."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def tell(self, text: str, style: str = "") -> None:
        """One line: something happened."""
        self._console.print(f"{self.seconds:5.1f} s  {text}", style=style, soft_wrap=True)

    def broke(self, text: str) -> None:
        """One line: something was broken on purpose."""
        self.tell(text, "bold red")

    def mended(self, text: str) -> None:
        """One line: something came right."""
        self.tell(text, "green")

    @contextmanager
    def waiting(self, text: str) -> Generator[Callable[[Callable[[], str]], None]]:
        """Says that `text` is waited for; what it gives takes a function that says how far that is."""
        if not self._console.is_terminal:
            self.tell(f"{text} …", "dim")
            yield lambda _: None
            return
        with self._console.status(f"{text} …") as status:
            yield lambda detail: status.update(f"{text} … {detail()}")
