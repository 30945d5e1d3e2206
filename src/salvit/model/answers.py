"""What a model is asked and what it says, on tensors.

Letters: K shots · Q queries · N keypoints · D channels · H, W cells · T blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from salvit.geometry import is_inside
from salvit.model.dynamic import Weights
from salvit.model.locator import ScaleOutput
from salvit.types import Example, FittedImage


@dataclass(frozen=True, slots=True)
class EpisodeOutput:
    """What the network says of one episode: all that the losses need."""

    scales: tuple[ScaleOutput, ...]
    """Branches of every scale, for (queries, keypoints); for (1, P) where only P pairs of them were wanted."""
    exponents: Tensor | None
    """(K + Q, T) learnt exponents of support and query images, for the regulariser."""
    query_features: Tensor
    """(Q, D, H, W), for the alignment of features."""
    presence: Tensor | None = field(default=None, kw_only=True)
    """Logits that a keypoint is there to be seen, for the pairs of ``scales``, where the model has such a branch."""
    body: Tensor | None = field(default=None, kw_only=True)
    """(K + Q, n, H, W) logits of the body's parts in support and query images, where ``encoder.body`` asks for them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What pictures are searched for: N keypoints, as K examples teach them."""

    prototypes: Tensor
    """(N, D) the mean c of the examples."""
    shots: Tensor
    """(N,) how many examples have each keypoint."""
    weights: Weights | None
    """Of the dynamic head: the mean of those that each example makes."""
    filters: Tensor | None = field(default=None, kw_only=True)
    """(N, D), where ``head.filter_gain`` asks for them."""
    parts: Tensor | None = field(default=None, kw_only=True)
    """(N, n + 1) which part each keypoint is (:func:`salvit.model.parts.part_shares`), where ``head.parts`` asks."""


def images_as_tensors(
    images: Sequence[FittedImage], input_size: int, name: str, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Pixels (B, 3, S, S) in [0, 1] and saliency (B, S, S), None where no image has one; ``name`` is who takes them."""
    for image in images:
        if image.pixels.shape[:2] != (input_size, input_size):
            raise ValueError(
                f"{name} takes images fitted to {input_size}×{input_size} pixels, got "
                f"{image.pixels.shape[1]}×{image.pixels.shape[0]} {image.source}"
            )
    pixels = torch.from_numpy(np.stack([image.pixels for image in images])).to(device)
    given = [image.saliency for image in images if image.saliency is not None]
    if given and len(given) != len(images):
        raise ValueError(f"{len(given)} of {len(images)} images have saliency; expected all or none in one batch")
    saliency = torch.from_numpy(np.stack(given)).to(device, torch.float32) if given else None
    return pixels.permute(0, 3, 1, 2).float() / 255.0, saliency


def marks_of(examples: Sequence[Example], input_size: int) -> tuple[tuple[str, ...], Tensor, Tensor]:
    """All names of K examples, points (K, N, 2) in the input and mask (K, N); what is not marked is at 0."""
    names = tuple(dict.fromkeys(name for example in examples for name in example.names))
    if not names:
        raise ValueError("no keypoint is marked in any example; mark at least one")
    points = np.zeros((len(examples), len(names), 2))
    mask = np.zeros((len(examples), len(names)), dtype=bool)
    for k, example in enumerate(examples):
        columns = [names.index(name) for name in example.names]
        points[k, columns] = example.points_input
        inside = is_inside(example.points_input, (input_size, input_size))
        mask[k, columns] = np.asarray(example.visible, dtype=bool) & inside
    points = np.where(mask[..., None], points, 0.0)
    return names, torch.from_numpy(points), torch.from_numpy(mask)
