"""Gloo groups that share one network device a process.

``dist.new_group(backend="gloo")`` gives every group a network thread of its own, which wakes a hundred times a second
even when idle; with a handful of groups on sixteen ranks that costs more than the traffic. Registered as a backend of
its own, the same ``ProcessGroupGloo`` takes the process' one device.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

import torch.distributed as dist

from traces.record.groups import BACKEND

TIMEOUT = timedelta(minutes=2)


def register() -> None:
    """Make ``BACKEND`` known to torch.distributed in this process."""
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _create, devices=["cpu"])


@cache
def _device() -> Any:
    return dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    backend: Any = dist.ProcessGroupGloo  # torch's stubs know neither its options nor its device
    options = backend._Options()
    options._devices = [_device()]
    options._threads = 1
    options._timeout = timeout
    return backend(store, rank, size, options)
