"""One training episode to its losses: localisation on the view that is shown, the regulariser, and the alignment.

Letters: Q queries · M keypoints, auxiliary ones too · P pairs of them that count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from salvit.episode_tensors import EpisodeTensors
from salvit.masked_views import MaskedQueries
from salvit.model.answers import EpisodeOutput
from salvit.model.body import body_loss
from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput, EncoderOutput
from salvit.model.losses import (
    feature_alignment,
    maximum_mean_discrepancy,
    multi_scale_loss,
    presence_loss,
    probability_alignment,
    reconstruction_loss,
    total_loss,
)
from salvit.model.morphology import exponent_regulariser
from salvit.model.own_saliency import TaughtPrior
from salvit.model.prototypes import leave_one_out, prototypes
from salvit.recipes import TrainSettings


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of picture and keypoint that a step has looked at."""

    points: Tensor
    """(1, P, 2) the true places."""
    valid: Tensor
    """(1, P) the keypoint is there to be seen."""
    is_real: Tensor
    """(1, P) it is no auxiliary one."""
    tells_presence: Tensor
    """(1, P) the pair counts for the loss of presence."""


def wanted_pairs(episode: EpisodeTensors) -> Tensor:
    """Pairs of query and keypoint (Q, M) that a step looks at; the first where there are none."""
    wanted = episode.valid if episode.wanted is None else episode.wanted
    return wanted if wanted.any() else torch.arange(wanted.numel(), device=wanted.device).view_as(wanted) == 0


def episode_losses(
    output: EpisodeOutput, episode: EpisodeTensors, model: SalViT, settings: TrainSettings
) -> dict[str, Tensor]:
    """:func:`loss_terms` where the episode's queries were looked at with its prototypes.

    ``output`` is that of :func:`wanted_pairs` alone.
    """
    wanted = wanted_pairs(episode)
    is_real = (torch.arange(wanted.shape[1], device=wanted.device) < episode.num_real).expand_as(wanted)[wanted][None]
    pairs = Pairs(episode.query_points[wanted][None], episode.valid[wanted][None], is_real, is_real)
    return loss_terms(output, pairs, model, settings)


def loss_terms(output: EpisodeOutput, pairs: Pairs, model: SalViT, settings: TrainSettings) -> dict[str, Tensor]:
    """What :func:`with_total` sums, but for the alignment: L_ms, L_ms of auxiliary keypoints (after FSKD), L_reg.

    Where the model has a presence logit, its loss is there too (ours), and a compared method's own terms.
    """
    terms = {"main": multi_scale_loss(output.scales, pairs.points, pairs.valid & pairs.is_real, model.input_size)}
    if not pairs.is_real.all():
        auxiliary = pairs.valid & ~pairs.is_real
        terms["auxiliary"] = multi_scale_loss(output.scales, pairs.points, auxiliary, model.input_size)
    if output.exponents is not None:
        morphology = model.settings.morphology
        terms["regulariser"] = exponent_regulariser(output.exponents, morphology.centre, morphology.interval)
    if output.presence is not None:
        terms["presence"] = presence_loss(output.presence, pairs.valid, pairs.tells_presence)
    return {**terms, **model.own_losses(output, pairs.points, pairs.valid)}


def with_total(terms: dict[str, Tensor], settings: TrainSettings) -> dict[str, Tensor]:
    """The terms and their sum, ``loss``: L of the paper (:func:`total_loss`), and those that it does not have."""
    zero = terms["main"].new_zeros(())
    papers = [terms.get(name, zero) for name in ("main", "regulariser", "alignment")]
    loss = total_loss(papers[0], papers[1], papers[2], settings.lambdas)
    weights = {
        "auxiliary": settings.auxiliary_weight,
        "presence": settings.presence_weight,
        "body": settings.body_weight,
    }
    for name, term in terms.items():
        if name not in ("main", "regulariser", "alignment"):
            loss = loss + weights.get(name, 1.0) * term
    return {**terms, "loss": loss}


