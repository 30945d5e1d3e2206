import pytest
import torch
import torch.nn.functional as F

from salvit.model.winograd import Conv3x3, convolve_tiles, transform_kernels


@pytest.mark.parametrize("hw", [(2, 2), (4, 6), (12, 12)])
def test_tiles_give_the_convolution(hw):
    torch.manual_seed(0)
    images, weight = torch.randn(2, 5, *hw, dtype=torch.float64), torch.randn(7, 5, 3, 3, dtype=torch.float64)
    found = convolve_tiles(images, transform_kernels(weight))
    torch.testing.assert_close(found, F.conv2d(images, weight, padding=1))


def test_inference_and_training_agree_also_after_the_weights_have_changed():
    torch.manual_seed(0)
    layer, images = Conv3x3(128, 128), torch.randn(2, 128, 6, 6)
    for _ in range(2):
        with torch.no_grad():
            fast = layer(images)
        torch.testing.assert_close(fast, layer(images), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            layer.weight.mul_(-2)


def test_odd_sides_and_narrow_layers_take_the_plain_road(monkeypatch):
    monkeypatch.setattr("salvit.model.winograd.convolve_tiles", lambda *_: pytest.fail("tiles were used"))
    with torch.no_grad():
        Conv3x3(128, 128)(torch.randn(1, 128, 5, 6))
        Conv3x3(16, 128)(torch.randn(1, 16, 6, 6))
