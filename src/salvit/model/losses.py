"""Every loss of the paper, one function for each equation (paper Sec. 3.3).

Letters: Q query images · N keypoints · S cells of a side. ``valid`` (Q, N) says which keypoints of which query count:
those that are visible there and that some shot has. A loss without any valid keypoint is 0, with a gradient of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.model.locator import ScaleOutput, at_cell, grid_target, precision, precision_determinant

DETERMINANT_EPSILON = 1e-9
"""Added to det Ω before the logarithm."""
LAMBDA_LOCALISATION, LAMBDA_REGULARISER, LAMBDA_ALIGNMENT = 0.5, 0.5, 0.1
"""λ1, λ2, λ3 of the total loss."""


def masked_mean(values: Tensor, valid: Tensor) -> Tensor:
    """Mean of the valid values; 0 where there are none."""
    return torch.where(valid, values, torch.zeros_like(values)).sum() / valid.sum().clamp_min(1)


def grid_classification_loss(logits: Tensor, cells: Tensor, valid: Tensor) -> Tensor:
    """L_cls = −E log P(ĝ) (paper Eq. 9). Shapes: logits (Q, N, S²), cells ĝ (Q, N), valid (Q, N) -> ()."""
    return masked_mean(-at_cell(logits.log_softmax(-1), cells), valid)


def offset_loss(offsets: Tensor, latents: Tensor, targets: Tensor, valid: Tensor) -> Tensor:
    """L_os = ½ E[(x − x̂)ᵀ Ω (x − x̂) − log det Ω] (paper Eq. 9), x and x̂ in offset units.

    Shapes: offsets and targets (Q, N, 2), latents (Q, N, 2, V), read at the true cell; valid (Q, N) -> ().
    """
    error = (offsets - targets)[..., None]  # (Q, N, 2, 1)
    distance = (error.transpose(-1, -2) @ precision(latents) @ error)[..., 0, 0]  # (Q, N)
    log_determinant = torch.log(precision_determinant(latents) + DETERMINANT_EPSILON)
    return masked_mean((distance - log_determinant) / 2, valid)


def localisation_losses(
    scales: Sequence[ScaleOutput], points_input: Tensor, valid: Tensor, input_size: int
) -> tuple[Tensor, Tensor]:
    """L_cls and L_os, each the mean over scales. Shapes: points_input (Q, N, 2), valid (Q, N) -> (), ()."""
    classification, offset = [], []
    for scale in scales:
        cells, targets = grid_target(points_input, input_size, scale.size)
        classification.append(grid_classification_loss(scale.logits, cells, valid))
        at_target = at_cell(scale.offsets, cells), at_cell(scale.latents, cells)
        offset.append(offset_loss(*at_target, targets, valid))
    return torch.stack(classification).mean(), torch.stack(offset).mean()


def presence_loss(logits: Tensor, valid: Tensor, is_real: Tensor) -> Tensor:
    """L_pres = −E[v log σ(z) + (1 − v) log(1 − σ(z))] (ours): is the keypoint there to be seen?

    Shapes: logits z, valid v and is_real (1, P), of the pairs looked at; auxiliary pairs do not count -> ().
    """
    return masked_mean(F.binary_cross_entropy_with_logits(logits, valid.to(logits), reduction="none"), is_real)


def multi_scale_loss(scales: Sequence[ScaleOutput], points_input: Tensor, valid: Tensor, input_size: int) -> Tensor:
    """L_ms = Σ_S (L_cls + L_os) / N_S (paper Sec. 3.3)."""
    classification, offset = localisation_losses(scales, points_input, valid, input_size)
    return classification + offset


def probability_alignment(
    clean: Sequence[ScaleOutput], occluded: Sequence[ScaleOutput], valid: Tensor, *, is_target_detached: bool = True
) -> Tensor:
    """L_aln = KL[P ‖ P_occ] (paper Sec. 3.3, masking and alignment), mean over valid keypoints and scales.

    Choice: the clean branch is a target, so it gets no gradient unless that is asked for.
    """
    terms = []
    for first, second in zip(clean, occluded, strict=True):
        logits = first.logits.detach() if is_target_detached else first.logits
        target = logits.log_softmax(-1)
        divergence = F.kl_div(second.logits.log_softmax(-1), target, reduction="none", log_target=True).sum(-1)
        terms.append(masked_mean(divergence, valid))
    return torch.stack(terms).mean()


def feature_alignment(clean: Tensor, occluded: Tensor, order: int = 1) -> Tensor:
    """L_aln = ‖𝓔(I) − 𝓔(I_occ)‖ (paper Sec. 3.3), mean over all numbers of |·| (order 1) or its square (order 2)."""
    return F.l1_loss(occluded, clean) if order == 1 else F.mse_loss(occluded, clean)


def maximum_mean_discrepancy(clean: Tensor, occluded: Tensor) -> Tensor:
    """L_aln = MMD²(𝓔(I), 𝓔(I_occ)) (paper Sec. 4.3): are the tokens of both views drawn alike, wherever they are?

        MMD² = E k(x, x') + E k(y, y') − 2 E k(x, y),   k(a, b) = exp(−‖a − b‖² / 2h)

    Choice: a Gaussian kernel whose h is the mean squared distance of all pairs of the two views, without gradient; all
    pairs count, also of a token with itself, so that it is never negative. Mean over images.
    Shapes: clean and occluded (Q, D, H, W) -> ().
    """
    both = torch.cat([clean.flatten(2), occluded.flatten(2)], dim=2).transpose(1, 2)  # (Q, 2P, D)
    squares = both.square().sum(-1)  # (Q, 2P)
    distances = (squares[:, :, None] + squares[:, None, :] - 2 * both @ both.transpose(1, 2)).clamp_min(0)
    width = distances.detach().mean((1, 2), keepdim=True).clamp_min(1e-12)
    kernel = torch.exp(-distances / (2 * width))  # (Q, 2P, 2P)
    cells = both.shape[1] // 2
    sign = torch.cat([both.new_ones(cells), -both.new_ones(cells)]) / cells
    return torch.einsum("i,qij,j->q", sign, kernel, sign).mean()


def reconstruction_loss(predicted: Tensor, images: Tensor, hidden: Tensor) -> Tensor:
    """SimMIM: ℓ1 between the predicted and the true pixels of masked patches (paper supplement, MAA strategy).

    Choice: colours in [0, 1]. Shapes: predicted (Q, H·W, 3·s²) of patches of side s, images (Q, 3, S, S), hidden
    (Q, H, W) -> (); 0 where nothing is masked.
    """
    side = images.shape[-1] // hidden.shape[-1]
    patches = F.unfold(images, side, stride=side).transpose(1, 2)  # (Q, H·W, 3·s²)
    return masked_mean((predicted - patches).abs().mean(-1), hidden.flatten(1))


def total_loss(
    localisation: Tensor,
    regulariser: Tensor,
    alignment: Tensor,
    lambdas: tuple[float, float, float] = (LAMBDA_LOCALISATION, LAMBDA_REGULARISER, LAMBDA_ALIGNMENT),
) -> Tensor:
    """L = λ1 L_ms^occ + λ2 L_reg + λ3 L_aln (paper Eq. 11)."""
    return lambdas[0] * localisation + lambdas[1] * regulariser + lambdas[2] * alignment
