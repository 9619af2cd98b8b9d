"""The fitting layer against certified answers: NIST StRD nonlinear regression, values and standard deviations.

Data, start values and certificates: https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from calibration.covariance import Errors
from calibration.fit import FitOptions, fit
from calibration.loss import Loss
from calibration.problem import Residual
from replay.core.columns import Float64
from replay.cost_model import CostModel, ParameterSpec
from tests.calibration.fakes import samples


@dataclass(frozen=True)
class Certified:
    """A data set with its model, both start values, and the certified answer."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    model: Callable[[Float64, Float64], Float64]
    starts: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]
    deviations: tuple[float, ...]


def growth(b: Float64, x: Float64) -> Float64:
    """b1 (1 - exp(-b2 x)): Misra1a and BoxBOD."""
    return np.asarray(b[0] * -np.expm1(-b[1] * x))


def roszman(b: Float64, x: Float64) -> Float64:
    """b1 - b2 x - arctan(b3 / (x - b4)) / pi."""
    return np.asarray(b[0] - b[1] * x - np.arctan(b[2] / (x - b[3])) / np.pi)


def thurber(b: Float64, x: Float64) -> Float64:
    """Cubic over cubic."""
    powers = np.stack([x**0, x, x**2, x**3])
    return np.asarray((b[:4] @ powers) / (1.0 + b[4:] @ powers[1:]))


def kowalik(b: Float64, x: Float64) -> Float64:
    """b1 (x² + x b2) / (x² + x b3 + b4): MGH09."""
    return np.asarray(b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]))


CASES = {
    "Misra1a": Certified(
        (77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0),
        (10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78),
        growth, ((500.0, 1e-4), (250.0, 5e-4)),
        (2.3894212918e02, 5.5015643181e-04), (2.7070075241e00, 7.2668688436e-06),
    ),
    "BoxBOD": Certified(
        (1, 2, 3, 5, 7, 10), (109, 149, 149, 191, 213, 224), growth, ((100.0, 0.75),),
        (2.1380940889e02, 5.4723748542e-01), (1.2354515176e01, 1.0455993237e-01),
    ),
    "MGH09": Certified(
        (4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625),
        (0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246),
        kowalik, ((0.25, 0.39, 0.415, 0.39),),
        (1.9280693458e-01, 1.9128232873e-01, 1.2305650693e-01, 1.3606233068e-01),
        (1.1435312227e-02, 1.9633220911e-01, 8.0842031232e-02, 9.0025542308e-02),
    ),
    "Roszman1": Certified(
        (-4868.68, -4868.09, -4867.41, -3375.19, -3373.14, -3372.03, -2473.74, -2472.35, -2469.45, -1894.65, -1893.40,
         -1497.24, -1495.85, -1493.41, -1208.68, -1206.18, -1206.04, -997.92, -996.61, -996.31, -834.94, -834.66,
         -710.03, -530.16, -464.17),
        (0.252429, 0.252141, 0.251809, 0.297989, 0.296257, 0.295319, 0.339603, 0.337731, 0.333820, 0.389510, 0.386998,
         0.438864, 0.434887, 0.427893, 0.471568, 0.461699, 0.461144, 0.513532, 0.506641, 0.505062, 0.535648, 0.533726,
         0.568064, 0.612886, 0.624169),
        roszman, ((0.1, -1e-5, 1000.0, -100.0), (0.2, -5e-6, 1200.0, -150.0)),
        (2.0196866396e-01, -6.1953516256e-06, 1.2044556708e03, -1.8134269537e02),
        (1.9172666023e-02, 3.2058931691e-06, 7.4050983057e01, 4.9573513849e01),
    ),
    "Thurber": Certified(
        (-3.067, -2.981, -2.921, -2.912, -2.840, -2.797, -2.702, -2.699, -2.633, -2.481, -2.363, -2.322, -1.501, -1.460,
         -1.274, -1.212, -1.100, -1.046, -0.915, -0.714, -0.566, -0.545, -0.400, -0.309, -0.109, -0.103, 0.010, 0.119,
         0.377, 0.790, 0.963, 1.006, 1.115, 1.572, 1.841, 2.047, 2.200),
        (80.574, 84.248, 87.264, 87.195, 89.076, 89.608, 89.868, 90.101, 92.405, 95.854, 100.696, 101.060, 401.672,
         390.724, 567.534, 635.316, 733.054, 759.087, 894.206, 990.785, 1090.109, 1080.914, 1122.643, 1178.351,
         1260.531, 1273.514, 1288.339, 1327.543, 1353.863, 1414.509, 1425.208, 1421.384, 1442.962, 1464.350, 1468.705,
         1447.894, 1457.628),
        thurber, ((1000.0, 1000.0, 400.0, 40.0, 0.7, 0.3, 0.03), (1300.0, 1500.0, 500.0, 75.0, 1.0, 0.4, 0.05)),
        (1.2881396800e03, 1.4910792535e03, 5.8323836877e02, 7.5416644291e01, 9.6629502864e-01, 3.9797285797e-01,
         4.9727297349e-02),
        (4.6647963344e00, 3.9571156086e01, 2.8698696102e01, 5.5675370270e00, 3.1333340687e-02, 1.4984928198e-02,
         6.5842344623e-03),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "start"), [(name, start) for name, case in CASES.items() for start in range(len(case.starts))]
)
def test_certified_values_and_deviations(name: str, start: int) -> None:
    """Six digits of every value and four of every standard deviation, from every start value."""
    case = CASES[name]
    names = [f"b{i + 1}" for i in range(len(case.values))]
    specs = [ParameterSpec(b, "1", x, -1e5, 1e5, log=False) for b, x in zip(names, case.starts[start], strict=True)]
    model = CostModel(
        name, (), ("nbytes",), tuple(specs),
        lambda values, columns: case.model(np.array([values[b] for b in names]), columns["nbytes"]),
    )  # fmt: skip
    options = FitOptions(loss=Loss.PLAIN, residual=Residual.LINEAR, errors=Errors.CLASSICAL)
    result = fit(model, samples(case.x, np.array(case.y)), options)
    assert [result.values[b] for b in names] == pytest.approx(case.values, rel=1e-6)
    assert [result.stderr[b] for b in names] == pytest.approx(case.deviations, rel=1e-4)
