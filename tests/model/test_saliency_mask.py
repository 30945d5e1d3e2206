"""Saliency of patches to the mask on attention."""

import pytest
import torch
from torch.autograd import gradcheck

from salvit.model.saliency_mask import attention_mask, downscale, hard_mask, interaction_matrix, soft_mask_bias

KINDS = ("product", "harmonic", "arithmetic")


def test_downscale_is_the_mean_of_each_patch():
    saliency = torch.tensor([[[0.0, 1.0, 0.5, 0.5], [0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.4]]])
    torch.testing.assert_close(downscale(saliency, (2, 2)), torch.tensor([[[0.5, 0.5], [1.0, 0.1]]]))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("product", [[0.25, 0.1], [0.1, 0.04]]),
        ("harmonic", [[0.5, 2 * 0.1 / 0.7], [2 * 0.1 / 0.7, 0.2]]),
        ("arithmetic", [[0.5, 0.35], [0.35, 0.2]]),
    ],
)
def test_interaction_of_two_patches_by_hand(kind, expected):
    torch.testing.assert_close(interaction_matrix(torch.tensor([[0.5, 0.2]]), kind), torch.tensor([expected]))


def test_an_unknown_interaction_is_refused():
    with pytest.raises(ValueError, match="known: product, harmonic, arithmetic"):
        interaction_matrix(torch.rand(1, 2), "geometric")


def test_attention_mask_by_hand():
    saliency = torch.tensor([[0.5, 0.2]])
    mask = attention_mask(interaction_matrix(saliency, "arithmetic"), saliency)
    torch.testing.assert_close(mask, torch.tensor([[[1.0, 0.35], [0.35, 1.0]]]))


def test_diagonal_is_one_for_the_means_and_one_minus_m_plus_m_squared_for_the_product():
    saliency = torch.cat(
        [torch.tensor([[0.0, 1.0]]), torch.rand(1, 8, generator=torch.Generator().manual_seed(0))], dim=1
    )
    for kind in KINDS:
        diagonal = attention_mask(interaction_matrix(saliency, kind), saliency).diagonal(dim1=1, dim2=2)
        expected = 1 - saliency + saliency**2 if kind == "product" else torch.ones_like(saliency)
        torch.testing.assert_close(diagonal, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_full_saliency_gives_no_bias_and_none_gives_minus_j_off_the_diagonal(kind):
    ones, zeros = torch.ones(1, 5), torch.zeros(1, 5)
    assert torch.equal(soft_mask_bias(attention_mask(interaction_matrix(ones, kind), ones), 3.0), torch.zeros(1, 5, 5))
    bias = soft_mask_bias(attention_mask(interaction_matrix(zeros, kind), zeros), 3.0)
    assert torch.equal(bias, 3.0 * (torch.eye(5) - 1)[None])


def test_hard_mask_follows_the_three_cases():
    allowed, foreground = hard_mask(torch.tensor([[0.5, 0.49, 0.9]]))
    assert foreground.tolist() == [[True, False, True]]
    assert allowed.int().tolist() == [[[1, 0, 1], [0, 1, 0], [1, 0, 1]]]


@pytest.mark.parametrize("kind", KINDS)
def test_bias_has_a_right_gradient(kind):
    saliency = torch.rand(2, 4, dtype=torch.double, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert gradcheck(lambda m: soft_mask_bias(attention_mask(interaction_matrix(m, kind), m), 2.0), saliency)


def test_gradient_is_finite_where_nothing_is_salient():
    saliency = torch.zeros(1, 4, requires_grad=True)
    attention_mask(interaction_matrix(saliency, "harmonic"), saliency).sum().backward()
    assert torch.isfinite(saliency.grad).all()
