"""Masked self-attention (paper Sec. 3.1 and 3.2.2).

Letters: B images · P patches · D channels of a token · E heads · C channels of a head.
Symbols: φ the kernel's logits · γ what turns logits into attention · A attention · β temperature · J degree of masking.

Choices, where the paper is silent or its code says otherwise: d in √d is the width of a head; ``rbf`` takes the squared
distance, unit queries and keys (then 1 stands for √d) and rows that sum to 1; the relative encoding is added to the key
after it got unit length. ``rbf_printed`` is the paper's formula to the letter.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.model.position import RelativeBias, RelativeKeyEncoding
from salvit.model.saliency_mask import attention_mask, hard_mask, interaction_matrix, soft_mask_bias
from salvit.model.settings import AttentionSettings


def dot_product_logits(dot: Tensor, beta: float, width: int) -> Tensor:
    """φ of softmax attention (paper Eq. 2): q_i k_jᵀ / (β √d).

    Symbols: ``dot`` holds q_i k_jᵀ, d is ``width``. Shapes: any.
    """
    return dot / (beta * math.sqrt(width))


def rbf_logits(squared_distance: Tensor, beta: float, width: int) -> Tensor:
    """φ of RBF attention as the authors compute it: −‖q_i − k_j‖² / (2 β √d).

    Symbols: d is ``width``, 1 for unit queries and keys. Shapes: any.
    """
    return squared_distance / (-2 * beta * math.sqrt(width))


def printed_rbf_logits(squared_distance: Tensor, beta: float, width: int) -> Tensor:
    """φ of RBF attention as the paper prints it (Eq. 2): −‖q_i − k_j‖ / (2 β √d).

    Not in the paper: distances under 1e-6 count as 1e-6, because the root has no gradient at 0.
    """
    return squared_distance.clamp_min(1e-12).sqrt() / (-2 * beta * math.sqrt(width))


def attention_weights(logits: Tensor, *, normalise_rows: bool) -> Tensor:
    """γ (paper Eq. 2): softmax over the last dimension, or exp alone where rows are not normalised."""
    return logits.softmax(-1) if normalise_rows else logits.exp()


class MaskedSelfAttention(nn.Module):
    """Multi-head self-attention that saliency can mask: Z = A V W_o (paper Eq. 1, 2, 4 and 6)."""

    def __init__(self, channels: int, grid_hw: tuple[int, int], settings: AttentionSettings) -> None:
        super().__init__()
        self.settings = settings
        inner = settings.heads * settings.head_channels
        self.project_qkv = nn.Linear(channels, 3 * inner)
        self.project_out = nn.Linear(inner, channels)
        self.relative: RelativeKeyEncoding | None = None
        self.bias: RelativeBias | None = None
        match settings.position:
            case "relative":
                self.relative = RelativeKeyEncoding(grid_hw, settings.head_channels)
            case "bias":
                self.bias = RelativeBias(grid_hw, settings.heads)
        self.is_row_normalised = settings.kernel == "softmax" or (settings.kernel == "rbf" and settings.normalise_rows)

    def forward(self, tokens: Tensor, saliency: Tensor | None = None) -> Tensor:
        """Attend: tokens (B, P, D), saliency of the patches m (B, P) or None for no mask -> (B, P, D)."""
        query, key, value = self.split_heads(tokens)
        fast = self.mix_with_gradient if torch.is_grad_enabled() else self.mix_fast
        mix = fast if self.is_row_normalised else self.mix_plain
        mixed = mix(query, key, value, saliency)  # (B, E, P, C)
        return self.project_out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def weights(self, tokens: Tensor, saliency: Tensor | None = None) -> Tensor:
        """A alone, for drawings: (B, E, P, P)."""
        query, key, _ = self.split_heads(tokens)
        return self._weights(query, key, saliency)

    def split_heads(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q = X W_q, K = X W_k, V = X W_v (paper Eq. 1), split into heads: each (B, E, P, C)."""
        split = self.project_qkv(tokens).unflatten(-1, (3, self.settings.heads, -1))  # (B, P, 3, E, C)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        if self.settings.kernel == "rbf" and self.settings.normalise_qk:
            query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
        return query, key, value

    @property
    def _width(self) -> int:
        """The d that stands under the root."""
        is_unit = self.settings.kernel == "rbf" and self.settings.normalise_qk
        return 1 if is_unit else self.settings.head_channels

    def mix_plain(self, query: Tensor, key: Tensor, value: Tensor, saliency: Tensor | None) -> Tensor:
        """A V, formula by formula: (B, E, P, C). Works for every kernel and mask; the others are held equal to it."""
        return self._weights(query, key, saliency) @ value

    def _weights(self, query: Tensor, key: Tensor, saliency: Tensor | None) -> Tensor:
        """A = γ(φ(Q, K) + bias): (B, E, P, P)."""
        logits = self._logits(query, key)
        if self.bias is not None:
            logits = logits + self.bias()
        if saliency is None or self.settings.mask == "none":
            return attention_weights(logits, normalise_rows=self.is_row_normalised)
        if self.settings.mask == "soft":
            logits = logits + self._soft_bias(saliency)[:, None]
            return attention_weights(logits, normalise_rows=self.is_row_normalised)
        allowed, foreground = hard_mask(saliency)
        logits = logits.masked_fill(~allowed[:, None], -torch.inf)
        weights = attention_weights(logits, normalise_rows=self.is_row_normalised)
        return torch.where(foreground[:, None, :, None], weights, torch.eye(weights.shape[-1]).to(weights))

    def _logits(self, query: Tensor, key: Tensor) -> Tensor:
        """φ of every pair, with the relative encoding r on the key: (B, E, P, P)."""
        dot = query @ key.transpose(-1, -2)
        if self.relative is not None:
            dot = dot + self.relative.dot_query(query)
        if self.settings.kernel == "softmax":
            return dot_product_logits(dot, self.settings.beta, self._width)
        lengths = query.square().sum(-1)[..., :, None] + key.square().sum(-1)[..., None, :]
        if self.relative is not None:  # ‖q − k − r‖² = ‖q‖² + ‖k‖² + ‖r‖² + 2 k·r − 2 q·(k + r)
            lengths = lengths + self.relative.squared_length() + 2 * self.relative.dot_key(key)
        squared_distance = lengths - 2 * dot
        formula = rbf_logits if self.settings.kernel == "rbf" else printed_rbf_logits
        return formula(squared_distance, self.settings.beta, self._width)

    def _soft_bias(self, saliency: Tensor) -> Tensor:
        """−(11ᵀ − M̃) J of each image: (B, P, P)."""
        interaction = interaction_matrix(saliency, self.settings.interaction)
        return soft_mask_bias(attention_mask(interaction, saliency), self.settings.degree)

    def mix_fast(self, query: Tensor, key: Tensor, value: Tensor, saliency: Tensor | None) -> Tensor:
        """A V by PyTorch's fused kernel, for kernels with normalised rows: (B, E, P, C).

        A row-normalised RBF is a softmax: −‖q − k − r‖²/c = (2 q·k + 2 q·r − 2 k·r − ‖k‖² − ‖r‖²)/c up to ‖q‖²/c, which
        is the same for the whole row. All but q·k is a bias; what r adds to it is made for one image at a time.
        """
        root = self.settings.beta * math.sqrt(self._width)
        terms = self._fast_bias_terms(key, saliency, root)
        bias = sum(terms[1:], start=terms[0]) if terms else None  # (B or 1, E or 1, P, P)
        if self.relative is None:
            return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=1 / root)
        biases = [None] * len(query) if bias is None else bias.expand(len(query), -1, -1, -1)
        pairs = self.relative.pair_products(query, key if self.settings.kernel == "rbf" else None, 1 / root)
        mixed = torch.empty_like(value)
        for image, (pair, more) in enumerate(zip(pairs, biases, strict=True)):
            mask = pair if more is None else pair.add_(more)
            q, k, v = query[image, None], key[image, None], value[image, None]
            mixed[image] = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[None], scale=1 / root)[0]
        return mixed

    def mix_with_gradient(self, query: Tensor, key: Tensor, value: Tensor, saliency: Tensor | None) -> Tensor:
        """A V for training, for kernels with normalised rows: (B, E, P, C).

        The same terms as in :meth:`mix_fast`, but r's products are part of the one matrix product, so that few (P, P)
        tables are made, kept and gone through again backwards.
        """
        root = self.settings.beta * math.sqrt(self._width)
        terms = self._fast_bias_terms(key, saliency, root)
        if self.relative is not None:
            more = self.relative.as_products(query, key if self.settings.kernel == "rbf" else None)
            query, key = torch.cat([query, more[0]], dim=-1), torch.cat([key, more[1]], dim=-1)
        logits = (query / root) @ key.transpose(-1, -2)  # (B, E, P, P)
        if terms:
            logits = logits + sum(terms[1:], start=terms[0])
        return logits.softmax(-1) @ value

    def _fast_bias_terms(self, key: Tensor, saliency: Tensor | None, root: float) -> list[Tensor]:
        """What the fused kernel adds to its logits; each (B or 1, E or 1, P, P)."""
        terms: list[Tensor] = []
        if self.settings.kernel == "rbf" and not self.settings.normalise_qk:
            lengths = key.square().sum(-1)[..., None, :] / (-2 * root)
            terms.append(lengths.expand(-1, -1, key.shape[-2], -1))
        if self.settings.kernel == "rbf" and self.relative is not None:
            terms.append(self.relative.squared_length()[None, None] / (-2 * root))
        if self.bias is not None:
            terms.append(self.bias()[None])
        if saliency is not None and self.settings.mask == "soft":
            terms.append(self._soft_bias(saliency)[:, None])
        if saliency is not None and self.settings.mask == "hard":
            allowed = hard_mask(saliency)[0][:, None]
            terms.append(key.new_zeros(()).expand(allowed.shape).masked_fill(~allowed, -torch.inf))
        return terms
