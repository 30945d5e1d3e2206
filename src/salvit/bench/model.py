"""How fast the network is, against its own backbone, and how much memory an episode takes; random weights.

The times are of the whole road from pixels to points, 384 px, 11 keypoints. Figures without a name in front are of
``salvit-resnet50`` (the paper's default), batch 8, and ``…_batch_1`` for one image; the other presets stand under their
names, for one image (``salvit-dinov2`` at 378 px: its patch is 14). ``fast_over_plain_attention``: 576 tokens, batch 8.
``episode_peak_mb``: memory that one training step adds, 1 support, 5 queries, 29 keypoints.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from salvit.model.attention import MaskedSelfAttention
from salvit.model.build import build_model
from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput
from salvit.model.losses import multi_scale_loss, total_loss
from salvit.model.morphology import exponent_regulariser
from salvit.model.settings import AttentionSettings, ModelSettings, ablation, preset

KEYPOINTS = 11
ROUNDS = 12
OTHERS = ("salvit-dino-s16", "salvit-dinov2", "salvit-lite0")


def run() -> dict[str, float]:
    """All figures by name."""
    figures = {}
    default, cnn_only = build_model(preset("salvit-resnet50"), None), build_model(ablation("cnn-only"), None)
    for batch, suffix, rounds in ((8, "", ROUNDS), (1, "_batch_1", 2 * ROUNDS)):
        seconds = _time_network(default, batch, rounds, cnn_only)
        figures[f"salvit_over_cnn_only{suffix}"] = _over(seconds, "salvit", "cnn_only")
        figures[f"salvit_over_backbone{suffix}"] = _over(seconds, "salvit", "backbone")
        figures[f"salvit_ms{suffix}"] = 1000 * statistics.median(seconds["salvit"])
    for name in OTHERS:
        settings = replace(preset(name), input_size=378 if name == "salvit-dinov2" else 384)
        seconds = _time_network(build_model(settings, None), 1, 2 * ROUNDS)
        figures[f"{name} salvit_over_backbone_batch_1"] = _over(seconds, "salvit", "backbone")
        figures[f"{name} salvit_ms_batch_1"] = 1000 * statistics.median(seconds["salvit"])
    figures["fast_over_plain_attention"] = _attention_ratio()
    figures["episode_peak_mb"] = _peak_in_new_process()
    return figures


def _time_network(model: SalViT, batch: int, rounds: int, cnn_only: SalViT | None = None) -> dict[str, list[float]]:
    images, saliency = _images(batch, model.input_size)
    roads: dict[str, Callable[[], object]] = {
        "backbone": lambda: model.backbone(images),
        "salvit": lambda: _detect(model, images, saliency),
    }
    if cnn_only is not None:
        roads["cnn_only"] = lambda: _detect(cnn_only, images, None)
    return _interleaved(roads, rounds)


def _detect(model: SalViT, images: torch.Tensor, saliency: torch.Tensor | None) -> object:
    features = model.encoder(model.prepare(images, saliency)).features
    vectors = features[0].flatten(1).T[None, :KEYPOINTS].contiguous()  # of one example: (1, N, D)
    return model.find(model.ask(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool)), features)


def _images(batch: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(batch, 3, size, size, generator=generator), torch.rand(batch, size, size, generator=generator)


def _attention_ratio() -> float:
    attention = MaskedSelfAttention(384, (24, 24), AttentionSettings())
    generator = torch.Generator().manual_seed(0)
    tokens, saliency = torch.randn(8, 576, 384, generator=generator), torch.rand(8, 576, generator=generator)
    query, key, value = (part.contiguous() for part in attention.split_heads(tokens))
    seconds = _interleaved(
        {
            "fast": lambda: attention.mix_fast(query, key, value, saliency),
            "plain": lambda: attention.mix_plain(query, key, value, saliency),
        },
        rounds=2 * ROUNDS,
    )
    return _over(seconds, "fast", "plain")


def _over(seconds: dict[str, list[float]], one: str, other: str) -> float:
    """Median time of the one over the median time of the other."""
    return statistics.median(seconds[one]) / statistics.median(seconds[other])


@torch.no_grad()
def _interleaved(roads: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each road; they take turns, so that what else the machine does meets all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in roads}
    for number in range(rounds + 1):
        for name, road in roads.items():
            start = time.perf_counter()
            road()
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    return seconds


def training_episode(settings: ModelSettings, keypoints: int = 29, queries: int = 5) -> Callable[[], None]:
    """One training step on random images, ready to run."""
    model = build_model(settings, None).train()
    size = settings.input_size
    points = torch.rand(queries, keypoints, 2, generator=torch.Generator().manual_seed(1)) * (size - 1)

    def step() -> None:
        support, query = model.prepare(*_images(1, size)), model.prepare(*_images(queries, size))
        mask = torch.ones(1, keypoints, dtype=torch.bool)
        output = model(EncoderInput(support.raw, support.images, support.saliency), points[:1], mask, query)
        loss = multi_scale_loss(output.scales, points, mask.expand(queries, -1), size)
        zero = loss.new_zeros(())
        total_loss(loss, zero if output.exponents is None else exponent_regulariser(output.exponents), zero).backward()

    return step


def _peak_in_new_process() -> float:
    """Megabytes that one training step adds to a process that has done nothing else."""
    code = "from salvit.bench.model import _print_episode_peak; _print_episode_peak()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _print_episode_peak() -> None:
    step = training_episode(preset("salvit-resnet50"))
    forget = Path("/proc/self/clear_refs")
    if forget.exists():  # Linux can forget the peak so far, which a new process inherits from its parent
        forget.write_text("5")
        before = _memory("VmRSS")
        step()
        print(_memory("VmHWM") - before)
    else:
        import resource

        step()
        unit = 2**20 if sys.platform == "darwin" else 2**10
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def _memory(which: str) -> float:
    """Megabytes by a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(which)) / 1024
