import pytest
import torch

from salvit.backbones import Tokens, build_backbone
from salvit.geometry import fit_square
from salvit.saliency.attentiveness import (
    Attentiveness,
    attention_hill,
    attentiveness_map,
    cells_inside,
    principal_contrast,
    stretch_inside,
)


def test_cells_are_inside_where_their_centre_is():
    inside = cells_inside(fit_square((0, 0, 56, 20), 56), 14)  # 4 × 4 cells; the picture fills rows 18 to 38
    assert inside.any(1).tolist() == [False, True, True, False]
    assert inside[1].all()


def test_a_picture_thinner_than_a_cell_still_has_cells():
    assert cells_inside(fit_square((0, 0, 1000, 1), 56), 14).any()


def test_attention_is_smoothed_and_in_units_of_three_means():
    attention = torch.zeros(1, 3, 3)
    attention[0, 1, 1] = 9.0
    hill = attention_hill(attention, torch.ones(1, 3, 3, dtype=torch.bool))
    # Every 3 × 3 window holds the peak: 9 / 9 = 1 everywhere, so the mean is 1 and each cell a third.
    assert hill == pytest.approx(torch.full((1, 3, 3), 1 / 3))


def test_the_principal_contrast_splits_two_kinds_of_tokens_with_the_sign_of_the_guide():
    tokens = torch.zeros(1, 2, 2, 4)
    tokens[0, 0, :, :2] = 1.0
    tokens[0, 1, :, 2:] = 1.0
    guide = torch.zeros(1, 2, 4)
    guide[0, 0, 3] = 1.0
    inside = torch.ones(1, 2, 4, dtype=torch.bool)
    contrast = principal_contrast(tokens, guide, inside)
    half = 0.5**0.5
    assert contrast[0, 0].tolist() == pytest.approx([-half, -half, half, half])
    assert principal_contrast(tokens, 1 - guide, inside)[0, 0, 0] > 0


def test_power_iteration_finds_the_component_of_the_decomposition():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(2, 8, 5, 6, generator=generator) * torch.tensor([6.0, 2, 1, 1, 1, 1, 1, 1])[:, None, None]
    inside = torch.ones(2, 5, 6, dtype=torch.bool)
    guide = torch.rand(2, 5, 6, generator=generator)
    rows = torch.nn.functional.normalize(tokens.flatten(2).transpose(1, 2), dim=-1)
    rows = rows - rows.mean(1, keepdim=True)
    component = torch.linalg.svd(rows)[2][:, 0]
    expected = torch.einsum("bpd,bd->bp", rows, component)
    found = principal_contrast(tokens, guide, inside, num_steps=60).flatten(1)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-3) or torch.allclose(one, -other, atol=1e-3)


def test_stretching_looks_inside_only_and_leaves_a_flat_map_at_zero():
    values = torch.tensor([[[0.0, 2.0, 99.0]], [[5.0, 5.0, 5.0]]])
    inside = torch.tensor([[[True, True, False]], [[True, True, True]]])
    assert stretch_inside(values, inside, 0.0).tolist() == [[[0.0, 1.0, 1.0]], [[0.0, 0.0, 0.0]]]


def test_tokens_without_attention_are_refused():
    with pytest.raises(ValueError, match="attention_block=10"):
        attentiveness_map(Tokens((torch.zeros(1, 4, 2, 2),)))


def test_the_provider_gives_the_map_of_the_same_pass(disc):
    torch.manual_seed(0)
    backbone = build_backbone("dinov2-s14", weights=None, attention_block=10)
    saliency = Attentiveness(backbone)(disc[0])
    assert saliency.shape == disc[0].shape[:2]
    assert 0 <= saliency.min() <= saliency.max() <= 1
