import pytest
import torch
import torch.nn.functional as F
from torch import nn

from salvit.backbones.dinov2 import DinoV2
from salvit.backbones.linear import OneDnnLinear, OneDnnPointwise, linear, multiply_by_onednn, outer_sum, pointwise


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


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 5, 7)])
def test_gradients_are_those_of_a_linear_layer(bias, shape):
    torch.manual_seed(0)
    layer, values = OneDnnLinear(7, 4, bias=bias), torch.randn(*shape, requires_grad=True)
    slope, wanted = torch.randn(*shape[:-1], 4), (values, *layer.parameters())
    ours = torch.autograd.grad(layer(values), wanted, slope)
    plain = torch.autograd.grad(F.linear(values, layer.weight, layer.bias), wanted, slope)
    torch.testing.assert_close(ours, plain)


def test_gradients_are_made_only_where_they_are_asked_for():
    layer, values = OneDnnLinear(7, 4).requires_grad_(False), torch.randn(2, 7, requires_grad=True)
    layer(values).sum().backward()
    torch.testing.assert_close(values.grad, layer.weight.sum(0).expand(2, 7))
    assert layer.weight.grad is None and not layer(values.detach()).requires_grad


def test_other_precisions_take_the_plain_road(monkeypatch):
    monkeypatch.setattr("salvit.backbones.linear.torch.ops", None)  # any use of the operator fails
    layer, values = OneDnnLinear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        assert OneDnnLinear(4, 3).double()(torch.randn(2, 4, dtype=torch.float64)).dtype == torch.float64
        with pytest.raises(AttributeError):  # and single precision does use it
            layer(values)


@pytest.mark.parametrize("bias", [True, False])
def test_a_pointwise_convolution_is_one_forwards_and_backwards(bias):
    torch.manual_seed(0)
    layer, values = OneDnnPointwise(7, 4, 1, bias=bias), torch.randn(2, 7, 5, 3, requires_grad=True)
    slope, wanted = torch.randn(2, 4, 5, 3), (values, *layer.parameters())
    plain = F.conv2d(values, layer.weight, layer.bias)
    torch.testing.assert_close(layer(values), plain)
    torch.testing.assert_close(
        torch.autograd.grad(layer(values), wanted, slope), torch.autograd.grad(plain, wanted, slope)
    )


def test_only_plain_pointwise_convolutions_are_turned():
    kept = [
        nn.Conv2d(4, 4, 3),
        nn.Conv2d(4, 4, 1, stride=2),
        nn.Conv2d(4, 4, 1, groups=2),
        nn.Conv2d(4, 4, 1, padding=1),
    ]
    network = nn.Sequential(*kept, nn.Conv2d(4, 6, 1, bias=False))
    multiply_by_onednn(network)
    assert [type(layer) for layer in network] == [nn.Conv2d] * 4 + [OneDnnPointwise]
    assert network[4].bias is None and network[4].weight.shape == (6, 4, 1, 1)


def test_turned_layers_keep_weights_names_and_hooks_of_their_networks():
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 2, bias=False))).eval()
    before = {name: value.data_ptr() for name, value in network.state_dict(keep_vars=True).items()}
    multiply_by_onednn(network)
    assert {name: value.data_ptr() for name, value in network.state_dict(keep_vars=True).items()} == before
    assert isinstance(network[2][0], OneDnnLinear) and not network[0].training


def test_the_transformers_multiply_by_it():
    layers = [layer for layer in DinoV2().blocks.modules() if isinstance(layer, nn.Linear)]
    assert len(layers) == 60 and all(isinstance(layer, OneDnnLinear) for layer in layers)


def test_weights_that_were_just_made_multiply_as_pytorch_does_with_and_without_a_gradient():
    torch.manual_seed(0)
    values, weight = torch.randn(3, 7, 5)[:, 1:4], torch.randn(4, 5)  # a slice, whose rows are not one block
    torch.testing.assert_close(linear(values, weight), values @ weight.T)
    maps = torch.randn(2, 5, 3, 4)
    torch.testing.assert_close(pointwise(maps, weight), torch.einsum("ed,bdhw->behw", weight, maps))
    columns = torch.randn(5, 9)
    torch.testing.assert_close(outer_sum(columns), columns @ columns.T)
    columns.requires_grad_(True)
    outer_sum(columns).sum().backward()
    torch.testing.assert_close(columns.grad, 2 * columns.detach().sum(0).expand(5, -1))
