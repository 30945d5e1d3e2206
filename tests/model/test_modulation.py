"""Modulator and descriptor net."""

import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from salvit.model.modulation import DescriptorNet, modulate, modulate_and_project


def test_modulation_by_hand():
    features = torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]])  # (1, 2, 1, 2)
    attentive = modulate(features, torch.tensor([[10.0, 0.5]]))
    assert attentive.tolist() == [[[[[10.0, 20.0]], [[1.5, 2.0]]]]]


def test_fused_projection_equals_modulation_then_convolution():
    torch.manual_seed(0)
    features, prototypes = torch.randn(3, 5, 4, 4), torch.randn(6, 5)
    weight, bias = torch.randn(7, 5), torch.randn(7)
    fused = modulate_and_project(features, prototypes, weight, bias)
    plain = F.conv2d(modulate(features, prototypes).flatten(0, 1), weight[:, :, None, None], bias)
    torch.testing.assert_close(fused, plain.unflatten(0, (3, 6)), rtol=1e-4, atol=1e-5)


def test_descriptor_is_4096_wide_from_12_cells_in_three_steps_and_from_24_in_four():
    for side, steps in ((12, 3), (24, 4), (20, 4), (27, 4)):
        net = DescriptorNet(8, (side, side), channels=4, channels_out=1024, side=2)
        assert len(net.reduce) == steps
        assert net.channels == 4096
        assert net(torch.randn(2, 8, side, side), torch.randn(3, 8)).shape == (2, 3, 4096)


def test_each_keypoint_and_query_is_described_alone():
    torch.manual_seed(0)
    net = DescriptorNet(8, (6, 6), channels=4, channels_out=5, side=2)
    features, prototypes = torch.randn(3, 8, 6, 6), torch.randn(4, 8)
    together = net(features, prototypes)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(net(features, prototypes[order]), together[:, order])
    torch.testing.assert_close(net(features[1:2], prototypes[3:]), together[1:2, 3:])


def test_gradients_are_right():
    torch.manual_seed(0)
    shapes = ((2, 3, 2, 2), (2, 3), (4, 3), (4,))
    values = [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    assert gradcheck(modulate_and_project, values)


def test_wanted_pairs_are_those_of_the_whole_one_by_one():
    torch.manual_seed(0)
    features, prototypes = torch.randn(3, 8, 6, 6), torch.randn(4, 8)
    net = DescriptorNet(8, (6, 6), channels=4, channels_out=5, side=2)
    whole = net(features, prototypes)
    for wanted in (torch.rand(3, 4) > 0.5, torch.ones(3, 4, dtype=torch.bool), torch.eye(3, 4, dtype=torch.bool)):
        assert torch.allclose(net(features, prototypes, wanted)[0], whole[wanted], atol=1e-5)
