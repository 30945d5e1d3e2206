"""SalViT: the parts in the order of the paper's pipeline figure.

    image ── backbone ── encoder 𝓔 ─┬─ Gaussian pooling ── prototypes c ──┐
                                     └──────── query features ── modulator 𝓜 ── descriptor net 𝓓 ── localisation net 𝓖

Letters: B images · K shots · Q queries · N keypoints · D channels · H, W cells · S side of the input.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

import salvit
from salvit.backbones import Backbone, Tokens
from salvit.backbones.batch_norm import set_batch_norm
from salvit.backbones.files import hash_weights
from salvit.geometry import Fit, input_to_grid
from salvit.model.answers import Asked, EpisodeOutput, images_as_tensors, marks_of
from salvit.model.certainty import Calibration, calibrated
from salvit.model.corrections import CORRECTIONS, Marks, corrected, learn_corrections
from salvit.model.dynamic import DynamicDescriptor, DynamicLocator
from salvit.model.encoder import Encoder, EncoderInput, EncoderOutput
from salvit.model.filters import MOMENTS, filter_maps, ridge_filters, token_moments, with_filters
from salvit.model.finder import Finder
from salvit.model.gathered import decode_gathered
from salvit.model.locator import Located, Locator, ScaleOutput, decode, decode_agreed, fused_logits, join_located
from salvit.model.modulation import DescriptorNet
from salvit.model.own_saliency import TaughtPrior, attentive_saliency, learned_saliency
from salvit.model.parts import PARTS, part_evidence, part_shares, told_maps
from salvit.model.prototypes import example_shares, gaussian_pooling, pooling_sigma, prototypes
from salvit.model.resampling import at_cells
from salvit.model.saliency_mask import downscale
from salvit.model.settings import Decoding, ModelSettings
from salvit.model.spatial import SpatialDescriptor, SpatialLocator
from salvit.types import Encoded, Example, FittedImage, Pack, Prediction

LARGEST_CHUNK = 2**26
"""Numbers that the first layer of the descriptor net may hold at once in inference (256 MB)."""


class SalViT(nn.Module):
    """A few-shot keypoint detector (:class:`salvit.types.Detector`)."""

    def __init__(
        self,
        settings: ModelSettings,
        backbone: Backbone,
        encoder: Encoder,
        descriptor: DescriptorNet | SpatialDescriptor | DynamicDescriptor,
        locator: Locator | SpatialLocator | DynamicLocator,
        prior: TaughtPrior | None = None,
    ) -> None:
        super().__init__()
        self.settings, self.name, self.input_size = settings, settings.name, settings.input_size
        self.backbone, self.encoder, self.descriptor, self.locator = backbone, encoder, descriptor, locator
        self.prior = prior
        self.finder: Finder | None = None  # set where the settings ask for one (build_finder)
        self._sigma = pooling_sigma(settings.head.pooling_sigma, settings.input_size, backbone.stride)
        self._widest = settings.head.channels
        self.calibration: Calibration | None = None
        self._hash: tuple[tuple[tuple[int, int], ...], str] = ((), "")
        self._last: tuple[Pack, Asked] | None = None
        self.eval()

    # --- the pipeline on tensors: what training calls ---------------------------------------------------------------

    def prepare(self, images: Tensor, saliency: Tensor | None = None, tokens: Tokens | None = None) -> EncoderInput:
        """Run the backbone: RGB in [0, 1] (B, 3, S, S), saliency (B, S, S) or None. What it gives can be cached.

        With ``saliency = "attentiveness"`` the map comes from the backbone in the same pass; a given one is not used.
        With ``"learned"`` on ``lite0`` it comes from that pass too, where none is given (:class:`TaughtPrior`).
        ``tokens`` are what the backbone gave before, where it has run.
        """
        tokens = self.backbone(images) if tokens is None else tokens
        raw = tokens.scaled() if self.settings.backbone.is_normalised else tokens.joined()  # (B, C, H, W)
        if self.settings.saliency == "attentiveness":
            saliency = attentive_saliency(tokens, images, self.backbone.stride)
        elif saliency is None and self.makes_saliency:
            saliency = learned_saliency(tokens, images) if self.prior is None else self.prior(raw, images)
        return EncoderInput(raw, images, saliency)

    @torch.no_grad()
    def glance(self, images: Tensor) -> Tensor:
        """What a finder reads of RGB images (B, 3, S, S): raw tokens (B, C, H, W), of all or a part of the backbone."""
        return self.backbone.glance(images).joined(normalise=self.settings.backbone.is_normalised)

    @property
    def makes_saliency(self) -> bool:
        """Whether the map that this model wants is made from its own backbone's pass, where none is given."""
        is_lite0 = self.settings.backbone.name in ("lite0", "joined")
        return self.settings.saliency == "learned" and is_lite0 and self.encoder.uses_saliency

    def represent(self, features: Tensor, points_input: Tensor) -> Tensor:
        """Gaussian pooling: features (K, D, H, W), points (K, N, 2) -> representations Φ (K, N, D)."""
        return gaussian_pooling(features, points_input, self.backbone.stride, self._sigma)

    def ask(self, vectors: Tensor, mask: Tensor, moments: Tensor | None = None) -> Asked:
        """What K examples ask for: vectors Φ (K, N, D), mask (K, N).

        A keypoint's examples count as their mean c; with the dynamic head as the mean of the weights that each makes.
        ``moments`` are those of all cells of the examples (:func:`token_moments`), where filters are asked for too.
        """
        weights = None
        if isinstance(self.descriptor, DynamicDescriptor):
            weights = self.descriptor.weights(vectors, example_shares(mask))
        filters = None if moments is None else ridge_filters(vectors, mask, moments, self.encoder.compared)
        return Asked(prototypes(vectors, mask), mask.sum(0), weights, filters=filters)

    def moments(self, features: Tensor) -> Tensor | None:
        """What filters need of marked pictures (K, D, H, W), where ``head.filter_gain`` asks for any."""
        return token_moments(features) if self.settings.head.filter_gain else None

    def describe(self, asked: Asked, features: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Modulate and describe query features (Q, D, H, W): (Q, N, …), as the locator takes it.

        With ``wanted`` (Q, N) only these pairs of query and keypoint, row by row, as keypoints of one query.
        """
        if isinstance(self.descriptor, DynamicDescriptor):
            assert asked.weights is not None
            cells = self.descriptor.read(self.descriptor.look(features), asked.weights, wanted)
            return with_filters(cells, self._answers(asked.filters, features), wanted)
        return self.descriptor(features, asked.prototypes, wanted)  # type: ignore[no-any-return]

    def search(self, asked: Asked, features: Tensor, looked: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """Modulate, describe, locate: (Q, D, H, W) -> branches of every scale; ``looked``: what :meth:`look` gave."""
        if isinstance(self.descriptor, DynamicDescriptor):
            return self._said(asked, features, looked)[0]
        return self.locator(self.describe(asked, features))  # type: ignore[no-any-return]

    def _said(self, asked: Asked, features: Tensor, looked: Tensor | None) -> tuple[tuple[ScaleOutput, ...], Tensor]:
        """The dynamic head's branches of every scale, offsets unread, and logits of presence (Q, N)."""
        assert isinstance(self.descriptor, DynamicDescriptor) and asked.weights is not None
        seen = self.descriptor.look(features) if looked is None else looked
        added = self._answers(asked.filters, features)
        if asked.parts is not None:
            told = self._of_scales(told_maps(asked.parts, self.encoder.find_parts(features)))
            added = tuple(one + other for one, other in zip(added, told, strict=True)) if added else told
        return self.descriptor.search(seen, asked.weights, added)

    def _answers(self, filters: Tensor | None, features: Tensor) -> tuple[Tensor, ...]:
        """What filters add to the logits of each scale, if any: (N, D), (Q, D, H, W) -> (Q, N, S²) each."""
        if filters is None:
            return ()
        return self._of_scales(self.settings.head.filter_gain * filter_maps(filters, features))

    def _of_scales(self, maps: Tensor) -> tuple[Tensor, ...]:
        """Maps (Q, N, H, W) at the cells of each scale: (Q, N, S²) each."""
        return tuple(at_cells(maps, size) for size in self.settings.head.scales)

    def search_at(
        self, prototypes: Tensor, picks: Tensor, features: Tensor, wanted: Tensor, points_input: Tensor
    ) -> tuple[tuple[ScaleOutput, ...], Tensor | None]:
        """As :meth:`search`, with many sets of prototypes, for losses; and logits of presence. For the dynamic head.

        Shapes: prototypes (S, N, D), picks (Q, s): which sets a picture is asked with, features (Q, D, H, W), wanted
        (Q, s, N), their true places (P, 2).
        """
        if not isinstance(self.descriptor, DynamicDescriptor):
            raise ValueError(f"train.all_ways is for head.kind = 'dynamic', got {self.settings.head.kind!r}")
        scales, logits = self.descriptor.at_places(features, prototypes, picks, wanted, points_input, self.input_size)
        return scales, logits if self.settings.head.presence else None

    def find(self, asked: Asked, features: Tensor, looked: Tensor | None = None) -> Located:
        """What :meth:`search` says, :meth:`concluded <conclude>`; ``looked`` as there."""
        if asked.weights is not None and isinstance(self.descriptor, DynamicDescriptor):
            scales, told = self._said(asked, features, looked)
            return self.conclude(scales, told if self.settings.head.presence else None, asked.shots)
        described = self.describe(asked, features)
        logits = self.presence(described)
        if self.settings.head.decoding != "mean" or self.calibration is not None:
            return self.conclude(self.locator(described), logits, asked.shots)
        located = self.locator.locate(described, self.input_size)  # only the winning cells matter
        return located if logits is None else replace(located, presence=logits.sigmoid())

    def presence(self, described: Tensor) -> Tensor | None:
        """Logits that keypoints are there to be seen, from what the descriptor gives; None: no such branch."""
        return None if isinstance(self.locator, Locator) else self.locator.presence(described)

    def conclude(
        self, scales: tuple[ScaleOutput, ...], presence: Tensor | None = None, shots: Tensor | None = None
    ) -> Located:
        """Branches of every scale and logits of presence (Q, N) to places, calibrated where the model was."""
        known = None if shots is None else shots > 0
        fused = None if self.settings.head.decoding == "mean" else fused_logits(scales)
        located = self.decode(scales, known, fused)
        if presence is not None:
            located = replace(located, presence=presence.sigmoid())
        if self.calibration is None:
            return located
        return calibrated(located, scales, self.calibration, self.input_size, shots, fused)

    def decoded_by(self, decoding: Decoding) -> SalViT:
        """The same weights, places found in another way; calibrated no more, as that was fitted to the old one."""
        if decoding == self.settings.head.decoding:
            return self
        other = copy.copy(self)
        other.settings = replace(self.settings, head=replace(self.settings.head, decoding=decoding))
        other.calibration = None
        return other

    def decode(
        self, scales: tuple[ScaleOutput, ...], known: Tensor | None = None, fused: Tensor | None = None
    ) -> Located:
        """Branches of every scale, fused where they were, to places; ``known`` (N,): some example has it, None: all."""
        match self.settings.head.decoding:
            case "gathered":
                return decode_gathered(scales, self.input_size, known, fused)
            case "agreed":
                return decode_agreed(scales, self.input_size, fused)
        return decode(scales, self.input_size)

    def forward(
        self,
        support: EncoderInput,
        points_input: Tensor,
        mask: Tensor,
        query: EncoderInput,
        wanted: Tensor | None = None,
    ) -> EpisodeOutput:
        """One episode: K support images with points (K, N, 2) and mask (K, N), Q query images; ``wanted`` (Q, N)."""
        shots, encoded = len(support.raw), self.encoder(support.joined(query))  # one batch costs less than two
        marked, features = encoded.features[:shots], encoded.features[shots:]
        asked = self.ask(self.represent(marked, points_input), mask, self.moments(marked))
        output = self.answer(asked, features, wanted, (marked, points_input, mask))
        return replace(output, exponents=encoded.exponents, body=encoded.body)

    def answer(
        self, asked: Asked, features: Tensor, wanted: Tensor | None, marked: tuple[Tensor, Tensor, Tensor]
    ) -> EpisodeOutput:
        """What is said of an episode's queries: features (Q, D, H, W) of the queries, wanted (Q, N).

        ``marked`` are the supports, for a method that adapts to them: features (K, D, H, W), points (K, N, 2) and mask.
        """
        described = self.describe(asked, features, wanted)
        return EpisodeOutput(self.locator(described), None, features, presence=self.presence(described))

    def own_losses(self, output: EpisodeOutput, points_input: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """Further terms of a compared method, weighted, for true points (1, P, 2), valid (1, P); SalViT has none."""
        return {}

    def train(self, mode: bool = True) -> SalViT:
        """Training or inference mode; frozen parts stay in inference mode, batch norm is as the settings say."""
        super().train(mode)
        self.backbone.eval()
        for part in self.backbone.trainable_parts():
            part.train(mode)
        set_batch_norm(self.backbone, self.settings.backbone.bn, is_training=mode)
        return self

    # --- the verbs of a detector ------------------------------------------------------------------------------------

    @torch.no_grad()
    def encode(self, images: Sequence[FittedImage]) -> Encoded:
        """Images, with their saliency where the model uses one, to features."""
        return self.encode_prepared(self.prepare(*self.tensors(images)), tuple(image.fit for image in images))

    @torch.no_grad()
    def encode_prepared(self, batch: EncoderInput, fits: tuple[Fit, ...]) -> Encoded:
        """:meth:`encode` of what :meth:`prepare` gave, of this model or of another on the same backbone."""
        output: EncoderOutput = self.encoder(batch)
        low = None if batch.saliency is None else downscale(batch.saliency, self.encoder.grid_hw)
        return Encoded(output.features, fits, low)

    @torch.no_grad()
    def look(self, encoded: Encoded) -> Encoded:
        """The same, with what the head makes of a picture alone: for pictures that are searched again and again."""
        if not isinstance(self.descriptor, DynamicDescriptor):
            return encoded
        return replace(encoded, looked=self.descriptor.look(encoded.features))

    @torch.no_grad()
    def learn(self, examples: Sequence[Example], encoded: Encoded | None = None) -> Pack:
        """Marked pictures to a pack: one vector for each shot and keypoint. Points outside the picture do not count.

        ``encoded`` are the same pictures, where they were encoded before.
        """
        names, points, mask = marks_of(examples, self.input_size)
        encoded = encoded or self.encode([example.image for example in examples])
        vectors = self.represent(encoded.features, points.to(encoded.features)).cpu()
        kept = torch.where(mask[..., None], vectors, torch.zeros_like(vectors))
        extra = self._beside(encoded, points, kept, mask)
        return Pack(kept, mask, names, self.name, self.weights_sha256, extra=extra, version=salvit.__version__)

    def _beside(self, encoded: Encoded, points: Tensor, vectors: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """What a pack keeps beside its vectors: moments, where there are filters, corrections, evidence of parts."""
        extra = {} if (moments := self.moments(encoded.features)) is None else {MOMENTS: moments.cpu()}
        if self.settings.head.parts:
            logits = self.encoder.find_parts(encoded.features.to(self.device, torch.float32))
            extra[PARTS] = part_evidence(logits, points.to(logits), mask.to(logits.device), self.backbone.stride).cpu()
        if (ridge := self.settings.head.correction) and isinstance(self.descriptor, DynamicDescriptor):
            features = encoded.features.to(self.device, torch.float32)
            looked = self.descriptor.look(features) if encoded.looked is None else encoded.looked.to(features)
            marks = Marks(points.to(looked), vectors.to(looked), mask.to(looked.device), self.input_size)
            extra[CORRECTIONS] = learn_corrections(self.descriptor, looked, marks, ridge).cpu()
        return extra

    @torch.no_grad()
    def locate(self, pack: Pack, encoded: Encoded) -> Prediction:
        """Find the keypoints of a pack in encoded images, in pixels of each image."""
        self._check_pack(pack)
        asked = self.asked(pack)
        located = join_located([self.find(asked, *part) for part in self._chunks(pack, encoded)])
        points_input, scores, covariances = (
            tensor.double().cpu().numpy() for tensor in (located.points_input, located.scores, located.covariances)
        )
        return Prediction(
            names=pack.names,
            points=np.stack([fit.to_image(row) for fit, row in zip(encoded.fits, points_input, strict=True)]),
            scores=scores,
            presence=scores.copy() if located.presence is None else located.presence.double().cpu().numpy(),
            covariances=np.stack(
                [fit.covariance_to_image(row) for fit, row in zip(encoded.fits, covariances, strict=True)]
            ),
            known=pack.known.cpu().numpy(),
        )

    def detect(self, pack: Pack, images: Sequence[FittedImage]) -> Prediction:
        """:meth:`locate` after :meth:`encode`."""
        return self.locate(pack, self.encode(images))

    @torch.no_grad()
    def explain(self, pack: Pack, image: FittedImage) -> dict[str, npt.NDArray[np.float32]]:
        """Maps that show why.

        ``saliency`` (H, W); ``shaped_saliency`` (H, W), as the last block's mask has it; ``attention`` (N, H, W), where
        the token under each found keypoint looks (mean over heads, last block); ``probability_S`` (N, S, S) for each
        scale. Those that the model does not have are left out.
        """
        self._check_pack(pack)
        output: EncoderOutput = self.encoder(batch := self.prepare(*self.tensors([image])))
        scales = self.search(self.asked(pack), output.features)
        maps = {
            f"probability_{scale.size}": scale.probabilities[0].unflatten(-1, (scale.size,) * 2) for scale in scales
        }
        if batch.saliency is not None and self.encoder.uses_saliency:
            maps["saliency"] = downscale(batch.saliency, self.encoder.grid_hw)[0]
        if output.masks is not None:
            maps["shaped_saliency"] = output.masks[0, -1]
        if (attention := self.encoder.last_attention(batch)) is not None:
            found = self.decode(scales, pack.known.to(self.device)).points_input[0]  # (N, 2)
            cells = input_to_grid(found, self.backbone.stride)
            limits = [side - 1 for side in self.encoder.grid_hw]
            x, y = cells[:, 0].round().clamp(0, limits[1]).long(), cells[:, 1].round().clamp(0, limits[0]).long()
            maps["attention"] = attention[0, y * (limits[1] + 1) + x].unflatten(1, self.encoder.grid_hw)
        return {name: map_.float().cpu().numpy() for name, map_ in maps.items()}

    # --- helpers ----------------------------------------------------------------------------------------------------

    @property
    def weights_sha256(self) -> str:
        """Hash of all weights, computed again only when one of them has changed."""
        tensors = self.state_dict(keep_vars=True).values()
        stamp = tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)
        if stamp != self._hash[0]:
            self._hash = (stamp, hash_weights(self))
        return self._hash[1]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def tensors(self, images: Sequence[FittedImage]) -> tuple[Tensor, Tensor | None]:
        """Pixels (B, 3, S, S) in [0, 1] and saliency (B, S, S), None where no image has one."""
        return images_as_tensors(images, self.input_size, self.name, self.device)

    def asked(self, pack: Pack) -> Asked:
        """What a pack asks for; that of the last pack is kept, as many pictures may be searched with it one by one."""
        if self._last is None or self._last[0] is not pack:
            head, extra = self.settings.head, {name: part.to(self.device) for name, part in pack.extra.items()}
            wanted = {MOMENTS: head.filter_gain, CORRECTIONS: head.correction, PARTS: head.parts}
            if any(is_wanted and name not in extra for name, is_wanted in wanted.items()):
                raise ValueError(f"the pack was made before {self.name} had all that it looks with; learn it again")
            asked = self.ask(pack.vectors.to(self.device), pack.mask.to(self.device), extra.get(MOMENTS))
            asked = replace(asked, parts=part_shares(extra[PARTS], asked.shots)) if head.parts else asked
            self._last = (pack, corrected(asked, extra[CORRECTIONS]) if head.correction else asked)
        return self._last[1]

    def _chunks(self, pack: Pack, encoded: Encoded) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Features and what was looked at before, where the weights are, of as many queries at a time as fit."""
        features = encoded.features.to(self.device)
        looked = None if encoded.looked is None else encoded.looked.to(self.device)
        step = max(1, LARGEST_CHUNK // max(1, len(pack.names) * self._widest * features.shape[-2:].numel()))
        for start in range(0, len(features), step):
            rows = slice(start, start + step)
            yield features[rows], None if looked is None else looked[rows]

    def _check_pack(self, pack: Pack) -> None:
        if pack.weights_sha256 != self.weights_sha256:
            raise ValueError(
                f"the pack was made by {pack.model} with weights {pack.weights_sha256[:12]}…, this is {self.name} with "
                f"{self.weights_sha256[:12]}…; learn the keypoints again with this model"
            )
