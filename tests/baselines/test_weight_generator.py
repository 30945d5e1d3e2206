"""Generated weights, by hand."""

import torch

from salvit.baselines.weight_generator import borrow


def test_weights_are_borrowed_from_the_base_detectors_whose_keys_are_alike():
    keys, weights = torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 4.0]])
    even = borrow(torch.tensor([[3.0, 3.0]]), keys, weights, torch.tensor(1.0))
    torch.testing.assert_close(even, torch.tensor([[0.5, 2.0]]))
    sharp = borrow(torch.tensor([[0.0, 2.0]]), keys, weights, torch.tensor(50.0))
    torch.testing.assert_close(sharp, torch.tensor([[0.0, 4.0]]))


def test_without_attention_only_channels_are_scaled(small):
    model = small("weight_generator_without_attention")
    prototypes = torch.randn(3, model.encoder.channels)
    with torch.no_grad():
        model.of_average.mul_(2)
    torch.testing.assert_close(model.weights(prototypes), 2 * prototypes)
