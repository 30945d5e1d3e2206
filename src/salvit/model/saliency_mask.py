"""From the saliency of each patch to the mask on attention (paper Sec. 3.2.2).

Letters: B images · P patches. Symbols: m saliency of the patches · M̄ interaction matrix · M̃ attention mask · J degree.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.model.settings import Interaction

EPSILON = 1e-9
"""ε of the harmonic mean: two patches of zero saliency give 0, not NaN."""
FOREGROUND = 0.5
"""A patch of at least this saliency is foreground for the hard mask (paper Eq. 4)."""


def downscale(saliency: Tensor, grid_hw: tuple[int, int]) -> Tensor:
    """Mean saliency of each patch, M↓ (paper Sec. 3.2.2): (B, S, S) -> (B, H, W).

    Choice: average pooling, as in the authors' code.
    """
    return F.adaptive_avg_pool2d(saliency[:, None], grid_hw)[:, 0]


def interaction_matrix(saliency: Tensor, kind: Interaction = "harmonic") -> Tensor:
    """How salient each pair of patches is, M̄ (paper Sec. 3.2.2).

        product     m mᵀ
        harmonic    2 m mᵀ / (m 1ᵀ + 1 mᵀ + ε)
        arithmetic  (m 1ᵀ + 1 mᵀ) / 2

    Symbols: m is ``saliency``. Shapes: (B, P) -> (B, P, P).
    """
    m_i, m_j = saliency[:, :, None], saliency[:, None, :]  # (B, P, 1), (B, 1, P)
    match kind:
        case "product":
            return m_i * m_j
        case "harmonic":
            return 2 * m_i * m_j / (m_i + m_j + EPSILON)
        case "arithmetic":
            return (m_i + m_j) / 2
    raise ValueError(f"unknown interaction {kind!r}; known: product, harmonic, arithmetic")


def attention_mask(interaction: Tensor, saliency: Tensor) -> Tensor:
    """Let every patch see itself: M̃ (paper Eq. 5).

        M̃ = M̄ + I − Diag(m)

    Its diagonal is 1 for the harmonic and the arithmetic mean; for the product it is 1 − m + m², unlike the paper says.
    Symbols: M̄ is ``interaction``, m is ``saliency``. Shapes: (B, P, P), (B, P) -> (B, P, P).
    """
    return interaction + torch.diag_embed(1 - saliency)


def soft_mask_bias(mask: Tensor, degree: float = 1.0) -> Tensor:
    """What is added to the logits (paper Eq. 6): −(11ᵀ − M̃) J.

    Symbols: M̃ is ``mask``, J is ``degree``. Shapes: (B, P, P) -> (B, P, P).
    """
    return (mask - 1) * degree


def hard_mask(saliency: Tensor) -> tuple[Tensor, Tensor]:
    """The cases of the hard mask (paper Eq. 4).

        A_ij = γ(φ(q_i, k_j))   where i and j are foreground
        A_ij = 0                where i is foreground and j is background
        A_ij = δ(i − j)         where i is background

    Symbols: foreground is m ≥ 0.5. Shapes: (B, P) -> ``allowed`` (B, P, P), pairs whose attention is not 0, and
    ``foreground`` (B, P).
    """
    foreground = saliency >= FOREGROUND
    itself = torch.eye(saliency.shape[-1], dtype=torch.bool, device=saliency.device)
    return (foreground[:, :, None] & foreground[:, None, :]) | itself, foreground
