"""The learned correction: what it takes up, and that it leaves alone what was not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibration.correction import learn
from calibration.fit import FitOptions
from calibration.profile import Target
from calibration.run import explain
from replay.core.columns import Float64
from replay.core.errors import FitError
from replay.cost_model import Columns, CostModel, ParameterSpec, Values
from replay.costs.correction import factor, from_coefficients, to_coefficients
from tests.calibration.fakes import samples

KNOTS = {"m": 8, "n": 8, "k": 4}


def grid() -> dict[str, Float64]:
    m, n, k = np.meshgrid(2.0 ** np.arange(4, 12), 2.0 ** np.arange(6, 13), 2.0 ** np.arange(5, 13))
    return {"m": m.ravel(), "n": n.ravel(), "k": k.ravel()}


def test_a_smooth_leftover_is_learned() -> None:
    """log(measured / predicted) = 0.3 · sin(log2 m): all but a few percent of it goes."""
    columns = grid()
    left = 0.3 * np.sin(np.log2(columns["m"]))
    learned = np.log(factor(learn(left, columns, KNOTS), columns))
    assert np.abs(left - learned).max() < 0.03


@pytest.mark.parametrize("size", ["m", "n", "k"])
def test_nothing_is_corrected_where_nothing_was_seen(size: str) -> None:
    columns = grid()
    correction = learn(np.full(len(columns["m"]), 0.2), columns, KNOTS)
    beyond = {
        name: np.array([4.0 * values.max() if name == size else values.min()]) for name, values in columns.items()
    }
    assert factor(correction, beyond)[0] == 1.0


def test_a_product_that_was_not_seen_counts_as_outside() -> None:
    """Both sizes in range, their product twice the largest seen."""
    columns = grid()
    seen = columns["n"] * columns["k"] < 2.0**20
    kept = {name: values[seen] for name, values in columns.items()}
    correction = learn(np.full(int(seen.sum()), 0.2), kept, KNOTS)
    corner = {"m": np.array([64.0]), "n": np.array([2.0**12]), "k": np.array([2.0**10])}
    assert factor(correction, corner)[0] == 1.0


def test_wrong_measurements_do_not_bend_it() -> None:
    """Every 20th row ten times too long."""
    columns = grid()
    left = np.zeros(len(columns["m"]))
    left[::20] = np.log(10.0)
    assert np.median(np.abs(np.log(factor(learn(left, columns, KNOTS), columns)))) < 0.02


def test_it_survives_a_profile() -> None:
    columns = grid()
    correction = learn(0.1 * np.log2(columns["n"]), columns, KNOTS)
    read = from_coefficients(to_coefficients(correction))
    assert read is not None
    assert (factor(read, columns) == factor(correction, columns)).all()


def test_one_value_of_a_size_is_too_few() -> None:
    columns = {**grid(), "k": np.full(8 * 7 * 8, 64.0)}
    with pytest.raises(FitError, match="over k needs two values of it"):
        learn(np.zeros(8 * 7 * 8), columns, KNOTS)


def test_a_correction_is_scored_apart_and_only_when_asked_for() -> None:
    """time = m · n ns, times a wave over m of up to 35 % that the model knows nothing of."""
    m, n = (size.ravel() for size in np.meshgrid(2.0 ** np.linspace(4, 12, 50), 2.0 ** np.linspace(4, 12, 50)))
    times = m * n * np.exp(0.3 * np.sin(np.log2(m)))
    data = replace(samples(m, times), sizes={"m": m, "n": n})
    rate = ParameterSpec("ns", "ns", 1.0, 1e-3, 1e3)
    model = CostModel("area", (), ("m", "n"), (rate,), area_ns, by=(), knots={"m": 12, "n": 4})
    asked = explain(model, {}, data, Target("a", "a"), FitOptions(learned=True)).fitted
    assert asked.learned["random half"].median_pct < 0.2 * asked.scores["random half"].median_pct
    assert from_coefficients(asked.coefficients) is not None
    plain = explain(model, {}, data, Target("a", "a"), FitOptions()).fitted
    assert (plain.scores, plain.learned, plain.coefficients) == (asked.scores, {}, {})


def area_ns(values: Values, columns: Columns) -> Float64:
    return values["ns"] * columns["m"] * columns["n"]
