"""DINO ViT-S/16, the paper's second backbone, run on transformers' own layers: 24×24×384 at 384 px.

Letters: B images · P patches · D channels.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from salvit.backbones.base import Backbone, Tokens
from salvit.backbones.class_attention import QueryKeyTap

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)
_HEADS = 6
FROZEN_BLOCKS = 10


class DinoS16(Backbone):
    """DINO ViT-S/16; the patch tokens after the last norm are the features. The first 10 of 12 blocks are frozen.

    Args:
        attention_block: The block (from 1) whose class-token attention is given as ``attentiveness``; None: none.
    """

    name = "dino-s16"
    stride = 16
    size_multiple = 16
    channels = 384
    default_size = 384
    mean: Tensor
    std: Tensor

    def __init__(self, attention_block: int | None = None) -> None:
        super().__init__()
        from transformers import ViTConfig, ViTModel

        if attention_block is not None and not 1 <= attention_block <= 12:
            raise ValueError(f"dino-s16 has 12 blocks; attention_block must be 1 to 12, got {attention_block}")
        config = ViTConfig(
            hidden_size=384, num_attention_heads=_HEADS, intermediate_size=1536, layer_norm_eps=1e-6, image_size=224
        )
        network = ViTModel(config, add_pooling_layer=False)
        self.embeddings, self.blocks, self.norm = network.embeddings, network.layers, network.layernorm
        self.attention_block = attention_block
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(_STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens."""
        self.check_size(images)
        grid_hw = (images.shape[-2] // self.stride, images.shape[-1] // self.stride)
        hidden = self.embeddings((images - self.mean) / self.std, interpolate_pos_encoding=True)  # (B, 1 + P, D)
        attentiveness = None
        for index, block in enumerate(self.blocks, start=1):
            tap = QueryKeyTap(block.get_submodule("attention")) if index == self.attention_block else None
            hidden = block(hidden)
            if tap is not None:
                attentiveness = tap.class_token_attention(_HEADS).unflatten(1, grid_hw)  # (B, H, W)
        patches = self.norm(hidden)[:, 1:]  # (B, P, D)
        return Tokens((patches.transpose(1, 2).unflatten(2, grid_hw),), attentiveness)

    def trainable_parts(self) -> list[nn.Module]:
        """The last two blocks and the norm after them."""
        return [*self.blocks[FROZEN_BLOCKS:], self.norm]

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
