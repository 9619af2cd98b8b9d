"""Starts one process a rank and waits for all of them."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.multiprocessing


def start(work: Callable[[int, Any, str], None], plan: Any, count: int, *, preload: str = "") -> None:
    """``work(rank, plan, store)`` for every rank, each a process; raises when one fails.

    ``store`` is the file where they find each other. With ``preload``, the name of a module, its imports (torch) are
    made once; else every process starts from nothing.
    """
    if preload:
        multiprocessing.set_forkserver_preload([preload])
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        processes: Any = torch.multiprocessing  # untyped there
        method = "forkserver" if preload else "spawn"
        processes.start_processes(work, args=(plan, store), nprocs=count, start_method=method)


def make_room(out: Path) -> None:
    """An existing folder without the traces of an earlier recording."""
    out.mkdir(parents=True, exist_ok=True)
    for stale in out.glob("rank*.json.gz"):
        stale.unlink()
