"""Transductive inference: the unmarked pictures help to find the keypoints in themselves (paper Sec. 3.3).

Every query is searched, the surest finds become pseudo labels, the prototypes move towards them, and every query is
searched again. Nothing of a query's labels is looked at; :class:`Truth` is for evaluation alone (the oracle, and the
authors' protocol).

Letters: Z query images · N keypoints · W candidates of each query and keypoint · D channels. Symbols: Φ vector of a
marked keypoint · Φ̃ vector of a candidate · c prototype · η pseudo labels of each keypoint · κ weight of the supports ·
σ width of the assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.geometry import grid_to_input
from salvit.model.detector import SalViT
from salvit.model.locator import ScaleOutput, fused_logits, read_at
from salvit.model.prototypes import prototypes
from salvit.types import Detector, Encoded, Pack

SHARE = 3
"""Choice: where η is not given it is the number of queries over this (the paper's 20 of 60); under 3 queries none."""
CORRECT = 0.1
"""The oracle takes candidates within this share of the object's longer side."""
_CHUNK = 8
"""Queries whose maps are held at once."""


@dataclass(frozen=True, kw_only=True)
class TransductiveSettings:
    """How prototypes learn from the queries; the defaults are the paper's."""

    candidates: int = 2
    """W: the best cells of each map."""
    eta: int | None = None
    """η; None: a third of the queries."""
    kappa: float = 0.8
    """κ: 1 keeps the supports' prototypes."""
    sigma: float = 0.05
    """σ, for vectors of unit length."""
    selection: Literal["score", "score+similarity"] = "score"
    """Pseudo labels are the candidates of the best score, or of the best ½ score + ½ cosine similarity."""
    assignment: Literal["soft", "average", "oracle"] = "soft"
    """``average``: pseudo labels count as supports do; ``oracle``: the truth selects (evaluation only)."""
    rounds: int = 1
    protocol: Literal["label-free", "paper"] = "label-free"
    """``paper``: only queries that truly show a keypoint may give a pseudo label of it (evaluation only)."""

    def __post_init__(self) -> None:
        if self.candidates < 1 or self.rounds < 1 or (self.eta is not None and self.eta < 0):
            raise ValueError(
                f"transduction needs at least 1 candidate and 1 round and η ≥ 0, got {self.candidates}, {self.rounds} "
                f"and {self.eta}"
            )
        if not 0 <= self.kappa <= 1 or self.sigma <= 0:
            raise ValueError(f"κ must lie in 0 to 1 and σ above 0, got {self.kappa} and {self.sigma}")

    @property
    def needs_truth(self) -> bool:
        """Whether labels of the queries are looked at."""
        return self.assignment == "oracle" or self.protocol == "paper"


@dataclass(frozen=True, slots=True)
class Truth:
    """Where the keypoints of the queries truly are: for evaluation alone."""

    points_input: Tensor
    """(Z, N, 2) in the input."""
    visible: Tensor
    """(Z, N)."""
    box_sides: Tensor
    """(Z,) the longer side of each object's box, in the input."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where the keypoints may be, the surest first."""

    points_input: Tensor
    """(Z, N, W, 2)."""
    scores: Tensor
    """(Z, N, W)."""
    similarity: Tensor
    """(Z, N, W) cosine of a candidate's vector and the prototype that found it."""


def refine_pack(
    detector: Detector,
    pack: Pack,
    queries: Iterable[Encoded],
    settings: TransductiveSettings | None = None,
    *,
    truth: Truth | None = None,
    first: Candidates | None = None,
) -> Pack:
    """The pack, its vectors moved so that their mean is the refined prototype; for ``detector.locate`` as any other.

    Args:
        detector: SalViT or ``match``.
        pack: What was learnt from the supports.
        queries: Encoded queries, in one or more batches; they are gone through twice in every round, so give a list or
            a :class:`salvit.kept_features.KeptFeatures`, which holds thousands of pictures in little memory.
        settings: None: the paper's.
        truth: For evaluation alone; needed by the oracle and by the authors' protocol, refused otherwise.
        first: What :func:`find_candidates` gave for this pack, where it was computed before.

    Where nothing is selected, or κ is 1, the pack comes back as it is: the result is the inductive one exactly.
    """
    settings = settings or TransductiveSettings()
    is_average = settings.assignment == "average"
    if settings.needs_truth != (truth is not None):
        raise ValueError("the oracle and the authors' protocol need the truth of the queries; nothing else may see it")
    known = pack.known
    sums, shots = prototypes(pack.vectors, pack.mask) * pack.mask.sum(0)[:, None], pack.mask.sum(0)  # (N, D), (N,)
    refined = pack
    for number in range(settings.rounds):
        found = first if number == 0 else None
        found = found or find_candidates(detector, refined, queries, settings.candidates)
        chosen = select(found, known, settings, truth)
        vectors, weights = _gather(detector, refined, queries, found, chosen, settings)
        if (settings.kappa == 1 and not is_average) or not bool((weights > 0).any()):
            return refined
        moved = refine(sums, shots, vectors, weights, 0.5 if is_average else settings.kappa)
        shifted = pack.vectors + (moved - prototypes(pack.vectors, pack.mask))  # (K, N, D), whose mean is moved
        is_moved = pack.mask[..., None] & (weights > 0)[:, None]
        refined = replace(pack, vectors=torch.where(is_moved, shifted, refined.vectors))
    return refined


def refine(sums: Tensor, shots: Tensor, pseudo_sums: Tensor, pseudo_weights: Tensor, kappa: float) -> Tensor:
    """Refined prototypes (paper Eq. 12).

        c* = (κ Σ Φ + (1 − κ) Σ p Φ̃) / (κ |S| + (1 − κ) Σ p)

    The simple average is the same with p = 1 and κ = ½. Symbols: ΣΦ is ``sums`` (N, D), |S| is ``shots`` (N,), Σ p Φ̃ is
    ``pseudo_sums`` (N, D), Σ p is ``pseudo_weights`` (N,) -> (N, D).
    """
    weight = kappa * shots.to(sums.dtype) + (1 - kappa) * pseudo_weights
    return (kappa * sums + (1 - kappa) * pseudo_sums) / weight.clamp_min(torch.finfo(sums.dtype).tiny)[:, None]


def assignment_probabilities(vectors: Tensor, prototypes: Tensor, known: Tensor, sigma: float) -> Tensor:
    """Which prototype a candidate belongs to (paper Eq. 12).

        p(Φ̃, c_n) = exp(−‖Φ̃ − c_n‖² / 2σ²) / Σ_i exp(−‖Φ̃ − c_i‖² / 2σ²)

    Choice: Φ̃ and c have unit length and the distance is squared, so the exponent is −(1 − cos) / σ², as in the authors'
    code; the paper prints the norm of raw vectors, which with σ = 0.05 is 0 or 1.
    Shapes: vectors (..., D), prototypes (N, D), known (N,) -> (..., N), 0 for prototypes that no shot has.
    """
    cosine = F.normalize(vectors, dim=-1) @ F.normalize(prototypes, dim=-1).T
    logits = (cosine - 1) / sigma**2
    return logits.masked_fill(~known.to(logits.device), -torch.inf).softmax(-1)


def select(found: Candidates, known: Tensor, settings: TransductiveSettings, truth: Truth | None = None) -> Tensor:
    """B: which candidates are pseudo labels, at most η for each keypoint (paper Sec. 3.3). (Z, N, W) bool.

    B⁽ⁿ⁾ = argmax Σ p B with ‖B‖₀ = η. Choice: of equal ones the earlier query is taken, then the better rank; a score
    that is not finite is never taken.
    """
    criterion = found.scores
    if settings.selection == "score+similarity":
        criterion = (found.scores + found.similarity) / 2
    allowed = known.to(criterion.device)[None, :, None] & torch.isfinite(criterion)
    count = settings.eta if settings.eta is not None else len(criterion) // SHARE
    limits = torch.full((criterion.shape[1],), count, device=criterion.device)
    ranks_open = None
    if truth is not None:
        allowed = allowed & truth.visible[..., None]
        if settings.protocol == "paper":
            ranks_open = _open_ranks(truth.visible.sum(0), count)
        if settings.assignment == "oracle":
            distance = (found.points_input - truth.points_input[:, :, None]).norm(dim=-1)
            distance = distance / truth.box_sides[:, None, None]
            allowed, criterion = allowed & (distance <= CORRECT), -distance
    flat = torch.where(allowed, criterion, -torch.inf).permute(1, 0, 2).flatten(1)  # (N, Z·W), queries in order
    order = flat.argsort(dim=1, descending=True, stable=True)
    rank = order.argsort(dim=1)
    chosen = rank < limits[:, None]
    if ranks_open is not None and count:
        chosen = chosen & ranks_open.gather(1, rank.clamp(max=count - 1))
    picked: Tensor = (chosen & (flat > -torch.inf)).unflatten(1, (len(criterion), -1))  # (N, Z, W)
    return picked.permute(1, 0, 2)


def _open_ranks(visible: Tensor, count: int) -> Tensor:
    """The authors' gate: rank m needs 3 (m + 1) queries that show the keypoint, from rank 3 on 2 (m + 1).

    Shapes: visible (N,) counts -> (N, count) bool.
    """
    ranks = torch.arange(count, device=visible.device)
    needed = torch.where(ranks < 3, 3, 2) * (ranks + 1)
    return visible[:, None] >= needed


@torch.no_grad()
def find_candidates(detector: Detector, pack: Pack, queries: Iterable[Encoded], count: int) -> Candidates:
    """The best ``count`` places of every keypoint in every query."""
    means = prototypes(pack.vectors, pack.mask)
    parts = []
    for features, looked in _chunks(detector, queries):
        kept = means.to(features)
        points, scores = _search(detector, pack, kept, features, looked, count)
        vectors = represent(detector, features, points)  # (B, N, W, D)
        similarity = F.cosine_similarity(vectors, kept[None, :, None], dim=-1)
        parts.append((points.cpu(), scores.cpu(), similarity.cpu()))
    if not parts:
        raise ValueError("there is no query to learn from; give at least one picture")
    return Candidates(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _search(
    detector: Detector, pack: Pack, means: Tensor, features: Tensor, looked: Tensor | None, count: int
) -> tuple[Tensor, Tensor]:
    if isinstance(detector, SalViT):
        return top_cells(detector.search(detector.asked(pack), features, looked), detector.input_size, count)
    unit = F.normalize(means, dim=1)
    similarity = torch.einsum("nd,bdhw->bnhw", unit, features)
    best, cells = _top(similarity.flatten(2), count)  # (B, N, W)
    width = similarity.shape[-1]
    grid = torch.stack([cells % width, cells // width], dim=-1).to(features.dtype)
    return grid_to_input(grid, detector.input_size / width), best.clamp(0, 1)


def top_cells(scales: tuple[ScaleOutput, ...], input_size: int, count: int) -> tuple[Tensor, Tensor]:
    """The best cells of the map that the scales give together: points (Q, N, W, 2) and scores (Q, N, W).

    Choice: the map is :func:`salvit.model.locator.fused_logits`; of each cell of the finest grid its best place counts,
    so that candidates are different cells. Point and score are what the scales say there in the mean, so the first
    candidate is that of ``decode_agreed``, and where the winners of all scales meet, the paper's prediction with its
    usual score. (The authors join the cells of rank w of each scale, whatever places they are at.)
    """
    total = fused_logits(scales)  # (Q, N, s, s)
    side, finest = total.shape[-1], max(scale.size for scale in scales)
    step = side // finest
    blocks = total.unflatten(-1, (finest, step)).unflatten(-3, (finest, step)).transpose(-2, -3)  # (Q, N, S, S, r, r)
    values, inside = blocks.flatten(-2).flatten(2, 3).max(-1)  # (Q, N, S²)
    _, best = _top(values, count)  # (Q, N, W)
    within = inside.gather(-1, best)
    rows, columns = best // finest * step + within // step, best % finest * step + within % step
    found = [read_at(scales, place, side, input_size) for place in (rows * side + columns).unbind(-1)]
    return torch.stack([one.points_input for one in found], dim=2), torch.stack([one.scores for one in found], dim=2)


def _top(maps: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest values and where they are; of equal ones the first, which ``topk`` does not promise."""
    values, places = maps.sort(dim=-1, descending=True, stable=True)
    return values[..., :count], places[..., :count]


def represent(detector: Detector, features: Tensor, points_input: Tensor) -> Tensor:
    """Vectors of points, as the detector makes them of marked ones: (B, D, H, W), (B, N, W, 2) -> (B, N, W, D)."""
    flat = points_input.flatten(1, 2)
    if isinstance(detector, SalViT):
        vectors = detector.represent(features, flat)
    else:
        from salvit.baselines.match import sample_features

        stride = detector.input_size // features.shape[-1]
        vectors = torch.stack([sample_features(*pair, stride) for pair in zip(features, flat, strict=True)])
        vectors = F.normalize(vectors, dim=-1)
    apart: Tensor = vectors.unflatten(1, points_input.shape[1:3])
    return apart


@torch.no_grad()
def _gather(
    detector: Detector,
    pack: Pack,
    queries: Iterable[Encoded],
    found: Candidates,
    chosen: Tensor,
    settings: TransductiveSettings,
) -> tuple[Tensor, Tensor]:
    """Σ p Φ̃ (N, D) and Σ p (N,) over the pseudo labels; vectors are made again, so that none has to be kept."""
    means = prototypes(pack.vectors, pack.mask)
    sums, weights = torch.zeros_like(means), torch.zeros(len(means), dtype=means.dtype)
    start = 0
    for features, _ in _chunks(detector, queries):
        rows = slice(start, start + len(features))
        start += len(features)
        if not bool(chosen[rows].any()):
            continue
        vectors = represent(detector, features, found.points_input[rows].to(features))  # (B, N, W, D)
        weight = chosen[rows].to(vectors)
        if settings.assignment == "soft":
            own = assignment_probabilities(vectors, means.to(features), pack.known, settings.sigma)  # (B, N, W, N)
            weight = weight * own.diagonal(dim1=1, dim2=3).transpose(1, 2)
        sums += torch.einsum("bnw,bnwd->nd", weight, vectors).cpu()
        weights += weight.sum((0, 2)).cpu()
    return sums, weights


def _chunks(detector: Detector, queries: Iterable[Encoded]) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Features of a few queries at a time, and what the head made of them before, where a network's weights are."""
    device = detector.device if isinstance(detector, SalViT) else None
    for batch in queries:
        features = batch.features.float().to(device)
        looked = None if batch.looked is None else batch.looked.float().to(device).split(_CHUNK)
        for number, part in enumerate(features.split(_CHUNK)):
            yield part, None if looked is None else looked[number]
