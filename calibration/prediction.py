"""Samples that no fit has seen, predicted from a profile: what a what-if would say of them, and what was measured.

Collectives go the way of a what-if (:func:`replay.collectives._network.collective_time`), also where a group was never
measured and is put together from both tiers; other ops through the fit of their key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from calibration.fit import score
from calibration.groups import groups
from calibration.models import cost_models
from calibration.problem import sizes_of
from hwprofiles.fitted import Fitted, Score
from hwprofiles.schema import HardwareProfile
from replay.collectives._network import Estimate, best_of, collective_time
from replay.collectives._two_tiers import Nodes
from replay.core.columns import Int8, groups_of
from replay.core.evidence import Grade
from replay.cost_model import Columns, CostModel
from replay.costs.correction import factor, from_coefficients
from replay.samples import Samples
from replay.trace import CollectiveKind

_BY_KEY = {CollectiveKind.DISPATCH, CollectiveKind.COMBINE}  # their sizes are tokens, not bytes
_KINDS = {kind.name.lower(): kind for kind in CollectiveKind if kind not in _BY_KEY}


@dataclass(frozen=True, slots=True)
class Predicted:
    """Some samples of one kind: by which formula they were predicted, how that is known, and how far off it is.

    ``grades`` counts rows by evidence grade; ``ratio`` is measured / predicted in the median.
    """

    name: str
    source: str
    formula: str
    grades: Mapping[str, int]
    ratio: float
    score: Score


def predict(profile: HardwareProfile, samples: Samples) -> tuple[tuple[Predicted, ...], tuple[str, ...]]:
    """Predictions by kind of op and source file, and a sentence for samples that the profile cannot predict."""
    known = np.logical_or.reduce([samples.op.equal(op) for op in _KINDS])
    collectives, notes = _collectives(profile, samples.take(known))
    others, more = _others(profile, samples.take(~known))
    return (*collectives, *others), (*notes, *more)


def _collectives(profile: HardwareProfile, samples: Samples) -> tuple[list[Predicted], list[str]]:
    found, notes = list[Predicted](), list[str]()
    for (op, nodes, each, source), rows in _groups_of_ranks(samples):
        name = f"{op} {nodes:g} x {each:g} ranks"
        if np.isnan(nodes) or np.isnan(each):
            notes.append(f"{source}: {len(rows)} samples of {op} do not say on how many nodes they ran; not predicted")
            continue
        estimate = collective_time(profile, _KINDS[op], rows.size("nbytes"), Nodes(int(nodes), int(each)))
        if estimate is None:
            notes.append(f"{source}: the profile cannot tell the time of {name}")
        else:
            found.append(_beside(name, source, estimate, rows))
    return found, notes


def _groups_of_ranks(samples: Samples) -> Iterator[tuple[tuple[str, float, float, str], Samples]]:
    """Rows by op, nodes, ranks a node and source, in this order."""
    nodes, each = samples.size("nodes"), samples.size("ranks_per_node")
    keys = list(zip(samples.op.to_list(), nodes, each, samples.source.to_list(), strict=True))
    codes = {key: code for code, key in enumerate(dict.fromkeys((op, str(n), str(r), s) for op, n, r, s in keys))}
    index = np.array([codes[op, str(n), str(r), s] for op, n, r, s in keys], dtype=np.int64)
    for rows in groups_of(index):
        yield keys[rows[0]], samples.take(rows)


def _others(profile: HardwareProfile, samples: Samples) -> tuple[list[Predicted], list[str]]:
    found = list[Predicted]()
    rivals: dict[tuple[str, ...], list[tuple[Fitted, CostModel, Samples]]] = {}
    for model in cost_models():
        for key, rows in groups(model, samples):
            if (fitted := profile.fit(model.name, **key)) is not None:
                rivals.setdefault(tuple(key.values()), []).append((fitted, model, rows))
    for place, candidates in rivals.items():
        best = best_of([fitted for fitted, _, _ in candidates])
        fitted, model, rows = next(candidate for candidate in candidates if candidate[0] is best)
        for source in rows.source.present():
            part = rows.take(rows.source.equal(source))
            columns = sizes_of(model, part)
            estimate = _by_fit(fitted, model, columns)
            found.append(_beside(" ".join(filter(None, place)), source, estimate, part))
    missed = len(samples) - sum(len(candidates[0][2]) for candidates in rivals.values())
    notes = [f"{missed} samples of {', '.join(samples.op.present())} have no fit in the profile; not predicted"]
    return found, notes if missed else []


def _by_fit(fitted: Fitted, model: CostModel, columns: Columns) -> Estimate:
    """By the cost model, and by the learned correction where the profile holds one."""
    time = np.asarray(model.predict(fitted.values(), columns))
    correction = from_coefficients(fitted.coefficients)
    if correction is None:
        return Estimate(time, fitted.grades(columns), f"{model.name} fitted")
    return Estimate(time * factor(correction, columns), fitted.grades(columns), f"{model.name} fitted, corrected")


def _beside(name: str, source: str, estimate: Estimate, rows: Samples) -> Predicted:
    ratio = float(np.median(rows.time_ns / estimate.time_ns))
    found = score(estimate.time_ns, rows.time_ns)
    return Predicted(name, source, estimate.formula, _counted(estimate.grade), ratio, found)


def _counted(grades: Int8) -> dict[str, int]:
    return {Grade(grade).label: number for grade, number in sorted(Counter(grades.tolist()).items())}
