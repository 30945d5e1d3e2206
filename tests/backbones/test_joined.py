"""Lite0 and DINOv2 side by side."""

import pytest
import torch

from salvit.backbones import build_backbone


@pytest.fixture(scope="module")
def joined():
    torch.manual_seed(0)
    return build_backbone("joined", None)


def test_both_give_tokens_on_one_grid(joined):
    images = torch.rand(1, 3, 64, 96)
    with torch.inference_mode():
        tokens = joined(images)
        lite0 = joined.lite0(images)
    assert joined.channels == 112 + 320 + 384
    assert tokens.joined().shape == (1, joined.channels, 4, 6)
    assert torch.equal(tokens.levels[0], lite0.levels[0])
    assert tokens.levels[2].shape == (1, 384, 4, 6)


def test_a_file_is_refused_and_a_side_that_does_not_fit(joined):
    with pytest.raises(ValueError, match="joined takes the pretrained weights of its two parts"):
        build_backbone("joined", "weights.safetensors")
    with pytest.raises(ValueError, match="multiples of 32 pixels, got 40×64"):
        joined(torch.rand(1, 3, 40, 64))
