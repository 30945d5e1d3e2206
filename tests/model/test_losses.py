"""Every loss, by hand."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from salvit.model.locator import ScaleOutput
from salvit.model.losses import (
    feature_alignment,
    grid_classification_loss,
    localisation_losses,
    masked_mean,
    maximum_mean_discrepancy,
    multi_scale_loss,
    offset_loss,
    presence_loss,
    probability_alignment,
    reconstruction_loss,
    total_loss,
)

YES = torch.ones(1, 1, dtype=torch.bool)


def test_grid_classification_by_hand():
    logits = torch.log(torch.tensor([[[0.1, 0.2, 0.3, 0.4]]]))
    assert grid_classification_loss(logits, torch.tensor([[2]]), YES).item() == pytest.approx(-math.log(0.3))


def test_offset_loss_by_hand():
    # Q̃ = rows (2, 0), (0, 1), d_v = 2: Ω = diag(2, ½), det 1; error (0.5, −1): 2 · 0.25 + ½ · 1 = 1
    latents = torch.tensor([[[[2.0, 0.0], [0.0, 1.0]]]])
    loss = offset_loss(torch.tensor([[[0.5, 0.0]]]), latents, torch.tensor([[[0.0, 1.0]]]), YES)
    assert loss.item() == pytest.approx(0.5)
    wide = offset_loss(torch.tensor([[[0.5, 0.0]]]), latents * 2, torch.tensor([[[0.0, 1.0]]]), YES)
    assert wide.item() == pytest.approx(0.5 * (4 - math.log(16)))


def test_losses_average_over_valid_keypoints_only():
    values = torch.tensor([[1.0, 100.0], [3.0, float("nan")]])
    assert masked_mean(values, torch.tensor([[True, False], [True, False]])).item() == 2.0
    assert masked_mean(values, torch.zeros(2, 2, dtype=torch.bool)).item() == 0.0


def scales(seed=0, sizes=(2, 4), queries=2, keypoints=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator).to(dtype)  # noqa: E731
    return tuple(
        ScaleOutput(
            draw(queries, keypoints, size**2),
            draw(queries, keypoints, size**2, 2).tanh(),
            draw(queries, keypoints, size**2, 2, 3),
        )
        for size in sizes
    )


def test_multi_scale_loss_is_the_mean_over_scales_of_both():
    points = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(3)) * 63
    valid = torch.tensor([[True, True, False], [True, False, True]])
    one, two = scales()
    each = [sum(localisation_losses((scale,), points, valid, 64)) for scale in (one, two)]
    torch.testing.assert_close(multi_scale_loss((one, two), points, valid, 64), sum(each) / 2)


def test_padding_keypoints_changes_no_loss():
    points = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(3)) * 63
    valid = torch.ones(2, 3, dtype=torch.bool)
    whole = scales()
    padded = tuple(
        ScaleOutput(*(torch.cat([field, torch.randn_like(field)], dim=1) for field in (s.logits, s.offsets, s.latents)))
        for s in whole
    )
    more_points, more_valid = torch.cat([points, points * 0], dim=1), torch.cat([valid, ~valid], dim=1)
    torch.testing.assert_close(
        multi_scale_loss(padded, more_points, more_valid, 64), multi_scale_loss(whole, points, valid, 64)
    )


def test_probability_alignment_by_hand():
    clean = ScaleOutput(torch.log(torch.tensor([[[0.5, 0.5]]])), torch.zeros(1), torch.zeros(1))
    occluded = ScaleOutput(torch.log(torch.tensor([[[0.25, 0.75]]])).requires_grad_(), torch.zeros(1), torch.zeros(1))
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert probability_alignment((clean,), (occluded,), YES).item() == pytest.approx(expected)
    assert probability_alignment((clean,), (clean,), YES).item() == pytest.approx(0.0, abs=1e-7)


def test_the_clean_branch_is_a_target_without_gradient():
    clean, occluded = scales(0)[0], scales(1)[0]
    for scale in (clean, occluded):
        scale.logits.requires_grad_()
    probability_alignment((clean,), (occluded,), torch.ones(2, 3, dtype=torch.bool)).backward()
    assert clean.logits.grad is None
    assert occluded.logits.grad.abs().sum() > 0


def test_the_clean_branch_gets_a_gradient_where_that_is_asked_for():
    clean, occluded = scales(0)[0], scales(1)[0]
    clean.logits.requires_grad_()
    valid = torch.ones(2, 3, dtype=torch.bool)
    probability_alignment((clean,), (occluded,), valid, is_target_detached=False).backward()
    assert clean.logits.grad.abs().sum() > 0


def test_mean_discrepancy_by_hand():
    # one token in each view, distance² 4; all four pairs: 0, 4, 4, 0, so h = 2 and k = exp(−1):
    # 1 + 1 − 2 exp(−1)
    clean, occluded = torch.zeros(1, 1, 1, 1), torch.full((1, 1, 1, 1), 2.0)
    assert maximum_mean_discrepancy(clean, occluded).item() == pytest.approx(2 - 2 * math.exp(-1))


def test_mean_discrepancy_does_not_care_where_tokens_are_and_is_never_negative():
    features = torch.randn(3, 8, 4, 4, generator=torch.Generator().manual_seed(0))
    turned = features.flip(-1, -2)
    assert maximum_mean_discrepancy(features, turned).item() == pytest.approx(0.0, abs=1e-6)
    other = torch.randn(3, 8, 4, 4, generator=torch.Generator().manual_seed(1)) + 1
    assert maximum_mean_discrepancy(features, other).item() > 0.1
    assert maximum_mean_discrepancy(features * 0, features * 0).item() == 0.0
    other.requires_grad_()
    maximum_mean_discrepancy(features, other).backward()
    assert torch.isfinite(other.grad).all() and other.grad.abs().sum() > 0


def test_reconstruction_looks_at_masked_patches_alone():
    images = torch.arange(16.0).view(1, 1, 4, 4).expand(1, 3, 4, 4) / 16
    hidden = torch.tensor([[[False, True], [False, False]]])
    true = torch.nn.functional.unfold(images, 2, stride=2).transpose(1, 2)  # (1, 4, 12)
    predicted = torch.full_like(true, 9.0)
    predicted[:, 1] = true[:, 1] + 0.25
    assert reconstruction_loss(predicted, images, hidden).item() == pytest.approx(0.25)
    # the second patch is the upper right one: 2, 3, 6, 7 in each colour
    assert (true[0, 1] * 16).tolist() == [2, 3, 6, 7] * 3
    assert reconstruction_loss(predicted, images, torch.zeros_like(hidden)).item() == 0.0


def test_feature_alignment_by_hand():
    clean, occluded = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0])
    assert feature_alignment(clean, occluded, order=1).item() == 1.5
    assert feature_alignment(clean, occluded, order=2).item() == 4.5


def test_total_loss_has_the_papers_weights():
    assert total_loss(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(5.0)).item() == pytest.approx(1 + 1.5 + 0.5)


def test_gradients_are_right():
    points = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(3)).double() * 63
    valid = torch.tensor([[True, True, False], [True, False, True]])
    fields = [
        f.requires_grad_() for s in scales(sizes=(2,), dtype=torch.double) for f in (s.logits, s.offsets, s.latents)
    ]
    assert gradcheck(lambda *new: multi_scale_loss((ScaleOutput(*new),), points, valid, 64), fields)
    other = scales(seed=5, sizes=(2,), dtype=torch.double)
    assert gradcheck(lambda x: probability_alignment(other, (ScaleOutput(x, x, x),), valid), fields[0])


def test_uncertainty_that_fits_the_error_costs_least():
    error, cost = torch.tensor([[[0.3, 0.3]]]), {}
    for scale in (0.1, 1.0, 1 / 0.3, 10.0, 100.0):
        latents = torch.eye(2)[None, None] * scale * math.sqrt(2)  # Ω = scale² I
        cost[scale] = offset_loss(error, latents, torch.zeros(1, 1, 2), YES).item()
    assert min(cost, key=cost.get) == 1 / 0.3


def test_presence_counts_real_pairs_alone_by_hand():
    logits = torch.tensor([[0.0, 2.0, -50.0]])
    valid, is_real = torch.tensor([[True, False, True]]), torch.tensor([[True, True, False]])
    expected = (math.log(2.0) + math.log(1 + math.exp(2.0))) / 2
    assert float(presence_loss(logits, valid, is_real)) == pytest.approx(expected, rel=1e-6)
