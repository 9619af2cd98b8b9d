"""Records a job on emulated devices."""

from __future__ import annotations

from traces.record import processes
from traces.record.worker import Plan, work


def record(plan: Plan) -> None:
    """Run the plan; traces and ``run.json`` lie in ``plan.out`` afterwards. Raises when a rank fails."""
    processes.make_room(plan.out)
    processes.start(work, plan, plan.job.world_size, preload=work.__module__)
