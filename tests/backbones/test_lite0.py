"""Lite0's blocks in half as many passes: the same as the package's own, whatever state batch norm is in."""

import copy

import pytest
import torch

from salvit.backbones import build_backbone
from salvit.backbones.batch_norm import set_batch_norm
from salvit.backbones.lite0 import Lite0, run_block


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    built = Lite0(trained_blocks=8).eval()
    for module in built.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_var, 0.5, 2.0)
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    return built


@pytest.mark.parametrize("mode", ["running", "episode", "frozen"])
@pytest.mark.parametrize("is_training", [True, False])
def test_every_block_gives_what_the_package_gives(backbone, mode, is_training):
    built = copy.deepcopy(backbone)
    set_batch_norm(built, mode, is_training=is_training)
    theirs = copy.deepcopy(built)
    values = built._stem(torch.rand(2, 3, 64, 96))
    for block, other in zip(built.blocks, theirs.blocks, strict=True):
        expected = other(values)
        torch.testing.assert_close(run_block(block, values), expected, atol=1e-4, rtol=1e-4)
        values = expected


def test_gradients_of_trained_blocks_are_the_packages(backbone):
    built = copy.deepcopy(backbone)
    set_batch_norm(built, "frozen", is_training=True)
    begun = built.begin(torch.rand(2, 3, 64, 64)).detach()
    block = built.blocks[8]
    weights = [weight.requires_grad_() for name, weight in block.named_parameters() if "conv" in name]
    ours = torch.autograd.grad(run_block(block, begun).square().sum(), weights)
    theirs = torch.autograd.grad(block(begun).square().sum(), weights)
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


def test_pretrained_tokens_are_the_packages():
    built = build_backbone("lite0")
    values = built._stem(torch.rand(1, 3, 64, 64))
    theirs = values
    with torch.no_grad():
        for block in built.blocks:
            values, theirs = run_block(block, values), block(theirs)
    torch.testing.assert_close(values, theirs, atol=1e-4, rtol=1e-4)
