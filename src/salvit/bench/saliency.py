"""What saliency costs on top of the backbone that gives it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

REPEATS = 15


def run() -> dict[str, float]:
    """Time of a pass with its saliency map over the time of the pass alone, one picture, one thread, random weights."""
    from salvit.backbones import build_backbone
    from salvit.saliency.attentiveness import ATTENTION_BLOCK, attentiveness_map
    from salvit.saliency.learned import SaliencyDecoder

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            lite0, decoder = build_backbone("lite0", weights=None), SaliencyDecoder().eval()
            dinov2 = build_backbone("dinov2-s14", weights=None)
            tapped = build_backbone("dinov2-s14", weights=None, attention_block=ATTENTION_BLOCK)
            small = torch.rand(1, 3, lite0.default_size, lite0.default_size)
            large = torch.rand(1, 3, dinov2.default_size, dinov2.default_size)
            lite = _medians(
                {"alone": lambda: lite0(small), "with_map": lambda: decoder.from_tokens(lite0(small))}, REPEATS
            )
            dino = _medians(
                {"alone": lambda: dinov2(large), "with_map": lambda: attentiveness_map(tapped(large))}, REPEATS
            )
    finally:
        torch.set_num_threads(threads)
    return {
        "learned_over_backbone": lite["with_map"] / lite["alone"],
        "attentiveness_over_backbone": dino["with_map"] / dino["alone"],
        "lite0_ms": 1000 * lite["alone"],
        "learned_ms": 1000 * lite["with_map"],
        "dinov2_ms": 1000 * dino["alone"],
        "attentiveness_ms": 1000 * dino["with_map"],
    }


def _medians(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median processor seconds of each call on one thread, taken in turns: other programs do not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for index in range(repeats + 2):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if index >= 2:  # the first two warm up
                times[name].append(time.process_time() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}
