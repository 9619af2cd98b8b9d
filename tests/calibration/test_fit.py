"""Fits recover what made the data, say how sure they are, and refuse what the data cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.covariance import Errors
from calibration.fit import FitOptions, fit
from calibration.holdout import random_half, scores
from calibration.loss import Loss, influence, scale_of
from replay.core.columns import Float64
from replay.core.errors import FitError
from replay.samples import Samples
from tests.calibration.fakes import BYTES_PER_S, LATENCY_NS, link_model, powers_of_two, samples

TRUTH = {"latency_ns": LATENCY_NS, "bytes_per_s": BYTES_PER_S}


def exact(nbytes: Float64) -> Float64:
    return LATENCY_NS + nbytes * 1e9 / BYTES_PER_S


def noisy(seed: int, repeats: int, *, heavy: bool) -> Samples:
    """4 % noise, normal, or with heavy tails and one row in fifty disturbed (slow by up to a factor of two)."""
    rng = np.random.default_rng(seed)
    nbytes = powers_of_two(repeats)
    noise = rng.standard_t(3, len(nbytes)) if heavy else rng.normal(size=len(nbytes))
    slow = np.where(rng.random(len(nbytes)) < (0.02 if heavy else 0.0), rng.uniform(1.2, 2.0, len(nbytes)), 1.0)
    return samples(nbytes, exact(nbytes) * np.exp(0.04 * noise) * slow)


def test_exact_data_give_exact_parameters() -> None:
    result = fit(link_model(), samples(powers_of_two(), exact(powers_of_two())))
    assert dict(result.values) == pytest.approx(TRUTH, rel=1e-9)
    assert len(result.outliers) == 0
    assert result.score.p90_pct < 1e-6


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(("loss", "heavy"), [(Loss.PLAIN, False), (Loss.ROBUST, False), (Loss.ROBUST, True)])
def test_two_standard_errors_cover_the_truth(loss: Loss, repeats: int, *, heavy: bool) -> None:
    """Over 200 data sets 90 to 98 % of the time, whatever the parameter."""
    model = link_model()
    fits = [fit(model, noisy(seed, repeats, heavy=heavy), FitOptions(loss=loss)) for seed in range(200, 400)]
    for name, truth in TRUTH.items():
        covered = np.mean([abs(found.values[name] - truth) <= 2 * found.stderr[name] for found in fits])
        assert 0.90 <= covered <= 0.98, (name, covered)


def test_textbook_errors_are_wrong_for_a_robust_fit_and_sandwich_ones_are_not() -> None:
    """Bootstrap and sandwich agree; the textbook covariance counts outliers that the fit hardly follows."""
    data = noisy(5, 3, heavy=True)
    error = {kind: fit(link_model(), data, FitOptions(errors=kind)).stderr["bytes_per_s"] for kind in Errors}
    assert error[Errors.SANDWICH] == error[Errors.AUTO]
    assert error[Errors.SANDWICH] == pytest.approx(error[Errors.BOOTSTRAP], rel=0.35)
    assert error[Errors.CLASSICAL] > 1.2 * error[Errors.BOOTSTRAP]


def test_an_outlier_is_named_and_hardly_moves_a_robust_fit() -> None:
    times = exact(powers_of_two())
    times[7] *= 3
    result = fit(link_model(), samples(powers_of_two(), times))
    assert result.values["bytes_per_s"] == pytest.approx(BYTES_PER_S, rel=0.01)
    assert list(result.outliers) == [7]
    assert samples(powers_of_two(), times).where(int(result.outliers[0])) == "made_up.log:8"


def test_one_message_size_cannot_give_latency_and_bandwidth() -> None:
    nbytes = np.full(20, 2.0**20)
    with pytest.raises(
        FitError, match=r"1 distinct size .*nbytes = 1.04858e\+06.*cannot tell latency_ns, bytes_per_s apart; measure"
    ):
        fit(link_model(), samples(nbytes, exact(nbytes) * np.linspace(0.99, 1.01, 20)))


def test_sizes_without_latency_leave_it_open() -> None:
    """Times of GiB messages do not tell 20 us."""
    nbytes = 2.0 ** np.arange(34, 44)
    rng = np.random.default_rng(0)
    data = samples(nbytes, exact(nbytes) * np.exp(0.02 * rng.normal(size=10)))
    with pytest.raises(FitError, match="latency_ns"):
        fit(link_model(), data)
    result = fit(link_model(optional=True), data)
    assert set(result.held) == {"latency_ns"}
    assert "latency_ns" not in result.stderr


def test_a_parameter_at_its_bound_is_named() -> None:
    """A latency below the lower bound of 1 ns."""
    nbytes = powers_of_two()
    with pytest.raises(FitError, match="latency_ns ends at its lower bound, 1 ns"):
        fit(link_model(), samples(nbytes, nbytes * 1e9 / BYTES_PER_S))


def test_too_few_samples_are_refused_with_their_number() -> None:
    with pytest.raises(FitError, match="2 usable samples of 2 cannot determine 2 parameters"):
        fit(link_model(), samples([1e3, 1e6], np.array([1e3, 1e6])))


def test_rows_of_another_op_are_not_used() -> None:
    with pytest.raises(FitError, match="0 usable samples of 24"):
        fit(link_model(), samples(powers_of_two(), exact(powers_of_two()), op="broadcast"))


def test_two_fits_of_the_same_data_are_the_same() -> None:
    first, second = (fit(link_model(), noisy(1, 3, heavy=True)) for _ in range(2))
    assert first.values == second.values
    assert first.stderr == second.stderr


def test_scores_are_of_rows_that_were_not_fitted() -> None:
    """A model that lacks what the largest decade shows scores badly there and well inside."""
    nbytes = powers_of_two()
    times = exact(nbytes) * np.where(nbytes > nbytes.max() / 10, 2.0, 1.0)
    data = samples(nbytes, times)
    held_out = scores(data, fit(link_model(), data), FitOptions())
    assert held_out.scores["largest decade of nbytes"].median_pct == pytest.approx(50, abs=1)
    assert held_out.scores["largest decade of nbytes"].samples == 4
    assert held_out.notes == ()


def test_a_random_half_is_half_and_stays_the_same() -> None:
    assert random_half(101, 0).sum() == 50
    assert (random_half(101, 0) == random_half(101, 0)).all()


def test_soft_l1_influence_by_hand() -> None:
    """u = c sqrt(3), c = 1.345: psi = u / 2, psi' = 1/8."""
    psi, slope = influence(np.array([1.345 * 3**0.5]), Loss.ROBUST, 1.0)
    assert psi == pytest.approx([1.345 * 3**0.5 / 2])
    assert slope == pytest.approx([1 / 8])


def test_the_scale_ignores_outliers() -> None:
    assert scale_of(np.array([-1.0, 1.0, -1.0, 1.0, 1e9])) == pytest.approx(1.4826)


def test_what_a_profile_knows_is_held_there_where_the_samples_do_not_tell_it() -> None:
    """Messages of 1 to 32 bytes, 1 % up and down, tell the latency alone; the bandwidth is that of the profile."""
    small = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    shaken = exact(small) * np.array([1.01, 0.99, 0.99, 1.01, 1.01, 0.99])
    found = fit(link_model(), samples(small, shaken), FitOptions(known={"bytes_per_s": 2e11}))
    assert found.values["bytes_per_s"] == 2e11
    assert found.values["latency_ns"] == pytest.approx(LATENCY_NS, rel=0.01)
    assert set(found.stderr) == {"latency_ns"}
    assert "base profile" in found.held["bytes_per_s"]


def test_one_parameter_that_the_model_needs_is_always_fitted() -> None:
    one = np.full(6, 1024.0)
    with pytest.raises(FitError, match="1 distinct size"):
        fit(link_model(), samples(one, exact(one)), FitOptions(known={"bytes_per_s": 2e11, "latency_ns": 1e4}))
