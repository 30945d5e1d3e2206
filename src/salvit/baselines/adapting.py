"""What MAML and TFA share: the localisation net takes some steps on the marked pictures before it looks at a query.

The network is SalViT's without its transformer: modulator, descriptor net, localisation net. The marked pictures act as
supports and as queries; the localisation net alone is adapted. A pack keeps the features and points that it was learnt
from, so that it can be adapted to again.

Letters: K shots · Q query images · N keypoints · P wanted pairs of them · D channels of features · H, W cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import functional_call

from salvit.backbones import Backbone
from salvit.baselines.method import Method, check_head
from salvit.model.answers import Asked, EpisodeOutput, marks_of
from salvit.model.build import build_head
from salvit.model.locator import ScaleOutput
from salvit.model.losses import multi_scale_loss
from salvit.model.settings import ModelSettings
from salvit.types import Encoded, Example, Pack

Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Adapted(Asked):
    """What pictures are searched for, and the weights of the localisation net that were adapted to it."""

    locator: Weights


class Adapting(Method):
    """A method that adapts its localisation net; a subclass says how, and whether in training too."""

    steps: int
    rate: float
    adapts_in_training: bool

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        check_head(settings)
        super().__init__(settings, backbone)
        self.descriptor, self.locator = build_head(self.settings, self.encoder)

    def compare(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """Modulate, describe, locate: with the weights that were trained."""
        return self._read(self.descriptor(features, prototypes, wanted), None)

    def search(self, asked: Asked, features: Tensor, looked: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """As :meth:`compare`, with the weights that were adapted to a pack (:meth:`asked`)."""
        weights = asked.locator if isinstance(asked, Adapted) else None
        return self._read(self.descriptor(features, asked.prototypes), weights)

    def answer(
        self, asked: Asked, features: Tensor, wanted: Tensor | None, marked: tuple[Tensor, Tensor, Tensor]
    ) -> EpisodeOutput:
        """What is said of the queries, after adaptation to the supports where there is one."""
        is_adapted = self.adapts_in_training or not self.training
        weights = self.adapt(asked.prototypes, *marked) if is_adapted else None
        return EpisodeOutput(self._read(self.descriptor(features, asked.prototypes, wanted), weights), None, features)

    def adapt(self, prototypes: Tensor, features: Tensor, points_input: Tensor, mask: Tensor) -> Weights:
        """Weights of the localisation net after some steps of gradient descent on the marked pictures.

            W ← W − rate · g / max(1, ‖g‖)

        The gradient g is a constant to what comes after (first order): so the gradient of a later loss at the adapted
        weights reaches the trained ones as it is. Choice: g is cut to length 1, or small determinants make it explode.
        Shapes: prototypes (N, D), features (K, D, H, W), points_input (K, N, 2), mask (K, N).
        """
        weights: Weights = dict(self.locator.named_parameters())
        if not mask.any():
            return weights
        with torch.no_grad():
            descriptors = self.descriptor(features, prototypes, mask)  # (1, P, L)
        points, valid = points_input[mask][None], torch.ones(1, int(mask.sum()), dtype=torch.bool, device=mask.device)
        for _ in range(self.steps):
            leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
            with torch.enable_grad():
                loss = multi_scale_loss(self._read(descriptors, leaves), points, valid, self.input_size)
                slopes = torch.autograd.grad(loss, list(leaves.values()))
            length = torch.stack([slope.norm() for slope in slopes]).norm().clamp_min(1)
            weights = {
                name: value - self.rate / length * slope
                for (name, value), slope in zip(weights.items(), slopes, strict=True)
            }
        return weights

    def learn(self, examples: Sequence[Example], encoded: Encoded | None = None) -> Pack:
        """As SalViT, and with the features and points to adapt to."""
        known = encoded or self.encode([example.image for example in examples])
        _, points, mask = marks_of(examples, self.input_size)
        kept = {"features": known.features.cpu(), "points": points.float(), "mask": mask}
        extra = {f"{self.settings.method}.{name}": value for name, value in kept.items()}
        return replace(super().learn(examples, known), extra=extra)

    def asked(self, pack: Pack) -> Asked:
        """As SalViT, and adapted to the pack's pictures."""
        asked = super().asked(pack)
        if isinstance(asked, Adapted):
            return asked
        method, kept = self.settings.method, asked.prototypes
        features, points = (pack.extra[f"{method}.{name}"].to(kept) for name in ("features", "points"))
        weights = self.adapt(kept, features, points, pack.extra[f"{method}.mask"].to(kept.device))
        adapted = Adapted(kept, asked.shots, asked.weights, weights)
        self._last = (pack, adapted)
        return adapted

    def _read(self, descriptors: Tensor, weights: Weights | None) -> tuple[ScaleOutput, ...]:
        scales: tuple[ScaleOutput, ...] = (
            self.locator(descriptors) if weights is None else functional_call(self.locator, weights, (descriptors,))
        )
        return scales
