import pytest
import torch
import torch.nn.functional as F
from torch import nn

from salvit.backbones.dinov2 import DinoV2
from salvit.backbones.linear import OneDnnLinear, multiply_by_onednn


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 5, 7)])
def test_it_gives_what_a_linear_layer_gives(bias, shape):
    torch.manual_seed(0)
    layer, values = OneDnnLinear(7, 4, bias=bias), torch.randn(*shape)
    with torch.inference_mode():
        torch.testing.assert_close(layer(values), F.linear(values, layer.weight, layer.bias))


def test_views_that_are_not_contiguous_are_multiplied_as_they_read():
    layer, values = OneDnnLinear(6, 5), torch.randn(2, 6, 9).transpose(1, 2)
    with torch.no_grad():
        torch.testing.assert_close(layer(values), F.linear(values, layer.weight, layer.bias))


def test_gradients_and_other_precisions_take_the_plain_road(monkeypatch):
    monkeypatch.setattr("salvit.backbones.linear.torch.ops", None)  # any use of the operator fails
    layer, values = OneDnnLinear(4, 3), torch.randn(2, 4, requires_grad=True)
    layer(values).sum().backward()
    torch.testing.assert_close(values.grad, layer.weight.sum(0).expand(2, 4))
    with torch.no_grad():
        assert OneDnnLinear(4, 3).double()(torch.randn(2, 4, dtype=torch.float64)).dtype == torch.float64
        with pytest.raises(AttributeError):  # and single precision does use it
            layer(values)


def test_turned_layers_keep_weights_names_and_hooks_of_their_networks():
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 2, bias=False))).eval()
    before = {name: value.data_ptr() for name, value in network.state_dict(keep_vars=True).items()}
    multiply_by_onednn(network)
    assert {name: value.data_ptr() for name, value in network.state_dict(keep_vars=True).items()} == before
    assert isinstance(network[2][0], OneDnnLinear) and not network[0].training


def test_the_transformers_multiply_by_it():
    layers = [layer for layer in DinoV2().blocks.modules() if isinstance(layer, nn.Linear)]
    assert len(layers) == 60 and all(isinstance(layer, OneDnnLinear) for layer in layers)
