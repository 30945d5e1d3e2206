"""The morphology learner."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from salvit.model.morphology import (
    MorphologyLearner,
    ParameterGenerator,
    SaliencyEmbedding,
    bounded_exponent,
    exponent_regulariser,
    power_normalise,
)
from salvit.model.settings import MorphologySettings


def test_exponent_by_hand():
    theta = torch.tensor([0.0, math.log(3.0), -100.0, 100.0])
    torch.testing.assert_close(bounded_exponent(theta, 2.0), torch.tensor([1.0, 1.5, 0.0, 2.0]))


def test_power_by_hand_and_its_clamp():
    shaped = power_normalise(torch.tensor([[0.25, 0.0, 1.0]]), torch.tensor([[0.5]]))
    torch.testing.assert_close(shaped, torch.tensor([[0.5, math.sqrt(0.02), math.sqrt(0.98)]]))


def test_regulariser_by_hand():
    # (1 − 0.7)² − 0.05 = 0.04; 0.8 is within the free interval
    torch.testing.assert_close(exponent_regulariser(torch.tensor([[1.0], [0.8]])), torch.tensor(0.02))


def test_generator_by_hand():
    generator = ParameterGenerator(1, 1, 1)
    with torch.no_grad():
        generator.project.weight.fill_(2.0)
        generator.project.bias.fill_(0.5)
        generator.first.weight.copy_(torch.tensor([[1.0, 10.0]]))  # embedding, then tokens
        generator.first.bias.fill_(-10.0)
        generator.second.weight.fill_(3.0)
        generator.second.bias.fill_(-1.0)
    # tokens 0.1 and 0.3: mean 0.2, 2 · 0.2 + 0.5 = 0.9; with embedding 2: 2 + 9 − 10 = 1; θ = 3 · GELU(1) − 1
    gelu = 0.5 * (1 + math.erf(1 / math.sqrt(2)))
    theta = generator(torch.tensor([[2.0]]), torch.tensor([[[0.1], [0.3]]]))
    assert theta.item() == pytest.approx(3 * gelu - 1, rel=1e-5)


def test_embedding_is_the_mean_over_patches_of_the_whole_stack():
    torch.manual_seed(0)
    embedding = SaliencyEmbedding(patch=8, width=6, channels=5)
    images, saliency = torch.rand(2, 3, 32, 32), torch.rand(2, 32, 32)
    stacked = torch.cat([saliency[:, None], (images - embedding.mean) / embedding.std], dim=1)
    torch.testing.assert_close(embedding(images, saliency), embedding.layers(stacked).mean((-2, -1)))
    kinds = [type(layer).__name__ for layer in embedding.layers]
    assert kinds == ["Conv2d", "ReLU"] + ["Conv3x3", "ReLU"] * 3 + ["Conv2d"]
    assert [layer.kernel_size for layer in embedding.layers if isinstance(layer, torch.nn.Conv2d)] == [
        (8, 8),
        (3, 3),
        (3, 3),
        (3, 3),
        (1, 1),
    ]


@pytest.mark.parametrize("mode", ["learned", "fixed", "off"])
def test_each_mode_shapes_as_it_says(mode):
    torch.manual_seed(0)
    settings = MorphologySettings(mode=mode, exponent=0.5, embedding_channels=3, hidden=4)
    learner = MorphologyLearner(4, settings)
    saliency, tokens = torch.tensor([[0.0, 0.25, 1.0]]), torch.randn(1, 3, 4)
    shaped, exponent = learner(saliency, torch.randn(1, 3), tokens)
    if mode == "off":
        assert torch.equal(shaped, saliency), "no clamp without a power"
    elif mode == "fixed":
        torch.testing.assert_close(shaped, saliency.clamp(0.02, 0.98) ** 0.5)
    else:
        assert 0 < exponent.item() < 2
        torch.testing.assert_close(shaped, saliency.clamp(0.02, 0.98) ** exponent)
    assert (exponent is None) == (mode != "learned")


@pytest.mark.parametrize("theta", [-1e4, -3.0, 0.0, 3.0, 1e4])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.3])
def test_no_nan_at_the_bounds(theta, value):
    saliency = torch.full((1, 4), value, requires_grad=True)
    exponent = torch.full((1, 1), theta, requires_grad=True)
    shaped = power_normalise(saliency, bounded_exponent(exponent))
    shaped.sum().backward()
    assert torch.isfinite(shaped).all()
    assert torch.isfinite(saliency.grad).all()
    assert torch.isfinite(exponent.grad).all()


def test_gradients_are_right():
    generator = torch.Generator().manual_seed(0)
    saliency = (0.05 + 0.9 * torch.rand(2, 4, dtype=torch.double, generator=generator)).requires_grad_()
    theta = torch.randn(2, 1, dtype=torch.double, generator=generator).requires_grad_()
    assert gradcheck(lambda m, t: power_normalise(m, bounded_exponent(t)), (saliency, theta))
    assert gradcheck(lambda t: exponent_regulariser(bounded_exponent(t)), theta)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="must be positive"):
        MorphologySettings(exponent=-0.1)
