"""DINOv2 ViT-S/14."""

from __future__ import annotations

from torch import nn

from salvit.backbones.transformer import PatchTransformer


class DinoV2(PatchTransformer):
    """The first ``num_blocks`` blocks of DINOv2 ViT-S/14; the patch tokens are the features.

    Args:
        num_blocks: How many of the 12 blocks run. Choice: 10, which matches keypoints better than 8 or 12.
        attention_block: The block (counted from 1) whose class-token attention is ``attentiveness``; None: none.
    """

    name = "dinov2-s14"
    stride = 14
    size_multiple = 14
    default_size = 280

    def __init__(self, num_blocks: int = 10, attention_block: int | None = None) -> None:
        from transformers import Dinov2Config, Dinov2Model

        if not 1 <= num_blocks <= 12:
            raise ValueError(f"dinov2-s14 has 12 blocks; num_blocks must be 1 to 12, got {num_blocks}")
        config = Dinov2Config(
            hidden_size=384, num_hidden_layers=12, num_attention_heads=6, mlp_ratio=4, image_size=518, patch_size=14
        )
        network = Dinov2Model(config)
        blocks = nn.ModuleList(network.encoder.layer[:num_blocks])
        norm = network.layernorm if num_blocks == 12 else nn.Identity()
        super().__init__(network.embeddings, blocks, norm, attention_block)

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
