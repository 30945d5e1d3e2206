"""``match``: no training, nearest features. The floor that every trained model must beat.

A keypoint is the unit feature at its place in the marked pictures, averaged over them. In a query it is found where the
cosine similarity of that vector and the query's features is highest.

Letters: B images · K shots · N keypoints · D channels · H, W cells of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

import salvit
from salvit.backbones import Backbone, Tokens
from salvit.backbones.files import hash_weights
from salvit.geometry import grid_to_input, input_to_grid
from salvit.types import Encoded, Example, FittedImage, Pack, Prediction

TEMPERATURE = 0.03
"""Choice: similarities are divided by this before a softmax turns them into the map that the covariance is taken from.

Chosen with lite0 on the 14 dev species of CUB among 0.02, 0.03, 0.04, 0.05 and 0.06: the likelihood of the true points
is highest, and ellipses of 2 σ hold 87.6 % of them (a Gaussian: 86.5 %). It does not move any point.
"""


class Match:
    """Nearest features under cosine similarity on a frozen backbone."""

    def __init__(self, backbone: Backbone, input_size: int | None = None) -> None:
        self.name = f"match:{backbone.name}"
        self.input_size = input_size or backbone.default_size
        self.weights_sha256 = hash_weights(backbone)
        self._backbone = backbone
        self._device = next(backbone.parameters()).device

    @torch.inference_mode()
    def encode(self, images: Sequence[FittedImage], tokens: Tokens | None = None) -> Encoded:
        """Images to unit features on the finest grid; ``tokens`` are what the same backbone gave before."""
        if tokens is None:
            pixels = torch.from_numpy(np.stack([image.pixels for image in images])).to(self._device)  # (B, S, S, 3)
            tokens = self._backbone(pixels.permute(0, 3, 1, 2).float() / 255.0)
        features = F.normalize(tokens.joined(normalise=True), dim=1)  # (B, D, H, W)
        return Encoded(features, tuple(image.fit for image in images))

    @torch.inference_mode()
    def learn(self, examples: Sequence[Example], encoded: Encoded | None = None) -> Pack:
        """One unit vector for each shot and keypoint: the feature at the marked place."""
        names = tuple(dict.fromkeys(name for example in examples for name in example.names))
        if not names:
            raise ValueError("no keypoint is marked in any example; mark at least one")
        vectors = torch.zeros(len(examples), len(names), self._backbone.channels)
        mask = torch.zeros(len(examples), len(names), dtype=torch.bool)
        for k, example in enumerate(examples):
            features = (encoded.select([k]) if encoded else self.encode([example.image])).features  # (1, D, H, W)
            at = torch.as_tensor(example.points_input, dtype=torch.float32, device=self._device)  # (n, 2)
            sampled = F.normalize(sample_features(features[0], at, self._backbone.stride), dim=1).cpu()  # (n, D)
            for n, name in enumerate(example.names):
                if example.visible[n]:
                    vectors[k, names.index(name)] = sampled[n]
                    mask[k, names.index(name)] = True
        return Pack(vectors, mask, names, self.name, self.weights_sha256, version=salvit.__version__)

    @torch.inference_mode()
    def locate(self, pack: Pack, encoded: Encoded) -> Prediction:
        """Find each keypoint where its mean vector fits best."""
        similarity = self._similarity(pack, encoded)  # (B, N, H, W)
        peak = peak_of_map(similarity)  # (B, N, 2)
        covariance = covariance_of_map((similarity / TEMPERATURE).flatten(2).softmax(-1).view_as(similarity), peak)
        points_input = grid_to_input(peak, self._backbone.stride).double().cpu().numpy()
        covariance_input = (covariance * self._backbone.stride**2).double().cpu().numpy()
        scores = similarity.flatten(2).amax(-1).clamp(0, 1).double().cpu().numpy()  # (B, N)
        points = np.stack([fit.to_image(row) for fit, row in zip(encoded.fits, points_input, strict=True)])
        covariances = np.stack(
            [fit.covariance_to_image(row) for fit, row in zip(encoded.fits, covariance_input, strict=True)]
        )
        return Prediction(pack.names, points, scores, scores, covariances, pack.known.numpy())

    def detect(self, pack: Pack, images: Sequence[FittedImage]) -> Prediction:
        """:meth:`locate` after :meth:`encode`."""
        return self.locate(pack, self.encode(images))

    def explain(self, pack: Pack, image: FittedImage) -> dict[str, npt.NDArray[np.float32]]:
        """The similarity map of each keypoint: ``similarity`` (N, H, W)."""
        similarity = self._similarity(pack, self.encode([image]))[0]
        return {"similarity": similarity.float().cpu().numpy()}

    def _similarity(self, pack: Pack, encoded: Encoded) -> Tensor:
        """Cosine similarity of each keypoint and cell: (B, N, H, W)."""
        weights = pack.mask.float()  # (K, N)
        mean = torch.einsum("kn,knd->nd", weights, pack.vectors) / weights.sum(0).clamp(min=1)[:, None]
        prototypes = F.normalize(mean, dim=1).to(encoded.features.device)  # (N, D)
        return torch.einsum("nd,bdhw->bnhw", prototypes, encoded.features)


def sample_features(features: Tensor, points_input: Tensor, stride: int) -> Tensor:
    """Features (D, H, W) at points (n, 2) of the input, bilinear between cell centres: (n, D)."""
    height, width = features.shape[-2:]
    cells = input_to_grid(points_input, stride)
    scale = cells.new_tensor([width, height])
    at = (cells + 0.5) / scale * 2 - 1  # grid_sample's [-1, 1] over the outer edges
    sampled = F.grid_sample(features[None], at[None, None], align_corners=False, padding_mode="border")  # (1, D, 1, n)
    return sampled[0, :, 0].T


def peak_of_map(maps: Tensor) -> Tensor:
    """Where maps (B, N, H, W) are highest, in cells (x, y), refined by a parabola through neighbours: (B, N, 2)."""
    height, width = maps.shape[-2:]
    best = maps.flatten(2).argmax(-1)  # (B, N)
    x, y = best % width, torch.div(best, width, rounding_mode="floor")
    rows = maps.gather(2, y[..., None, None].expand(-1, -1, 1, width)).squeeze(2)  # (B, N, W)
    columns = maps.gather(3, x[..., None, None].expand(-1, -1, height, 1)).squeeze(3)  # (B, N, H)
    return torch.stack([x + _parabola_offset(rows, x), y + _parabola_offset(columns, y)], dim=-1)


def covariance_of_map(probability: Tensor, centre: Tensor) -> Tensor:
    """Second moment of probability maps (B, N, H, W) about centres (B, N, 2), in square cells: (B, N, 2, 2).

    A cell's own spread, 1/12 in each direction, is added: a map that is all in one cell is still that uncertain.
    """
    height, width = probability.shape[-2:]
    x = torch.arange(width, device=probability.device) - centre[..., 0, None]  # (B, N, W)
    y = torch.arange(height, device=probability.device) - centre[..., 1, None]  # (B, N, H)
    xx = torch.einsum("bnhw,bnw->bn", probability, x * x)
    yy = torch.einsum("bnhw,bnh->bn", probability, y * y)
    xy = torch.einsum("bnhw,bnh,bnw->bn", probability, y, x)
    moment: Tensor = torch.stack([xx, xy, xy, yy], dim=-1).unflatten(-1, (2, 2))
    return moment + torch.eye(2, device=probability.device) / 12


def _parabola_offset(lines: Tensor, at: Tensor) -> Tensor:
    """Offset in (−½, ½) of the top of the parabola through three neighbours of lines (B, N, L) around ``at`` (B, N)."""
    last = lines.shape[-1] - 1
    left, middle, right = (lines.gather(2, (at + step).clamp(0, last)[..., None]).squeeze(2) for step in (-1, 0, 1))
    bend = (left - 2 * middle + right).clamp(max=-1e-12)
    offset = 0.5 * (left - right) / bend
    return torch.where((at > 0) & (at < last), offset.clamp(-0.5, 0.5), torch.zeros_like(offset))
