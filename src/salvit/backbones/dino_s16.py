"""DINO ViT-S/16, the paper's second backbone: 24×24×384 at 384 px."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor, nn

from salvit.backbones.base import Tokens
from salvit.backbones.transformer import PatchTransformer

FROZEN_BLOCKS = 10


class DinoS16(PatchTransformer):
    """DINO ViT-S/16; the patch tokens after the last norm are the features. The first 10 of 12 blocks are frozen.

    Args:
        attention_block: The block (from 1) whose class-token attention is given as ``attentiveness``; None: none.
    """

    name = "dino-s16"
    stride = 16
    size_multiple = 16
    default_size = 384

    def __init__(self, attention_block: int | None = None) -> None:
        from transformers import ViTConfig, ViTModel

        config = ViTConfig(
            hidden_size=384, num_attention_heads=6, intermediate_size=1536, layer_norm_eps=1e-6, image_size=224
        )
        network = ViTModel(config, add_pooling_layer=False)
        super().__init__(network.embeddings, network.layers, network.layernorm, attention_block)

    def embed(self, images: Tensor) -> Tensor:
        """Normalised images to tokens, positions interpolated to their grid."""
        return self.embeddings(images, interpolate_pos_encoding=True)  # type: ignore[no-any-return]

    def trainable_parts(self) -> list[nn.Module]:
        """The last two blocks and the norm after them."""
        return [*self.blocks[FROZEN_BLOCKS:], self.norm]

    def begin(self, images: Tensor) -> Tensor:
        """Images to class token and patches after the frozen blocks: (B, 1 + P, D)."""
        hidden = self.start(images)
        for block in self.blocks[:FROZEN_BLOCKS]:
            hidden = block(hidden)
        return hidden

    def finish(self, begun: Tensor) -> Tokens:
        """The last two blocks and the norm; without attentiveness, which is of a frozen block."""
        for block in self.blocks[FROZEN_BLOCKS:]:
            begun = block(begun)
        side = math.isqrt(begun.shape[1] - 1)
        return Tokens((self.end(begun, (side, side)),))

    def tensors_of_file(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Split the joint query-key-value matrices of the original DINO files."""
        tensors: dict[str, Tensor] = {}
        for key, tensor in weights.items():
            if ".attn.qkv." not in key:
                tensors[key] = tensor
                continue
            for part, piece in zip("qkv", tensor.chunk(3), strict=True):
                tensors[key.replace(".attn.qkv.", f".attention.{part}_proj.")] = piece
        return tensors

    def key_of_file(self, key: str) -> str | None:
        """The parameter of a key in the Hugging Face or the original DINO layout; None for the heads and the pooler."""
        key = key.removeprefix("module.").removeprefix("backbone.").removeprefix("vit.")
        if key.startswith(("head.", "pooler.", "classifier.")):
            return None
        for published, own in _RENAMED:
            if key.startswith(published) or (published.startswith(".") and published in key):
                key = key.replace(published, own, 1)
        return key


_RENAMED = (
    ("encoder.layer.", "blocks."),
    ("layers.", "blocks."),
    ("layernorm.", "norm."),
    ("cls_token", "embeddings.cls_token"),
    ("pos_embed", "embeddings.position_embeddings"),
    ("patch_embed.proj.", "embeddings.patch_embeddings.projection."),
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
    (".attn.proj.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
    (".norm1.", ".layernorm_before."),
    (".norm2.", ".layernorm_after."),
)
"""How published files name the parts: first the Hugging Face layout's prefixes, then the original's."""
