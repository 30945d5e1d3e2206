import pytest

from salvit.bench.data import run


@pytest.mark.slow
def test_all_work_on_an_image_costs_less_than_two_and_a_half_warps():
    figures = run()
    assert set(figures) >= {f"episodes_per_second_{workers}" for workers in (0, 1, 2)}
    assert 0 < figures["rest_over_warp"] <= 2.5
