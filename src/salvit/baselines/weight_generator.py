"""``weight_generator``: a prototype is turned into the weights of a detector (Gidaris and Komodakis 2018).

With attention these weights also borrow from detectors of base keypoints; without, they are the prototype with each
channel scaled (paper supplement, WG and WG w/o Att.).

Letters: Q query images · N keypoints · M base detectors · D channels of features · H, W cells.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones import Backbone
from salvit.baselines.method import Method, scale_of_map
from salvit.model.locator import ScaleOutput
from salvit.model.settings import ModelSettings

BASE_DETECTORS = 11
"""M. Choice: as many as Animal Pose has base keypoints. They are learnt with the rest and are not tied to names: an
episode does not tell a network which keypoints it shows."""
SHARPNESS = 10.0
"""What cosines are multiplied by at first, in the scores and in the attention; both are learnt."""


class WeightGeneratorWithoutAttention(Method):
    """w_n = φ_avg ⊙ c_n; the score of a cell is its cosine with w_n, times a learnt factor."""

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        super().__init__(settings, backbone)
        self.of_average = nn.Parameter(torch.ones(self.encoder.channels))
        self.sharpness = nn.Parameter(torch.tensor(SHARPNESS))

    def weights(self, prototypes: Tensor) -> Tensor:
        """Weights of the detectors (N, D) of prototypes (N, D)."""
        return self.of_average * prototypes

    def compare(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """Scores are cosines with the generated weights."""
        weights, cells = F.normalize(self.weights(prototypes), dim=1), F.normalize(features, dim=1)
        return scale_of_map(self.sharpness * torch.einsum("nd,qdhw->qnhw", weights, cells), wanted)


class WeightGenerator(WeightGeneratorWithoutAttention):
    """w_n = φ_avg ⊙ c_n + φ_att ⊙ :func:`borrow`."""

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        super().__init__(settings, backbone)
        channels = self.encoder.channels
        self.of_attention = nn.Parameter(torch.ones(channels))
        self.query = nn.Linear(channels, channels)
        self.attention_sharpness = nn.Parameter(torch.tensor(SHARPNESS))
        self.base_keys = nn.Parameter(torch.randn(BASE_DETECTORS, channels) * (2 / channels) ** 0.5)
        self.base_weights = nn.Parameter(torch.randn(BASE_DETECTORS, channels) * (2 / channels) ** 0.5)

    def weights(self, prototypes: Tensor) -> Tensor:
        """Weights of the detectors (N, D) of prototypes (N, D)."""
        borrowed = borrow(self.query(prototypes), self.base_keys, self.base_weights, self.attention_sharpness)
        return super().weights(prototypes) + self.of_attention * borrowed


def borrow(queries: Tensor, keys: Tensor, weights: Tensor, sharpness: Tensor) -> Tensor:
    """Σ_m softmax_m(γ cos(q_n, k_m)) w_m. Shapes: queries (N, D), keys and weights (M, D), γ () -> (N, D)."""
    cosines = F.normalize(queries, dim=1) @ F.normalize(keys, dim=1).T  # (N, M)
    return (sharpness * cosines).softmax(1) @ weights
