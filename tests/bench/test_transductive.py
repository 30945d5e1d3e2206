import pytest

from salvit.bench import transductive


@pytest.mark.slow
def test_it_measures_transduction_against_the_usual_road(monkeypatch):
    monkeypatch.setattr(transductive, "_ROUNDS", 1)
    monkeypatch.setattr(transductive, "_QUERIES", 8)
    figures = transductive.run()
    names = {"transductive_over_inductive", "inductive_ms_per_image", "transductive_ms_per_image"}
    assert set(figures) == names | {f"lite0 {name}" for name in names}
    assert 0.5 < figures["transductive_over_inductive"] < 2
