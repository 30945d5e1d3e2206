"""Trains the decoder of ``learned`` from noisy teachers, without saliency, box or keypoint labels.

Round 0 teaches the mean of the teachers. Each later round asks the noise model what the truth is likely to be, given
the pupil so far and the teachers, and teaches that.

Letters: V views · T teachers · G cells along a side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.saliency.learned import SaliencyDecoder
from salvit.saliency.noise_model import estimate_truth


@dataclass(frozen=True, kw_only=True)
class LearnedSettings:
    """How ``learned`` is trained. Chosen on dev: see docs/saliency.md."""

    seed: int = 0
    width: int = 64
    """Channels of the decoder."""
    epochs: tuple[int, ...] = (2, 1, 1)
    """Passes over all views in each round."""
    batch: int = 16
    rate: float = 2e-3
    """Learning rate at the start; it falls to 0 along a cosine."""
    decay: float = 1e-2
    """Weight decay."""
    belief: float = 0.6
    """How much the teachers' evidence counts."""
    share: float = 0.25
    """Expected share of foreground over all pictures: without labels it is an assumption."""
    outside: float = 0.1
    """Weight of the padding in the loss: it must be background."""

    def __post_init__(self) -> None:
        if not self.epochs or min(self.epochs) < 1:
            raise ValueError(f"epochs: expected at least one pass in each round, got {self.epochs}")
        if not 0 < self.share < 1:
            raise ValueError(f"share: expected a number between 0 and 1, got {self.share}")


def mean_of_teachers(maps: Tensor, inside: Tensor) -> Tensor:
    """The mean of the teachers' maps, stretched to [0, 1] in each view, 0 outside.

    Shapes: maps (V, T, G, G), inside (V, G, G) -> (V, G, G).
    """
    mean = maps.float().mean(1) / 255
    low = mean.masked_fill(~inside, math.inf).amin((1, 2), keepdim=True)
    high = mean.masked_fill(~inside, -math.inf).amax((1, 2), keepdim=True)
    return ((mean - low) / (high - low).clamp_min(1e-6)).clamp(0, 1) * inside


def saliency_loss(logits: Tensor, target: Tensor, inside: Tensor, outside: float) -> Tensor:
    """Cross entropy to a soft target, the padding weighted by ``outside``; all (B, G, G) -> a number."""
    weights = torch.where(inside, 1.0, outside)
    return (F.binary_cross_entropy_with_logits(logits, target, reduction="none") * weights).mean()


def train_decoder(
    lessons: Mapping[str, Tensor],
    settings: LearnedSettings,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[str], None] = lambda message: None,
) -> SaliencyDecoder:
    """Train from lessons (see ``lessons.py``); with a checkpoint file, a stopped run goes on at its last round."""
    torch.manual_seed(settings.seed)
    state = _Training(lessons, settings)
    first = state.load(checkpoint) if checkpoint is not None and checkpoint.is_file() else 0
    for index in range(first, len(settings.epochs)):
        target = state.next_target(index)
        for epoch in range(settings.epochs[index]):
            loss = state.run_epoch(target)
            on_epoch(f"round {index} epoch {epoch}: loss {loss:.4f}")
        if checkpoint is not None:
            state.save(checkpoint, index + 1)
    return state.decoder.requires_grad_(False).eval()


class _Training:
    """What changes while a decoder is trained."""

    def __init__(self, lessons: Mapping[str, Tensor], settings: LearnedSettings) -> None:
        self.settings = settings
        self.levels = (lessons["level0"], lessons["level1"])
        self.maps, self.inside = lessons["maps"], lessons["inside"]
        self.decoder = SaliencyDecoder(settings.width)
        self.optimiser = torch.optim.AdamW(self.decoder.parameters(), settings.rate, weight_decay=settings.decay)
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.step = 0
        self.num_steps = sum(settings.epochs) * math.ceil(len(self.maps) / settings.batch)

    def next_target(self, index: int) -> Tensor:
        """What this round teaches."""
        if index == 0:
            return mean_of_teachers(self.maps, self.inside)
        prior = torch.cat(list(self._predict()))
        return estimate_truth(prior, self.maps, self.inside, belief=self.settings.belief, share=self.settings.share)

    @torch.no_grad()
    def _predict(self) -> Iterator[Tensor]:
        self.decoder.eval()
        for start in range(0, len(self.maps), 64):
            yield self.decoder([level[start : start + 64].float() for level in self.levels]).sigmoid()

    def run_epoch(self, target: Tensor) -> float:
        """One pass over all views in a new order; gives the mean loss."""
        self.decoder.train()
        losses = []
        for chosen in torch.randperm(len(self.maps), generator=self.generator).split(self.settings.batch):
            self.optimiser.param_groups[0]["lr"] = self.settings.rate * _cosine(self.step / self.num_steps)
            logits = self.decoder([level[chosen].float() for level in self.levels])
            loss = saliency_loss(logits, target[chosen], self.inside[chosen], self.settings.outside)
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            self.step += 1
            losses.append(loss.item())
        return sum(losses) / len(losses)

    def save(self, path: Path, next_round: int) -> None:
        """Keep all that the next round needs."""
        partial = path.with_suffix(".part")
        state = {
            "decoder": self.decoder.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "step": self.step,
            "num_steps": self.num_steps,
            "settings": repr(self.settings),
            "next_round": next_round,
        }
        torch.save(state, partial)
        partial.replace(path)

    def load(self, path: Path) -> int:
        """Take up a kept run; gives the round that is next. Another run's checkpoint is an error."""
        state = torch.load(path, weights_only=True)
        if state["settings"] != repr(self.settings) or state["num_steps"] != self.num_steps:
            raise ValueError(f"{path} is of a run with other settings or pictures; remove it to train anew")
        self.decoder.load_state_dict(state["decoder"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.step = state["step"]
        return int(state["next_round"])


def _cosine(progress: float) -> float:
    return 0.5 + 0.5 * math.cos(math.pi * progress)


def save_decoder(decoder: SaliencyDecoder, path: Path, metadata: Mapping[str, str]) -> None:
    """Write the decoder in half precision, in one atomic step."""
    from safetensors.torch import save_file

    halves = {
        name: value.half().contiguous() if value.is_floating_point() else value
        for name, value in decoder.state_dict().items()
    }
    partial = path.with_suffix(".part")
    save_file(halves, partial, metadata=dict(metadata))
    partial.replace(path)
