import numpy as np
import pytest

from salvit.metrics import (
    GAUSSIAN_COVERAGE,
    bootstrap_harmonic,
    coverage,
    distances,
    expected_calibration_error,
    harmonic_mean,
    is_correct,
    mean_interval,
    negative_log_likelihood,
    oks,
    paired_bootstrap,
    presence_auroc,
    rank_correlation,
    squared_mahalanobis,
)


def test_distances_and_pck_are_counted_by_hand():
    found = distances(np.array([[[3.0, 4.0], [10.0, 0.0]]]), np.zeros((1, 2, 2)))
    assert found.tolist() == [[5.0, 10.0]]
    assert is_correct(found, np.array([50.0]), 0.1).tolist() == [[True, False]]  # 5 ≤ 5 counts


def test_the_interval_is_students():
    mean, half = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5 and half == pytest.approx(3.182446 * 1.290994 / 2, rel=1e-5)
    assert np.isnan(mean_interval([1.0])[1])


def test_the_harmonic_mean_is_the_papers():
    assert harmonic_mean(40.0, 60.0) == 48.0 and harmonic_mean(0.0, 0.0) == 0.0


def test_the_bootstrap_of_constant_episodes_has_no_width_and_of_others_has():
    assert bootstrap_harmonic(np.full(50, 40.0), np.full(50, 60.0)) == 0.0
    rng = np.random.default_rng(0)
    novel, base = rng.normal(50, 10, 400), rng.normal(50, 10, 400)
    # var(h) ≈ (var(a) + var(b)) / 4 near a = b: half width ≈ 1.96 · 10 / √400 / √2
    assert bootstrap_harmonic(novel, base) == pytest.approx(1.96 * 0.5 / 2**0.5, rel=0.15)


def test_a_paired_comparison_sees_what_two_intervals_do_not():
    rng = np.random.default_rng(0)
    hard = rng.normal(50, 20, 300)
    found = paired_bootstrap(hard + 1 + rng.normal(0, 1, 300), hard)
    assert found["difference"] == pytest.approx(1.0, abs=0.2) and found["low"] > 0 and found["p_not_above_zero"] == 0.0
    with pytest.raises(ValueError, match="same episodes"):
        paired_bootstrap(hard, hard[:10])


def test_mahalanobis_is_worked_by_hand():
    covariance = np.array([[4.0, 0.0], [0.0, 1.0]])
    assert squared_mahalanobis(np.array([2.0, 3.0]), np.zeros(2), covariance) == pytest.approx(1 + 9)


def test_a_gaussian_covers_what_it_should():
    rng = np.random.default_rng(0)
    covariance = np.array([[3.0, 1.0], [1.0, 2.0]])
    error = rng.multivariate_normal(np.zeros(2), covariance, 40000)
    squared = squared_mahalanobis(error, np.zeros(2), np.broadcast_to(covariance, (40000, 2, 2)))
    found = coverage(squared, np.ones(40000, dtype=bool))
    for k, share in GAUSSIAN_COVERAGE.items():
        assert found[k] == pytest.approx(100 * share, abs=0.6)
    assert [round(100 * share, 1) for share in GAUSSIAN_COVERAGE.values()] == [39.3, 86.5, 98.9]


def test_ellipses_have_the_radii_that_a_model_states():
    squared, valid = np.array([0.36, 3.0, 12.0, 0.0]), np.array([True, True, True, False])
    assert coverage(squared, valid) == pytest.approx({1: 100 / 3, 2: 200 / 3, 3: 200 / 3})
    stated = np.broadcast_to([0.5, 2.0, 4.0], (4, 3))
    assert coverage(squared, valid, stated) == pytest.approx({1: 0.0, 2: 200 / 3, 3: 100.0})


def test_calibration_error_by_hand():
    # bin 2 holds 0.2 and 0.28, one of them true: |1 − 0.48| ; bin 9 holds 1.0, true: 0
    probability, outcome = np.array([0.2, 0.28, 1.0]), np.array([True, False, True])
    assert expected_calibration_error(probability, outcome) == pytest.approx(0.52 / 3)
    rng = np.random.default_rng(0)
    honest = rng.random(50000)
    assert expected_calibration_error(honest, rng.random(50000) < honest) < 0.01


def test_the_likelihood_at_the_centre_of_a_unit_gaussian_is_log_two_pi():
    assert negative_log_likelihood(np.zeros(1), np.eye(2)[None], np.array([True])) == pytest.approx(np.log(2 * np.pi))


def test_rank_correlation_and_auroc():
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 90.0])) == pytest.approx(1.0)
    assert np.isnan(rank_correlation(np.ones(3), np.arange(3.0)))
    assert presence_auroc(np.array([0.9, 0.8, 0.1]), np.array([True, True, False])) == 1.0
    assert presence_auroc(np.array([0.5, 0.5]), np.array([True, False])) == 0.5
    assert np.isnan(presence_auroc(np.ones(2), np.ones(2, dtype=bool)))


def test_oks_is_cocos():
    pytest.importorskip("pycocotools", reason="pycocotools comes with the extra 'train'")
    # e = d² / (2 · area · (2σ)²); area 100, σ 0.05: d = 1 gives exp(−0.5), d = 0 gives 1
    found = oks(np.array([[0.0, 1.0, 99.0]]), np.array([100.0]), np.array([[True, True, False]]))
    assert found[0] == pytest.approx((1 + np.exp(-0.5)) / 2, rel=1e-6)
    assert np.isnan(oks(np.zeros((1, 2)), np.array([100.0]), np.zeros((1, 2), dtype=bool)))[0]
