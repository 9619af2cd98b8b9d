"""Whether the device work of a trace is complete: launches against kernels, and communication nobody recognised."""

from __future__ import annotations

import re

import numpy as np

from parsers._comm_names import looks_like_communication
from parsers._comm_table import CommTable
from replay.core.columns import Bool, Int32
from replay.core.units import percent
from replay.trace import EventKind, Health

# CUDA's and HIP's calls that put work on a stream, one kernel, copy or set each (graph launches put many), and what
# other runtimes call like them (musaLaunchKernel, CANN's Node@launch, …).
_LAUNCH = re.compile(
    r"(?:cuda|cu|hip)(?:Ext)?(?:Module)?Launch(?:Kernel|Cooperative|Graph)|(?:cuda|hip)GraphLaunch|"
    r"(?:cuda|hip)Mem(?:cpy|set)\w*Async|hipMemcpyWithStream|[a-z]+LaunchKernel|Node@launch$",
)
_SHOWN = 3
_SHOWN_CHARS = 60


def coverage(table: CommTable) -> Health:
    """Counts of kernels without a launch and launches without a kernel; a share where some are missing.

    Profilers drop device records outside of their capture window (pytorch issue 192021); a step that lost kernels
    must not be taken for a fast one.
    """
    device = np.flatnonzero(table.is_device)
    matched = table.launches_of(device)
    is_launch = np.array([*(bool(_LAUNCH.match(name)) for name in table.names), False])[table.name]
    launches = np.flatnonzero(is_launch & (table.kind == EventKind.RUNTIME) & (table.correlation > 0))
    lost = int((~np.isin(table.join_key(launches), table.join_key(device))).sum())
    warnings = []
    if lost:
        share = percent(len(launches) - lost, len(launches))
        warnings.append(
            f"{lost} of {len(launches)} launches have no device work in the trace ({share:.1f} % covered); steps that "
            "lost kernels look faster than they were"
        )
    return Health(
        kernels_without_launch=int((matched < 0).sum()), launches_without_kernel=lost, warnings=tuple(warnings)
    )


def unrecognised_communication(table: CommTable, comm: Int32) -> tuple[str, ...]:
    """A warning with names and time share where kernels look like communication but are not known as such."""
    kernels = table.kind == EventKind.KERNEL
    compute = np.unique(table.name[kernels & (comm < 0)]).tolist()
    suspects = [code for code in compute if looks_like_communication(table.names[code])]
    suspect: Bool = np.isin(table.name, suspects) & kernels & (comm < 0)
    if not suspects:
        return ()
    share = percent(int(table.dur_ns[suspect].sum()), int(table.dur_ns[kernels].sum()))
    names = [table.names[code][:_SHOWN_CHARS] for code in suspects]
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    warning = (
        f"{int(suspect.sum())} kernels look like communication but are not recognised and count as compute "
        f"({share:.1f} % of kernel time): {shown}"
    )
    return (warning,)
