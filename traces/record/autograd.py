"""The thread that runs backward passes while the training thread waits, as torch's autograd engine has one a device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class AutogradThread:
    """Runs one function at a time for whoever asks."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="autograd", daemon=True)
        self._thread.start()

    def run(self, task: Callable[[], None]) -> None:
        """Run it there and wait for its end."""
        self._tasks.put(task)
        self._done.get()

    def close(self) -> None:
        """End the thread."""
        self._tasks.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            self._done.put(None)
