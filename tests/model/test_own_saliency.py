import torch

from salvit.backbones import Tokens
from salvit.geometry import MEAN_COLOUR
from salvit.model.own_saliency import attentive_saliency
from salvit.saliency.attentiveness import attentiveness_map


def test_attentive_saliency_is_the_providers_map_at_the_input_size_and_zero_in_padding():
    torch.manual_seed(0)
    tokens = Tokens((torch.rand(2, 6, 4, 4),), torch.rand(2, 4, 4))
    images = torch.rand(2, 3, 56, 56)
    maps = attentive_saliency(tokens, images, 14)
    assert maps.shape == (2, 56, 56) and 0 <= maps.min() and maps.max() <= 1
    middles = maps.reshape(2, 4, 14, 4, 14)[:, :, 6:8, :, 6:8].mean((2, 4))
    torch.testing.assert_close(middles, attentiveness_map(tokens), atol=0.05, rtol=0.0)
    images[:, :, 42:] = torch.tensor(MEAN_COLOUR).view(1, 3, 1, 1) / 255.0
    assert attentive_saliency(tokens, images, 14)[:, 49:].max() == 0
