import math

import pytest
import torch
from torch import nn

from salvit.muon import Muon, is_matrix, orthogonalised


@pytest.mark.parametrize("shape", [(40, 100), (100, 40), (64, 96)])
def test_an_orthogonalised_matrix_has_its_directions_and_singular_values_near_one(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    found = orthogonalised(matrix)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    sizes = torch.linalg.svdvals(found)
    assert found.shape == matrix.shape and 0.5 < float(sizes.min()) and float(sizes.max()) < 1.3
    nearest = left @ right
    assert float((found * nearest).sum() / (found.norm() * nearest.norm())) > 0.97


def test_the_factors_are_those_of_the_plain_iteration():
    torch.manual_seed(1)
    matrix = torch.randn(48, 300, dtype=torch.float64)
    plain = matrix / matrix.norm()
    for _ in range(5):
        square = plain @ plain.T
        plain = 3.4445 * plain - 4.7750 * square @ plain + 2.0315 * square @ square @ plain
    torch.testing.assert_close(orthogonalised(matrix), plain, rtol=0, atol=1e-6)


def test_a_step_of_a_matrix_by_hand():
    """The gradient is 3 I: its momentum is too, but for its size, and the step turns by 0.2 √max(A, B) I."""
    weight = nn.Parameter(torch.zeros(40, 40))
    weight.grad = 3 * torch.eye(40)
    optimizer = Muon([{"params": [weight], "is_matrix": True}], lr=0.1, weight_decay=0.5)
    optimizer.step()
    step = 0.1 * 0.2 * math.sqrt(40) * orthogonalised(torch.eye(40))
    torch.testing.assert_close(weight.detach(), -step)
    weight.grad = torch.zeros(40, 40)
    optimizer.step()  # momentum goes on in the same direction, and the weight shrinks by lr · decay
    torch.testing.assert_close(weight.detach(), -step * (1 - 0.1 * 0.5) - step)


def test_a_convolution_is_a_matrix_of_its_channels():
    torch.manual_seed(0)
    kernel, flat = nn.Parameter(torch.randn(32, 16, 3, 3)), nn.Parameter(torch.zeros(32, 144))
    flat.data.copy_(kernel.data.flatten(1))
    kernel.grad = torch.randn(32, 16, 3, 3)
    flat.grad = kernel.grad.flatten(1).clone()
    Muon([{"params": [kernel, flat], "is_matrix": True}], lr=0.1).step()
    torch.testing.assert_close(kernel.detach().flatten(1), flat.detach())


def test_all_else_takes_the_steps_of_adamw():
    torch.manual_seed(0)
    start, slopes = torch.randn(5, 7), torch.randn(3, 5, 7)
    ends = []
    for kind in (Muon, torch.optim.AdamW):
        weight = nn.Parameter(start.clone())
        optimizer = kind([weight], lr=0.1, weight_decay=0.1)
        for slope in slopes:
            weight.grad = slope.clone()
            optimizer.step()
        ends.append(weight.detach())
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=0)


def test_matrices_are_layers_that_map_many_to_many():
    def weight(*shape):
        return nn.Parameter(torch.zeros(shape))

    assert is_matrix("ffn.0.weight", weight(192, 384)) and is_matrix("mix.weight", weight(64, 64, 3, 3))
    assert is_matrix("layers.0.weight", weight(64, 4, 16, 16))
    assert not is_matrix("norm.weight", weight(192)) and not is_matrix("exponent.weight", weight(1, 128))
    assert not is_matrix("descriptor.position", weight(128, 20, 20))


def test_its_state_goes_into_a_checkpoint_and_back():
    from salvit.checkpoint import optimizer_tensors, put_optimizer

    torch.manual_seed(0)
    slopes = torch.randn(4, 33, 40)

    def made(weights):
        matrix, vector = weights
        return Muon([{"params": [vector]}, {"params": [matrix], "is_matrix": True}], lr=0.1)

    def steps(weights, optimizer, rows):
        for slope in rows:
            weights[0].grad, weights[1].grad = slope.clone(), slope[0].clone()
            optimizer.step()

    whole = [nn.Parameter(torch.zeros(33, 40)), nn.Parameter(torch.zeros(40))]
    steps(whole, made(whole), slopes)
    parted = [nn.Parameter(torch.zeros(33, 40)), nn.Parameter(torch.zeros(40))]
    first = made(parted)
    steps(parted, first, slopes[:2])
    second = made(parted)
    put_optimizer(second, {name: value.clone() for name, value in optimizer_tensors(first).items()})
    steps(parted, second, slopes[2:])
    for one, other in zip(whole, parted, strict=True):
        torch.testing.assert_close(one, other)
