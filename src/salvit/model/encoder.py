"""The feature encoder 𝓔: raw tokens, and beside them what SalViT blocks make of them (paper Sec. 3.3, supplement).

Letters: B images · P = H·W tokens · D channels of a token · T blocks · S side of the input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from salvit.backbones.linear import multiply_by_onednn
from salvit.model.attention import MaskedSelfAttention
from salvit.model.body import BodyFrame
from salvit.model.morphology import MorphologyLearner, SaliencyEmbedding
from salvit.model.position import AbsolutePosition
from salvit.model.saliency_mask import downscale
from salvit.model.settings import AttentionSettings, EncoderSettings, MorphologySettings


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """What the encoder needs of a batch of images. All of it can come from a cache: the backbone is not asked again."""

    raw: Tensor
    """(B, C, H, W) raw tokens of the backbone, as :meth:`SalViT.prepare` gives them."""
    images: Tensor | None = None
    """(B, 3, S, S) RGB in [0, 1] at the input size, for the saliency embedding; needed where morphology is learnt."""
    saliency: Tensor | None = None
    """(B, S, S) in [0, 1] at the input size; None: no prior (provider ``none``), attention is not masked."""

    def joined(self, other: EncoderInput) -> EncoderInput:
        """This batch and another as one."""
        images = None if self.images is None or other.images is None else torch.cat([self.images, other.images])
        saliency = None
        if self.saliency is not None and other.saliency is not None:
            saliency = torch.cat([self.saliency, other.saliency])
        return EncoderInput(torch.cat([self.raw, other.raw]), images, saliency)


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """Features, and how saliency was shaped on the way."""

    features: Tensor
    """(B, D, H, W), D as :class:`EncoderSettings` say: C + d_vit in the paper; raw tokens last where they are kept."""
    exponents: Tensor | None = None
    """(B, T) learnt exponents θ̃, for the regulariser."""
    masks: Tensor | None = None
    """(B, T, H, W) saliency after its shape was learnt."""
    body: Tensor | None = None
    """(B, n, H, W) logits of the parts' maps, where ``encoder.body`` asks for them."""


