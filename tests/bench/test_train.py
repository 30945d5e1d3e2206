import os

import pytest

from salvit.bench import train


@pytest.mark.slow
def test_it_measures_cached_against_uncached_training_and_leaves_the_cache_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path))
    monkeypatch.setattr(train, "_ROUNDS", 1)
    figures = train.run()
    assert set(figures) == {
        *("cached_over_uncached", "cached_episodes_per_second", "uncached_episodes_per_second", "peak_mb")
    }
    assert figures["cached_over_uncached"] > 0 and os.environ["SALVIT_CACHE"] == str(tmp_path)
    assert not list(tmp_path.iterdir())
