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


@pytest.mark.parametrize("normalise", [False, True])
def test_a_glance_gives_lite0s_tokens_which_are_the_first_channels_of_a_whole_pass(joined, monkeypatch, normalise):
    images = torch.rand(2, 3, 64, 96)
    with torch.inference_mode():
        whole = joined(images).joined(normalise=normalise)
        monkeypatch.setattr(joined, "_see", lambda _: pytest.fail("DINOv2 ran"))
        glance = joined.glance(images).joined(normalise=normalise)
    assert joined.glance_channels == glance.shape[1] == 112 + 320 < joined.channels
    assert torch.equal(glance, whole[:, : joined.glance_channels])


def test_a_glance_of_other_backbones_is_a_whole_pass():
    torch.manual_seed(0)
    lite0, images = build_backbone("lite0", None), torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        assert torch.equal(lite0.glance(images).joined(), lite0(images).joined())
    assert lite0.glance_channels == lite0.channels


def test_a_file_is_refused_and_a_side_that_does_not_fit(joined):
    with pytest.raises(ValueError, match="joined takes the pretrained weights of its two parts"):
        build_backbone("joined", "weights.safetensors")
    with pytest.raises(ValueError, match="multiples of 32 pixels, got 40×64"):
        joined(torch.rand(1, 3, 40, 64))
