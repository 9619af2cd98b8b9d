"""Lifting in place: every op takes the mean duration of its template, edges stay as measured."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int32, Int64
from replay.core.statistics import trimmed_mean


def template_means(duration_ns: Int64, template: Int32) -> Int64:
    """Durations with each op of a template replaced by the trimmed mean over its instances (R12); others are kept."""
    result = duration_ns.copy()
    order = np.argsort(template, kind="stable")
    bounds = np.flatnonzero(np.diff(template[order])) + 1
    for ops in np.split(order, bounds):
        if len(ops) and template[ops[0]] >= 0:
            result[ops] = round(float(trimmed_mean(duration_ns[ops])))
    return result
