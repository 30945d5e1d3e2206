"""The benchmark of the network gives the figures that it promises."""

from dataclasses import replace

import pytest
import torch

from salvit.bench import model as bench
from salvit.model.settings import preset


def test_attention_figure_is_a_ratio_near_or_below_one(monkeypatch):
    monkeypatch.setattr(bench, "ROUNDS", 2)
    assert 0 < bench._attention_ratio() < 1.5  # how far below is what the benchmark measures, on a quiet machine


def test_ratios_are_median_over_median():
    assert bench._over({"a": [2.0, 30.0, 4.0], "b": [1.0, 10.0, 1.0]}, "a", "b") == 4.0


def test_run_gives_every_promised_figure(monkeypatch):
    calls = []

    def quick(roads, rounds):
        calls.append((set(roads), rounds))
        return {name: [2.0, 4.0] for name in roads}

    monkeypatch.setattr(bench, "_interleaved", quick)
    monkeypatch.setattr(bench, "_peak_in_new_process", lambda: 123.0)
    figures = bench.run()
    promised = {
        "salvit_over_cnn_only",
        "salvit_over_backbone",
        "salvit_over_backbone_batch_1",
        "fast_over_plain_attention",
        "episode_peak_mb",
    }
    assert promised <= set(figures)
    assert figures["salvit_over_backbone"] == 1.0
    assert any(roads == {"backbone", "salvit", "cnn_only"} for roads, _ in calls)


def test_roads_take_turns_and_the_first_turn_does_not_count():
    order = []
    seconds = bench._interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == ["a", "b"] * 3
    assert set(seconds) == {"a", "b"}


def test_a_training_step_leaves_gradients():
    settings = replace(preset("salvit-lite0", "narrow"), input_size=64)
    bench.training_episode(settings, keypoints=3, queries=2)()


@pytest.mark.slow
def test_memory_of_an_episode_is_measured_in_a_new_process():
    assert 50 < bench._peak_in_new_process() < 20_000
    assert torch.is_grad_enabled()