def all_ways(episode: EpisodeTensors, query: EncoderInput, model: SalViT) -> tuple[EpisodeOutput, Pairs]:
    """Look at every picture of an episode with the prototypes of every other, beside the episode's own way (ours).

    An episode of K supports and Q queries so gives (K + Q)(K + Q − 1) ways from picture to picture, where its own has
    Q, for the encoding of the same pictures; each picture is also looked at with the mean of all others, so that many
    shots are learnt too. Only the episode's own way tells of presence. Choice: several pictures count as their mean
    prototype here, as in the paper; :meth:`SalViT.describe` takes the mean of the weights that they make.
    Letters: I = K + Q pictures · M keypoints, auxiliary ones too.
    """
    shots, device = len(episode.support_mask), episode.valid.device
    encoded: EncoderOutput = model.encoder(episode.support.joined(query))
    points = torch.cat([episode.support_points, episode.query_points])  # (I, M, 2)
    shown = torch.cat([episode.support_mask, episode.valid])  # (I, M)
    vectors = model.represent(encoded.features, points)
    vectors = torch.where(shown[..., None], vectors, torch.zeros_like(vectors))  # (I, M, D)
    together = prototypes(vectors[:shots], episode.support_mask)
    sets = torch.cat([together[None], vectors, leave_one_out(vectors, shown)])  # (1 + 2I, M, D)
    pictures = torch.arange(len(shown), device=device)
    each = torch.arange(1 + len(shown), device=device).expand(len(shown), -1)
    picks = torch.cat([each, 1 + len(shown) + pictures[:, None]], dim=1)  # (I, I + 2): own, each other, all others
    own = wanted_pairs(episode)
    own = torch.cat([own.new_zeros(shots, own.shape[1]), own])  # (I, M)
    is_other = pictures[:, None] != pictures
    others = shown[:, None] & shown[None] & is_other[..., None]  # (I seen, I marked, M)
    asked = torch.cat([own[:, None], others, (shown & others.any(1))[:, None]], dim=1)  # (I, I + 2, M)
    places = points[:, None].expand(*asked.shape, 2)[asked]  # (P, 2)
    scales, presence = model.search_at(sets, picks, encoded.features, asked, places)
    output = EpisodeOutput(scales, encoded.exponents, encoded.features[shots:], presence=presence, body=encoded.body)
    is_real = (torch.arange(shown.shape[1], device=device) < episode.num_real).expand_as(asked)
    is_own = torch.zeros_like(asked)
    is_own[:, 0] = True
    looked = Pairs(
        places[None],
        shown[:, None].expand_as(asked)[asked][None],
        is_real[asked][None],
        (is_real & is_own)[asked][None],
    )
    return output, looked


