"""How unlike the truth each teacher is: the noise model that lets a pupil end better than all of them.

MNL (Zhang et al., CVPR 2018) learns from several noisy maps with a latent clean map and a noise distribution of each
picture that is estimated in turn with it. Ours keeps that alternation, with a plain model that is fitted by counting:

- every cell has a hidden truth z ∈ {0, 1}; the pupil gives its prior s = P(z = 1);
- teacher t shows a value y, in one of Q bins, with P_t(y | z): a table of the picture, held near the table of all
  pictures where the picture itself says little;
- in one picture a teacher is believed only as far as it agrees there with the pupil (a weight r ∈ [0, 1]).

E-step: P(z = 1 | all y) (:func:`estimate_truth`). M-step: count P_t(y | z) (:func:`count_emissions`), weigh the
teachers (:func:`reliability`), train the pupil on the posterior (``train_learned.py``).

Letters: V views · T teachers · G cells along a side · Q bins.
"""

from __future__ import annotations

import torch
from torch import Tensor

NUM_BINS = 16
MAX_EVIDENCE = 4.0
"""No single value of a teacher may say more than this, in nats."""


def bin_maps(maps: Tensor) -> Tensor:
    """Teachers' values 0 … 255, uint8, to bins 0 … Q − 1, int64."""
    return maps.long() * NUM_BINS // 256


def count_values(bins: Tensor, truth: Tensor, inside: Tensor) -> Tensor:
    """How much foreground and background each teacher shows each value on: n_vtzq = Σ_{cells with y_t = q} P(z).

    Shapes: bins (V, T, G, G), truth ``P(z = 1)`` and inside (V, G, G) -> (V, T, 2, Q).
    """
    sides = torch.stack([(1.0 - truth) * inside, truth * inside], 1).flatten(2)  # (V, 2, G·G)
    num_views, num_teachers = bins.shape[:2]
    counts = torch.zeros(num_views, num_teachers, 2, NUM_BINS)
    for teacher in range(num_teachers):
        for side in range(2):
            counts[:, teacher, side].scatter_add_(1, bins[:, teacher].flatten(1), sides[:, side])
    return counts


def count_emissions(counts: Tensor, strength: float = 200.0, smoothing: float = 10.0) -> Tensor:
    """Tables P_t(y | z) of each picture.

        P_t(q | z) = (n_tzq + λ) / Σ_q' (n_tzq' + λ)  over all pictures,
        P_vt(q | z) = (n_vtzq + κ P_t(q | z)) / Σ_q' (n_vtzq' + κ P_t(q' | z))

    Symbols: ``λ`` is smoothing, ``κ`` strength (as many cells as the common table counts for).
    Shapes: (V, T, 2, Q) -> (V, T, 2, Q).
    """
    common = counts.sum(0) + smoothing
    common = common / common.sum(-1, keepdim=True)  # (T, 2, Q)
    own = counts + strength * common
    return own / own.sum(-1, keepdim=True)


def log_evidence(bins: Tensor, emissions: Tensor) -> Tensor:
    """What each teacher's value says: log P_t(y | 1) − log P_t(y | 0), kept within ±4.

    Shapes: bins (V, T, G, G), emissions (V, T, 2, Q) -> (V, T, G, G).
    """
    ratio = (emissions[:, :, 1].log() - emissions[:, :, 0].log()).clamp(-MAX_EVIDENCE, MAX_EVIDENCE)  # (V, T, Q)
    return ratio.gather(2, bins.flatten(2)).view(bins.shape)


def reliability(evidence: Tensor, prior: Tensor, inside: Tensor) -> Tensor:
    """How far each teacher is to be believed in each picture: its correlation with the pupil there, at least 0.

        r = max(0, corr over the cells inside of (evidence, prior))

    Shapes: evidence (V, T, G, G), prior and inside (V, G, G) -> (V, T).
    """
    weights = inside[:, None].float()
    total = weights.sum((2, 3), keepdim=True).clamp_min(1.0)

    def centred(values: Tensor) -> Tensor:
        return (values - (values * weights).sum((2, 3), keepdim=True) / total) * weights

    first, second = centred(evidence), centred(prior[:, None])
    covariance = (first * second).sum((2, 3))
    scale = (first.square().sum((2, 3)) * second.square().sum((2, 3))).sqrt()
    return (covariance / scale.clamp_min(1e-9)).clamp(0.0, 1.0)


def bias_for_share(logits: Tensor, share: float) -> float:
    """The number b for which the mean of σ(logit + b) is ``share``, by bisection."""
    low, high = -12.0, 12.0
    for _ in range(30):
        middle = (low + high) / 2
        if float((logits + middle).sigmoid().mean()) > share:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def estimate_truth(prior: Tensor, maps: Tensor, inside: Tensor, *, belief: float, share: float) -> Tensor:
    """The truth, given pupil and teachers.

        P(z = 1 | y) = σ(logit s + β Σ_t r_t · evidence_t + b)

    Symbols: ``β`` is belief: teachers err together, so their evidence counts less than its sum; ``b`` makes the mean
    over all cells inside the expected share of foreground, without which the foreground grows from round to round.
    Shapes: prior ``s`` and inside (V, G, G), maps (V, T, G, G) uint8 -> (V, G, G), 0 outside.
    """
    bins = bin_maps(maps)
    evidence = log_evidence(bins, count_emissions(count_values(bins, prior, inside)))
    weights = belief * reliability(evidence, prior, inside)
    logits = torch.logit(prior, eps=1e-4) + (evidence * weights[:, :, None, None]).sum(1)
    return (logits + bias_for_share(logits[inside], share)).sigmoid() * inside
