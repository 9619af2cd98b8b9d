"""Starts one process a rank and waits for all of them."""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

import torch.multiprocessing

from traces.record.worker import Plan, work


def record(plan: Plan) -> None:
    """Run the plan; traces and ``run.json`` lie in ``plan.out`` afterwards. Raises when a rank fails."""
    plan.out.mkdir(parents=True, exist_ok=True)
    for stale in plan.out.glob("rank*.json.gz"):
        stale.unlink()
    multiprocessing.set_forkserver_preload(["traces.record.worker"])  # torch is imported once, not once a rank
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        processes: Any = torch.multiprocessing  # untyped there
        processes.start_processes(work, args=(plan, store), nprocs=plan.job.world_size, start_method="forkserver")
