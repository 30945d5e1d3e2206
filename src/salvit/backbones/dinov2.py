"""DINOv2 ViT-S/14, run on transformers' own layers.

Letters: B images · P patches · D channels · E heads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from salvit.backbones.base import Backbone, Tokens
from salvit.backbones.class_attention import QueryKeyTap

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class DinoV2(Backbone):
    """The first ``num_blocks`` blocks of DINOv2 ViT-S/14; the patch tokens are the features.

    Args:
        num_blocks: How many of the 12 blocks run. Choice: 10, which matches keypoints better than 8 or 12.
        attention_block: The block (counted from 1) whose class-token attention is ``attentiveness``; None: none.
    """

    name = "dinov2-s14"
    stride = 14
    size_multiple = 14
    channels = 384
    default_size = 280
    mean: Tensor
    std: Tensor

    def __init__(self, num_blocks: int = 10, attention_block: int | None = None) -> None:
        super().__init__()
        from transformers import Dinov2Config, Dinov2Model

        if not 1 <= num_blocks <= 12:
            raise ValueError(f"dinov2-s14 has 12 blocks; num_blocks must be 1 to 12, got {num_blocks}")
        if attention_block is not None and not 1 <= attention_block <= num_blocks:
            raise ValueError(f"attention_block must be 1 to num_blocks ({num_blocks}), got {attention_block}")
        config = Dinov2Config(
            hidden_size=384, num_hidden_layers=12, num_attention_heads=6, mlp_ratio=4, image_size=518, patch_size=14
        )
        network = Dinov2Model(config)
        self.embeddings = network.embeddings
        self.blocks = torch.nn.ModuleList(network.encoder.layer[:num_blocks])
        self.norm = network.layernorm if num_blocks == 12 else torch.nn.Identity()
        self.attention_block = attention_block
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(_STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens."""
        self.check_size(images)
        grid_hw = (images.shape[-2] // self.stride, images.shape[-1] // self.stride)
        hidden = self.embeddings((images - self.mean) / self.std)  # (B, 1 + P, D)
        attentiveness = None
        for index, block in enumerate(self.blocks, start=1):
            if index == self.attention_block:
                tap = QueryKeyTap(block.get_submodule("attention"))
                hidden = block(hidden)
                attentiveness = tap.class_token_attention(num_heads=6).unflatten(1, grid_hw)  # (B, H, W)
            else:
                hidden = block(hidden)
        patches = self.norm(hidden)[:, 1:]  # (B, P, D)
        return Tokens((patches.transpose(1, 2).unflatten(2, grid_hw),), attentiveness)

    def key_of_file(self, key: str) -> str | None:
        """The parameter that a key of the published file belongs to; None for parts that are not run."""
        for prefix, parameter in (
            ("encoder.layer.", "blocks."),
            ("layernorm.", "norm."),
            ("embeddings.", "embeddings."),
        ):
            if key.startswith(prefix):
                key = parameter + key.removeprefix(prefix)
        if key.startswith("blocks.") and int(key.split(".")[1]) >= len(self.blocks):
            return None
        if key.startswith("norm.") and len(self.blocks) < 12:
            return None
        for published, current in _RENAMED:
            key = key.replace(published, current)
        return key


_RENAMED = (
    ("attention.attention.query.", "attention.q_proj."),
    ("attention.attention.key.", "attention.k_proj."),
    ("attention.attention.value.", "attention.v_proj."),
    ("attention.output.dense.", "attention.o_proj."),
)
"""How the published file names what transformers 5 names otherwise."""
