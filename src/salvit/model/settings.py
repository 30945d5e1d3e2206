"""Settings of a SalViT model; the defaults are the paper's main setting (SalViT default, on ResNet-50)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from salvit.backbones import BackboneName

BatchNormMode = Literal["running", "episode", "frozen"]
Kernel = Literal["rbf", "rbf_printed", "softmax"]
Interaction = Literal["harmonic", "product", "arithmetic"]
Mask = Literal["soft", "hard", "none"]
Position = Literal["relative", "bias", "absolute", "none"]
Morphology = Literal["learned", "fixed", "off"]
Join = Literal["both", "raw", "vit"]
HeadKind = Literal["flat", "spatial", "dynamic"]
Decoding = Literal["mean", "agreed", "gathered"]
Provider = Literal["attentiveness", "rbd", "learned", "spectral_residual", "onnx", "files", "none"]


@dataclass(frozen=True, kw_only=True)
class BackboneSettings:
    """Which network gives the raw tokens."""

    name: BackboneName = "resnet50"
    layer4_blocks: Literal[2, 3] = 3
    """``resnet50`` only: how many of the three blocks of layer 4 run (the paper's 23 M parameters need all)."""
    trained_blocks: Literal[0, 5, 8] = 0
    """``lite0``, also in ``joined``: how many of its last blocks are trained: none, those at stride 32, three at stride
    16 too."""
    bn: BatchNormMode = "running"
    """Batch norm: ``running`` statistics; those of the ``episode``, also in inference; ``frozen``, never changed."""
    is_normalised: bool = False
    """Scale each level's tokens to a root mean square of 1 before use."""


@dataclass(frozen=True, kw_only=True)
class AttentionSettings:
    """Masked self-attention (paper Sec. 3.2.2)."""

    kernel: Kernel = "rbf"
    """``rbf``: squared distance, as in the authors' code; ``rbf_printed``: exactly as the paper prints it."""
    normalise_qk: bool = True
    """``rbf`` only: queries and keys have unit length."""
    normalise_rows: bool = True
    """``rbf`` only: each row of the attention sums to 1."""
    beta: float = 1.0
    """Temperature β."""
    heads: int = 6
    head_channels: int = 64
    position: Position = "relative"
    mask: Mask = "soft"
    interaction: Interaction = "harmonic"
    """The saliency interaction matrix."""
    degree: float = 1.0
    """J, the degree of soft masking."""

    def __post_init__(self) -> None:
        if self.beta <= 0:
            raise ValueError(f"attention.beta must be above 0, got {self.beta}")
        if self.heads < 1 or self.head_channels < 1:
            raise ValueError(f"attention needs at least 1 head and 1 channel, got {self.heads} × {self.head_channels}")


@dataclass(frozen=True, kw_only=True)
class MorphologySettings:
    """Morphology learner (paper Sec. 3.2.3)."""

    mode: Morphology = "learned"
    exponent: float = 0.7
    """``fixed`` only: the power that saliency is raised to."""
    bound: float = 2.0
    """ρ1: the learnt exponent lies in 0 to this."""
    centre: float = 0.7
    """ρ2: where the regulariser wants the exponent."""
    interval: float = 0.05
    """ρ3: squared distance from the centre that costs nothing."""
    embedding_width: int = 512
    """Channels inside the saliency embedding module."""
    embedding_channels: int = 512
    """d_e, its output."""
    hidden: int = 512
    """Hidden units of the parameter generator."""

    def __post_init__(self) -> None:
        if self.exponent < 0 or self.bound <= 0:
            raise ValueError(f"morphology: exponent ({self.exponent}) and bound ({self.bound}) must be positive")


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """The SalViT stack (paper Sec. 3.3 and supplement)."""

    blocks: int = 1
    """T cascaded blocks."""
    token_channels: int = 384
    ffn_ratio: int = 2
    vit_channels: int = 384
    """d_vit: channels of all blocks' outputs together."""
    join: Join = "both"
    """What the encoder gives: raw tokens beside SalViT's, only ``raw`` (CNN-only), or only ``vit``."""
    feature_channels: int | None = None
    """Ours: a linear layer brings what was joined to so many channels; None: not, as in the paper."""
    keeps_raw: bool = False
    """Ours: raw tokens stay beside the features, for the ``dynamic`` head to compare."""
    body: int = 0
    """Ours: so many parts of the body are found beside, those of the training set by name and further ones without, and
    every cell knows its place among them (body.py); 0: none."""
    dropout: float = 0.0
    """Ours: in training, the share of raw tokens' and of features' numbers that become 0."""

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.vit_channels % self.blocks:
            raise ValueError(f"encoder: {self.vit_channels} channels do not divide among {self.blocks} blocks")
        if self.body < 0 or (self.body and self.feature_channels is None):
            raise ValueError(f"encoder.body must be at least 0, and needs encoder.feature_channels; got {self.body}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"encoder.dropout must be at least 0 and below 1, got {self.dropout}")


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """Pooling, descriptor net and localisation net (paper Sec. 3.3)."""

    kind: HeadKind = "flat"
    """``flat``: the paper's, whose descriptor is one vector; ``spatial``: ours, which keeps the map (spatial.py);
    ``dynamic``: ours, whose weights are made from the prototype (dynamic.py)."""
    pooling_sigma: float = 14.0
    """ξ in pixels of a 384 px input; scaled with the input."""
    channels: int = 256
    """After the first 1×1 convolution of the descriptor net, and until its last layer."""
    descriptor_channels: int = 1024
    """``flat`` only, as the next."""
    descriptor_side: int = 2
    """The descriptor net halves the map until its side is at most this."""
    scales: tuple[int, ...] = (8, 12, 16)
    latent: int = 3
    """d_v: columns of the latent covariance."""
    presence: bool = False
    """Ours, not with ``flat``: a logit that the keypoint is there to be seen, learnt from pairs where it is not."""
    raw_gain: float = 10.0
    """Ours, with ``encoder.keeps_raw``: so much does a similarity of 1 count before anything is learnt."""
    filter_gain: float = 0.0
    """Ours, with ``dynamic``: so much do filters (filters.py) count, in logits a deviation; 0: there are none."""
    correction: float = 0.0
    """Ours, with ``dynamic``: the ridge of what marked pictures correct in the weights that their marks make
    (corrections.py); 0: nothing is corrected. Training does not look at it."""
    parts: bool = False
    """Ours, with ``dynamic`` and ``encoder.body``: where the parts are that marks are told to be counts too (parts.py).
    Training does not look at it."""
    decoding: Decoding = "mean"
    """``mean`` of the scales' winners (the paper's); ours: ``agreed``, the scales first agree on a place; ``gathered``,
    on one that most of the map gathers round (gathered.py)."""

    def __post_init__(self) -> None:
        if not self.scales or min(self.scales) < 1:
            raise ValueError(f"head.scales must be one or more positive sizes, got {self.scales}")
        if self.presence and self.kind == "flat":
            raise ValueError("head.presence needs head.kind = 'spatial' or 'dynamic'")
        if self.raw_gain <= 0 or self.filter_gain < 0 or self.correction < 0:
            raise ValueError(
                "head.raw_gain must be above 0, filter_gain at least 0, correction too; got "
                f"{self.raw_gain}, {self.filter_gain} and {self.correction}"
            )
        if (self.filter_gain or self.correction) and self.kind != "dynamic":
            raise ValueError(f"head.filter_gain is for head.kind = 'dynamic', correction too; got {self.kind!r}")
        if self.parts and self.kind != "dynamic":
            raise ValueError(f"head.parts is for head.kind = 'dynamic', got {self.kind!r}")
        if self.latent < 2:
            raise ValueError(f"head.latent must be at least 2, or a precision matrix has no inverse; got {self.latent}")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A whole model."""

    name: str = "salvit-resnet50"
    method: str = "salvit"
    """``salvit``, or a compared method by name (:data:`salvit.baselines.build.METHODS`) on the same backbone."""
    reweight: bool = False
    """Compared methods only: features are multiplied by saliency."""
    input_size: int = 384
    saliency: Provider = "files"
    """Where its saliency comes from; ``attentiveness`` is taken from the backbone in the same pass."""
    backbone: BackboneSettings = field(default_factory=BackboneSettings)
    attention: AttentionSettings = field(default_factory=AttentionSettings)
    morphology: MorphologySettings = field(default_factory=MorphologySettings)
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    head: HeadSettings = field(default_factory=HeadSettings)
    finder: bool = False
    """Ours: the object's box is learnt beside (finder.py), and pictures are looked at near it."""

    def __post_init__(self) -> None:
        if self.saliency == "attentiveness" and self.backbone.name not in ("dino-s16", "dinov2-s14"):
            raise ValueError(f"saliency = 'attentiveness' needs a transformer backbone, got {self.backbone.name!r}")
        if self.backbone.trained_blocks and self.backbone.name not in ("lite0", "joined"):
            raise ValueError(f"backbone.trained_blocks is for lite0 and joined, got {self.backbone.name!r}")
        if self.encoder.keeps_raw and self.head.kind != "dynamic":
            raise ValueError(f"encoder.keeps_raw is for head.kind = 'dynamic', got {self.head.kind!r}")
        if self.head.raw_gain != HeadSettings.raw_gain and not self.encoder.keeps_raw:
            raise ValueError("head.raw_gain is for encoder.keeps_raw = true")
        if (self.head.filter_gain or self.head.correction) and self.method != "salvit":
            raise ValueError(
                f"head.filter_gain and correction are for salvit; {self.method} looks at its queries in its own way"
            )
        if self.finder and self.method != "salvit":
            raise ValueError(f"model.finder is for salvit; {self.method} looks at pictures as they are")
        if self.encoder.body and self.method != "salvit":
            raise ValueError(f"model.encoder.body is for salvit; {self.method} is compared as it is")
        if self.head.parts and not self.encoder.body:
            raise ValueError("head.parts needs a body frame, encoder.body above 0: it is that which finds parts")
        if self.reweight and (self.method == "salvit" or self.saliency == "none"):
            raise ValueError("model.reweight is for a compared method (model.method) that has a saliency")


HeadWidth = Literal["paper", "narrow", "light", "swift"]


def narrow(settings: ModelSettings) -> ModelSettings:
    """The same model, narrower: about 3 M parameters for SalViT and 7.5 M for the head, to train on two CPU cores."""
    return replace(
        settings,
        morphology=replace(settings.morphology, embedding_width=128, embedding_channels=128, hidden=128),
        head=replace(settings.head, channels=128, descriptor_channels=384),
    )


def light(settings: ModelSettings) -> ModelSettings:
    """The same SalViT at half its width, features of 192 channels, the spatial head: trained on two CPU cores."""
    return replace(
        settings,
        attention=replace(settings.attention, heads=3),
        encoder=replace(settings.encoder, token_channels=192, vit_channels=192, feature_channels=192),
        morphology=replace(settings.morphology, embedding_width=64, embedding_channels=64, hidden=128),
        head=replace(settings.head, kind="spatial", channels=64, decoding="agreed", presence=True),
    )


def swift(settings: ModelSettings) -> ModelSettings:
    """:func:`light` with the dynamic head, which learns more from an episode (``train.all_ways``)."""
    slim = light(settings)
    return replace(slim, head=replace(slim.head, kind="dynamic", channels=128))


def with_width(settings: ModelSettings, width: HeadWidth) -> ModelSettings:
    """The settings at a width: the paper's, narrow, light, or swift."""
    match width:
        case "narrow":
            return narrow(settings)
        case "light":
            return light(settings)
        case "swift":
            return swift(settings)
    return settings


def preset(name: str, width: HeadWidth = "paper") -> ModelSettings:
    """The settings of a named model; an unknown name is an error that lists the known ones."""
    match name:
        case "salvit-resnet50":
            settings = ModelSettings()
        case "salvit-dino-s16":
            settings = ModelSettings(name=name, saliency="attentiveness", backbone=BackboneSettings(name="dino-s16"))
        case "salvit-dinov2":
            backbone = BackboneSettings(name="dinov2-s14", is_normalised=True)
            settings = ModelSettings(name=name, input_size=280, saliency="attentiveness", backbone=backbone)
        case "salvit-lite0":
            backbone = BackboneSettings(name="lite0", is_normalised=True)
            settings = ModelSettings(name=name, input_size=320, saliency="learned", backbone=backbone)
        case "salvit-joined":
            backbone = BackboneSettings(name="joined", is_normalised=True)
            settings = ModelSettings(name=name, input_size=320, saliency="learned", backbone=backbone)
        case _:
            raise ValueError(f"unknown model {name!r}; known: {', '.join(PRESETS)}")
    return with_width(settings, width)


PRESETS = ("salvit-resnet50", "salvit-dino-s16", "salvit-dinov2", "salvit-lite0", "salvit-joined")


def ablation(row: str) -> ModelSettings:
    """The model of one row of the paper's ablation table (Table 4); an unknown row is an error that lists the rows."""
    cnn, dino = preset("salvit-resnet50"), preset("salvit-dino-s16")
    vanilla = AttentionSettings(mask="none")
    off = replace(cnn.morphology, mode="off")
    match row:
        case "cnn-only":
            return replace(cnn, encoder=EncoderSettings(join="raw"), saliency="none")
        case "vit-only":
            return replace(cnn, encoder=EncoderSettings(join="vit"), attention=vanilla, morphology=off, saliency="none")
        case "cnn+vit":
            return replace(cnn, attention=vanilla, morphology=off, saliency="none")
        case "salvit":
            return cnn
        case "salvit-without-ml":
            return replace(cnn, morphology=off)
        case "salvit-without-pe":
            return replace(cnn, attention=AttentionSettings(position="none"))
        case "dino-with-vit":
            return replace(dino, attention=vanilla, morphology=off, saliency="none")
        case "dino-with-salvit":
            return dino
    raise ValueError(f"unknown row {row!r} of the ablation table; known: {', '.join(ABLATIONS)}")


ABLATIONS = (
    "cnn-only",
    "vit-only",
    "cnn+vit",
    "salvit",
    "salvit-without-ml",
    "salvit-without-pe",
    "dino-with-vit",
    "dino-with-salvit",
)