class SalViTBlock(nn.Module):
    """One block (paper Eq. 3): Z' = MHSA(LN(Z)) + Z, Z ← FFN(LN(Z')) + Z', attention masked by shaped saliency."""

    def __init__(
        self,
        channels: int,
        grid_hw: tuple[int, int],
        attention: AttentionSettings,
        morphology: MorphologySettings,
        ffn_ratio: int,
    ) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(channels, eps=1e-6)
        self.attention = MaskedSelfAttention(channels, grid_hw, attention)
        self.morphology = MorphologyLearner(channels, morphology)
        self.norm_ffn = nn.LayerNorm(channels, eps=1e-6)
        self.ffn = nn.Sequential(
            nn.Linear(channels, ffn_ratio * channels), nn.GELU(), nn.Linear(ffn_ratio * channels, channels)
        )

    def forward(
        self, tokens: Tensor, saliency: Tensor | None, embedding: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Tokens (B, P, D) and saliency M↓ (B, P) to tokens, shaped saliency M (B, P) and exponent θ̃ (B, 1)."""
        normed = self.norm_attention(tokens)
        mask, exponent = (None, None) if saliency is None else self.morphology(saliency, embedding, normed)
        tokens = tokens + self.attention(normed, mask)
        return tokens + self.ffn(self.norm_ffn(tokens)), mask, exponent


class Encoder(nn.Module):
    """T cascaded SalViT blocks on raw tokens; their outputs, joined with the raw tokens, are the features."""

    def __init__(
        self,
        raw_channels: int,
        grid_hw: tuple[int, int],
        patch: int,
        encoder: EncoderSettings,
        attention: AttentionSettings,
        morphology: MorphologySettings,
    ) -> None:
        super().__init__()
        self.grid_hw, self.join, channels = grid_hw, encoder.join, encoder.token_channels
        self.uses_saliency = attention.mask != "none" and encoder.join != "raw"
        joined = (raw_channels if encoder.join != "vit" else 0) + (encoder.vit_channels if encoder.join != "raw" else 0)
        self.channels = encoder.feature_channels or joined
        self.reduce = _Reduce(joined, self.channels) if encoder.feature_channels else nn.Identity()
        self.dropout = nn.Dropout(encoder.dropout)
        self.body = BodyFrame(self.channels, grid_hw, encoder.body) if encoder.body else None
        self.channels += 0 if self.body is None else self.body.channels
        self.compared = raw_channels if encoder.keeps_raw else 0
        self.channels += self.compared
        if encoder.join == "raw":
            return
        self.to_tokens = nn.Identity() if raw_channels == channels else _linear_relu(raw_channels, channels)
        self.position = AbsolutePosition(grid_hw, channels) if attention.position == "absolute" else nn.Identity()
        self.embedding: SaliencyEmbedding | None = None
        if self.uses_saliency and morphology.mode == "learned":
            self.embedding = SaliencyEmbedding(patch, morphology.embedding_width, morphology.embedding_channels)
        self.blocks = nn.ModuleList(
            SalViTBlock(channels, grid_hw, attention, morphology, encoder.ffn_ratio) for _ in range(encoder.blocks)
        )
        width = encoder.vit_channels // encoder.blocks
        self.outputs = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(channels, eps=1e-6), _linear_relu(channels, width))
            for _ in range(encoder.blocks)
        )
        for part in (self.to_tokens, self.blocks, self.outputs):
            part.apply(_init_transformer)
        multiply_by_onednn(self)

    def forward(self, batch: EncoderInput) -> EncoderOutput:
        """Raw tokens, images and saliency to features 𝓔(I)."""
        raw = self.dropout(batch.raw)
        if self.join == "raw":
            features, body = self._features(raw, batch)
            return EncoderOutput(features, body=body)
        saliency, embedding = self._saliency(batch)
        tokens = self.position(self.to_tokens(raw.flatten(2).transpose(1, 2)))  # (B, P, D)
        outputs, masks, exponents = [], [], []
        for block, output in zip(self.blocks, self.outputs, strict=True):
            tokens, mask, exponent = block(tokens, saliency, embedding)
            outputs.append(output(tokens))  # (B, P, d_vit / T)
            masks.append(mask)
            exponents.append(exponent)
        vit = torch.cat(outputs, dim=-1).transpose(1, 2).unflatten(2, self.grid_hw)  # (B, d_vit, H, W)
        shaped = _stack(masks)
        features, body = self._features(vit if self.join == "vit" else torch.cat([raw, vit], dim=1), batch)
        return EncoderOutput(
            features,
            None if (learnt := _stack(exponents)) is None else learnt[..., 0],
            None if shaped is None else shaped.unflatten(2, self.grid_hw),
            body,
        )

    def _features(self, joined: Tensor, batch: EncoderInput) -> tuple[Tensor, Tensor | None]:
        """What was joined, reduced, the place on the body and the raw tokens beside it where they are kept."""
        features: Tensor = self.reduce(joined)
        body = None
        if self.body is not None:
            told, body = self.body(features)
            features = torch.cat([features, told], dim=1)
        features = self.dropout(features)
        return torch.cat([features, batch.raw], dim=1) if self.compared else features, body

    def find_parts(self, features: Tensor) -> Tensor:
        """The body frame's logits of parts (B, n, H, W), of features that :meth:`forward` gave before."""
        if self.body is None:
            raise ValueError("this encoder has no body frame: encoder.body is 0")
        return self.body.find(features[:, : self.channels - self.body.channels - self.compared])

    def last_attention(self, batch: EncoderInput) -> Tensor | None:
        """Attention of the last block, mean over heads: (B, P, P); None where there are no blocks."""
        if self.join == "raw":
            return None
        saliency, embedding = self._saliency(batch)
        tokens = self.position(self.to_tokens(batch.raw.flatten(2).transpose(1, 2)))
        for block in self.blocks[:-1]:
            tokens, _, _ = block(tokens, saliency, embedding)
        last = self.blocks[-1]
        assert isinstance(last, SalViTBlock)
        normed = last.norm_attention(tokens)
        mask = None if saliency is None else last.morphology(saliency, embedding, normed)[0]
        return last.attention.weights(normed, mask).mean(1)

    def _saliency(self, batch: EncoderInput) -> tuple[Tensor | None, Tensor | None]:
        """M↓ of each patch (B, P) and the pooled embedding (B, d_e); None where there is no prior or it is not used."""
        if batch.saliency is None or not self.uses_saliency:
            return None, None
        low = downscale(batch.saliency, self.grid_hw).flatten(1)
        if self.embedding is None:
            return low, None
        if batch.images is None:
            raise ValueError(
                "morphology = 'learned' embeds the image beside its saliency: give EncoderInput.images as well"
            )
        return low, self.embedding(batch.images, batch.saliency)


class _Reduce(nn.Module):
    """A linear layer to fewer channels, and a layer norm: products with prototypes then start at a good size."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.project = nn.Linear(channels_in, channels_out)
        self.norm = nn.LayerNorm(channels_out, eps=1e-6)

    def forward(self, features: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, D, H, W)."""
        reduced: Tensor = self.norm(self.project(features.flatten(2).transpose(1, 2))).transpose(1, 2)
        maps: Tensor = reduced.unflatten(2, features.shape[-2:])
        return maps


def _linear_relu(channels_in: int, channels_out: int) -> nn.Sequential:
    """Choice: linear layers into and out of the blocks have no bias and a ReLU, as in the authors' code."""
    return nn.Sequential(nn.Linear(channels_in, channels_out, bias=False), nn.ReLU())


def _init_transformer(module: nn.Module) -> None:
    """Choice: matrices of the blocks start truncated normal, 0.02; the parameter generator keeps its own start."""
    if isinstance(module, SalViTBlock):
        for layer in (module.attention.project_qkv, module.attention.project_out, *module.ffn):
            _init_linear(layer)
    elif isinstance(module, nn.Sequential):
        for layer in module:
            _init_linear(layer)


def _init_linear(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear):
        nn.init.trunc_normal_(layer.weight, std=0.02)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def _stack(parts: list[Tensor | None]) -> Tensor | None:
    """Stack along a new second dimension, or None where any part is missing."""
    found = [part for part in parts if part is not None]
    return torch.stack(found, dim=1) if found and len(found) == len(parts) else None
