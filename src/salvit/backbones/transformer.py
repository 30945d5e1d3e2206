"""What the transformers have in common: patches in, tokens out, and the class token's attention of one block.

Letters: B images · P patches · D channels · E heads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from salvit.backbones.base import Backbone, Tokens
from salvit.backbones.linear import multiply_by_onednn

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class PatchTransformer(Backbone):
    """A ViT-S of 6 heads and 384 channels, run block by block on transformers' own layers."""

    channels = 384
    num_heads = 6
    mean: Tensor
    std: Tensor

    def __init__(
        self, embeddings: nn.Module, blocks: nn.ModuleList, norm: nn.Module, attention_block: int | None
    ) -> None:
        super().__init__()
        multiply_by_onednn(blocks)
        if attention_block is not None and not 1 <= attention_block <= len(blocks):
            raise ValueError(f"{self.name}: attention_block must be 1 to {len(blocks)}, got {attention_block}")
        self.embeddings, self.blocks, self.norm = embeddings, blocks, norm
        self.attention_block = attention_block
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(_STD).view(1, 3, 1, 1), persistent=False)

    def embed(self, images: Tensor) -> Tensor:
        """Normalised images (B, 3, H, W) to the class token and the patches: (B, 1 + P, D)."""
        return self.embeddings(images)  # type: ignore[no-any-return]

    def start(self, images: Tensor) -> Tensor:
        """RGB images (B, 3, H, W) in [0, 1] to what the first block takes: (B, 1 + P, D)."""
        self.check_size(images)
        return self.embed((images - self.mean) / self.std)

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens."""
        hidden = self.start(images)  # (B, 1 + P, D)
        grid_hw = (images.shape[-2] // self.stride, images.shape[-1] // self.stride)
        attentiveness = None
        for index, block in enumerate(self.blocks, start=1):
            tap = QueryKeyTap(block.get_submodule("attention")) if index == self.attention_block else None
            hidden = block(hidden)
            if tap is not None:
                attentiveness = tap.class_token_attention(self.num_heads).unflatten(1, grid_hw)  # (B, H, W)
        return Tokens((self.end(hidden, grid_hw),), attentiveness)

    def end(self, hidden: Tensor, grid_hw: tuple[int, int]) -> Tensor:
        """What the last block gives (B, 1 + P, D) to features of the patches: (B, D, H, W)."""
        patches: Tensor = self.norm(hidden)[:, 1:].transpose(1, 2)  # (B, D, P)
        maps: Tensor = patches.unflatten(2, grid_hw)
        return maps


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