class Learner(nn.Module):
    """An episode to its losses, on plain tensors: what Fabric wraps for many devices."""

    def __init__(self, model: SalViT, settings: TrainSettings) -> None:
        super().__init__()
        self.model, self._settings = model, settings
        self.simmim: nn.Linear | None = None
        """Recovers the pixels of masked patches; a part of the training, not of the model."""
        if settings.masking.alignment == "simmim":
            self.simmim = nn.Linear(model.encoder.channels, 3 * model.backbone.stride**2)

    def forward(self, counts: tuple[int, ...], *parts: Tensor | None) -> dict[str, Tensor]:
        """The terms of L = λ1 L_ms^occ + λ2 L_reg + λ3 L_aln (paper Sec. 3.3) and their sum, ``loss``."""
        episode = unflat(counts, parts)
        shown = episode.query if episode.masked is None else episode.masked.query
        alignment = self._settings.masking.alignment
        if self._settings.all_ways:
            output, pairs = all_ways(episode, shown, self.model)
            terms = loss_terms(output, pairs, self.model, self._settings)
            if episode.masked is not None and alignment == "probability":
                output = self._look(episode, shown)  # maps of the episode's own pairs
        else:
            output = self._look(episode, shown)
            terms = episode_losses(output, episode, self.model, self._settings)
        if episode.masked is not None and alignment != "none":
            terms["alignment"] = self._alignment(episode, episode.masked, output)
        if output.body is not None:
            terms["body"] = self._body_loss(episode, output.body)
        if self.model.prior is not None:
            terms["prior"] = self._prior_loss(episode, self.model.prior)
        if self.model.finder is not None:
            seen = torch.cat([episode.support.raw, episode.query.raw])
            terms["finder"] = self.model.finder.loss(seen, episode.boxes, self.model.input_size)
        return with_total(terms, self._settings)

    def training_parts(self) -> dict[str, Tensor]:
        """Weights that only training needs; a checkpoint keeps them beside the optimiser's state."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("model.")}

    def _prior_loss(self, episode: EpisodeTensors, prior: TaughtPrior) -> Tensor:
        """How far the prior that the model makes itself is from the one that it gets, on the clean pictures."""
        seen = episode.support.joined(episode.query)
        return seen.raw.new_zeros(()) if seen.saliency is None else prior.loss(seen.raw, seen.saliency)

    def _body_loss(self, episode: EpisodeTensors, logits: Tensor) -> Tensor:
        """How far the named parts' maps are from the marks."""
        points = torch.cat([episode.support_points, episode.query_points])[:, : episode.num_named]
        shown = torch.cat([episode.support_mask, episode.valid])[:, : episode.num_named]
        return body_loss(logits, points, shown, self.model.backbone.stride, episode.first_part)

    def _look(self, episode: EpisodeTensors, query: EncoderInput) -> EpisodeOutput:
        wanted = wanted_pairs(episode)
        output = self.model(episode.support, episode.support_points, episode.support_mask, query, wanted)
        assert isinstance(output, EpisodeOutput)
        return output

    def _alignment(self, episode: EpisodeTensors, masked: MaskedQueries, output: EpisodeOutput) -> Tensor:
        """L_aln between the clean and the masked view of the queries (paper Sec. 3.3)."""
        masking = self._settings.masking
        if self.simmim is not None:
            assert episode.query.images is not None
            predicted = self.simmim(output.query_features.flatten(2).transpose(1, 2))
            return reconstruction_loss(predicted, episode.query.images, masked.hidden)
        if masking.alignment == "non_occluded":
            return episode_losses(self._look(episode, episode.query), episode, self.model, self._settings)["main"]
        with torch.set_grad_enabled(torch.is_grad_enabled() and not masking.is_target_detached):
            if masking.alignment == "probability":
                clean = self._look(episode, episode.query)
            else:
                features = self.model.encoder(episode.query).features
        if masking.alignment == "probability":
            valid = episode.valid[wanted_pairs(episode)][None]
            return probability_alignment(
                clean.scales, output.scales, valid, is_target_detached=masking.is_target_detached
            )
        if masking.alignment == "mmd":
            return maximum_mean_discrepancy(features, output.query_features)
        return feature_alignment(features, output.query_features, order=1 if masking.alignment == "l1" else 2)


def flat(episode: EpisodeTensors) -> tuple[Any, ...]:
    """An episode as plain tensors: Fabric moves and scatters those."""
    inputs = [(one.raw, one.images, one.saliency) for one in (episode.support, episode.query)]
    labels = (episode.support_points, episode.support_mask, episode.query_points, episode.valid, episode.boxes)
    masked: tuple[Tensor | None, ...] = ()
    if episode.masked is not None:
        query = episode.masked.query
        masked = (query.raw, query.images, query.saliency, episode.masked.hidden)
    counts = (episode.num_real, episode.num_named, episode.first_part)
    return (counts, *inputs[0], *inputs[1], *labels, episode.wanted, *masked)


def unflat(counts: tuple[int, ...], parts: tuple[Any, ...]) -> EpisodeTensors:
    """The way back."""
    points, mask, targets, valid, boxes, wanted = parts[6:12]
    masked = MaskedQueries(EncoderInput(*parts[12:15]), parts[15]) if len(parts) > 12 else None
    support, query = EncoderInput(*parts[:3]), EncoderInput(*parts[3:6])
    real, *named = counts
    return EpisodeTensors(support, points, mask, query, targets, valid, real, boxes, masked, wanted, *named)
