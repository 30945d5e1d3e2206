"""How much the class token of a transformer attends to each patch, read from one block by a hook."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle


class QueryKeyTap:
    """Watches one attention layer's queries and keys during one pass: full attention would cost P² for one row."""

    def __init__(self, attention: torch.nn.Module) -> None:
        self._seen: dict[str, Tensor] = {}
        self._handles: list[RemovableHandle] = [
            attention.get_submodule(part).register_forward_hook(self._keep(part)) for part in ("q_proj", "k_proj")
        ]

    def _keep(self, part: str) -> Callable[[torch.nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(module: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self._seen[part] = output

        return hook

    def class_token_attention(self, num_heads: int) -> Tensor:
        """How much the class token attends to each patch, mean over heads: (B, P)."""
        for handle in self._handles:
            handle.remove()
        query = self._seen["q_proj"][:, :1].unflatten(-1, (num_heads, -1))  # (B, 1, E, D/E)
        key = self._seen["k_proj"].unflatten(-1, (num_heads, -1))  # (B, 1 + P, E, D/E)
        logits = torch.einsum("bqed,bked->bek", query, key) * query.shape[-1] ** -0.5  # (B, E, 1 + P)
        attention: Tensor = logits.softmax(-1)[:, :, 1:].mean(1)  # (B, P)
        return attention
