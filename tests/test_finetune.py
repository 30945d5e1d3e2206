import pytest
import torch

from salvit.finetune import fine_tuned
from salvit.model.build import build_model
from salvit.model.losses import multi_scale_loss
from salvit.recipes import recipe_from_table


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    settings = {"preset": "salvit-lite0", "width": "narrow", "saliency": "none", "input_size": 96}
    return build_model(recipe_from_table({"model": settings}).model, backbone_weights=None)


@pytest.fixture
def support(model):
    torch.manual_seed(1)
    with torch.no_grad():
        prepared = model.prepare(torch.rand(2, 3, 96, 96))
    return prepared, torch.rand(2, 4, 2) * 90, torch.tensor([[True, True, False, True], [True, False, True, True]])


def loss_of(model, support):
    prepared, points, mask = support
    with torch.no_grad():
        return float(multi_scale_loss(model(prepared, points, mask, prepared).scales, points, mask, 96))


def test_steps_on_the_support_lower_its_loss_and_the_weights_come_back(model, support):
    before, start = model.weights_sha256, loss_of(model, support)
    with fine_tuned(model, *support, steps=5):
        assert loss_of(model, support) < start and model.weights_sha256 != before
    assert model.weights_sha256 == before and loss_of(model, support) == start
    assert all(parameter.grad is None for parameter in model.parameters())


def test_no_steps_change_nothing(model, support):
    with fine_tuned(model, *support, steps=0):
        assert loss_of(model, support) == loss_of(model, support)


def test_the_weights_come_back_after_an_error_too(model, support):
    before = model.weights_sha256
    with pytest.raises(RuntimeError, match="midway"), fine_tuned(model, *support, steps=1):
        raise RuntimeError("midway")
    assert model.weights_sha256 == before
