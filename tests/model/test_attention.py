"""Masked self-attention: values by hand, the paper's properties, and fast path = plain path."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck

from salvit.model.attention import (
    MaskedSelfAttention,
    attention_weights,
    dot_product_logits,
    printed_rbf_logits,
    rbf_logits,
)
from salvit.model.settings import AttentionSettings

SMALL = AttentionSettings(heads=2, head_channels=4)
GRID = (2, 3)


def build(settings=SMALL, seed=0, dtype=torch.float32):
    """Attention on 8 channels and 6 tokens, whose position tables are not zero."""
    torch.manual_seed(seed)
    attention = MaskedSelfAttention(8, GRID, settings)
    for name, parameter in attention.named_parameters():
        if name.startswith(("relative", "bias")):
            torch.nn.init.normal_(parameter, std=0.5)
    return attention.to(dtype)


def tokens(dtype=torch.float32):
    return torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1)).to(dtype)


def saliency(dtype=torch.float32):
    return torch.rand(2, 6, generator=torch.Generator().manual_seed(2)).to(dtype)


def test_kernels_by_hand():
    # q = (1, 0), k = (0, 2): q·k = 0, ‖q − k‖² = 5; d = 2, β = 2
    assert dot_product_logits(torch.tensor(3.0), 2.0, 4).item() == pytest.approx(3 / 4)
    assert rbf_logits(torch.tensor(5.0), 2.0, 2).item() == pytest.approx(-5 / (2 * 2 * math.sqrt(2)))
    assert printed_rbf_logits(torch.tensor(5.0), 2.0, 2).item() == pytest.approx(-math.sqrt(5) / (2 * 2 * math.sqrt(2)))


def test_rows_are_normalised_or_not():
    logits = torch.tensor([[0.0, math.log(3.0)]])
    torch.testing.assert_close(attention_weights(logits, normalise_rows=True), torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(attention_weights(logits, normalise_rows=False), torch.tensor([[1.0, 3.0]]))


@pytest.mark.parametrize("kernel", ["softmax", "rbf", "rbf_printed"])
@pytest.mark.parametrize("normalise_qk", [True, False])
def test_attention_equals_the_formula_written_out_pair_by_pair(kernel, normalise_qk):
    settings = replace(SMALL, kernel=kernel, normalise_qk=normalise_qk, beta=0.7, mask="none")
    attention = build(settings)
    x = tokens()
    query, key, _ = attention.split_heads(x)
    weights = attention.weights(x)
    width = 1 if kernel == "rbf" and normalise_qk else 4
    for b, e, i in itertools.product(range(2), range(2), range(6)):
        row = []
        for j in range(6):
            across = attention.relative.across[j % 3 - i % 3 + 2]
            down = attention.relative.down[j // 3 - i // 3 + 1]
            moved = key[b, e, j] + across + down
            if kernel == "softmax":
                row.append(query[b, e, i] @ moved / (0.7 * math.sqrt(width)))
            else:
                distance = (query[b, e, i] - moved).norm()
                row.append(-(distance**2 if kernel == "rbf" else distance) / (2 * 0.7 * math.sqrt(width)))
        row = torch.stack(row)
        expected = row.exp() if kernel == "rbf_printed" else row.softmax(0)
        torch.testing.assert_close(weights[b, e, i], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", ["softmax", "rbf", "rbf_printed"])
@pytest.mark.parametrize("interaction", ["product", "harmonic", "arithmetic"])
def test_full_saliency_is_vanilla_attention_exactly(kernel, interaction):
    attention = build(replace(SMALL, kernel=kernel, interaction=interaction, degree=5.0))
    x = tokens()
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(attention(x, torch.ones(2, 6)), attention(x, None), rtol=0, atol=1e-7)
    assert torch.equal(attention.weights(x, torch.ones(2, 6)), attention.weights(x, None))


@pytest.mark.parametrize("kernel", ["softmax", "rbf"])
def test_without_saliency_a_strong_mask_leaves_each_token_alone(kernel):
    weights = build(replace(SMALL, kernel=kernel, degree=1e4)).weights(tokens(), torch.zeros(2, 6))
    torch.testing.assert_close(weights, torch.eye(6).expand_as(weights))


def test_a_stronger_mask_takes_attention_from_background_pairs():
    x, m = tokens(), torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]).expand(2, -1)
    weak, strong = (build(replace(SMALL, degree=degree)).weights(x, m)[:, :, :3, 3:].sum() for degree in (0.1, 4.0))
    assert strong < 0.2 * weak


@pytest.mark.parametrize("kernel", ["softmax", "rbf", "rbf_printed"])
def test_hard_mask_follows_its_cases(kernel):
    attention = build(replace(SMALL, kernel=kernel, mask="hard"))
    m = torch.tensor([[0.9, 0.1, 0.6, 0.0, 0.5, 0.4]]).expand(2, -1)
    weights, free = attention.weights(tokens(), m), attention.weights(tokens(), None)
    foreground, background = [0, 2, 4], [1, 3, 5]
    assert not weights[:, :, foreground][..., background].any()
    torch.testing.assert_close(weights[:, :, background], torch.eye(6)[background].expand(2, 2, 3, 6))
    inside = free[:, :, foreground][..., foreground]
    if kernel != "rbf_printed":
        inside = inside / inside.sum(-1, keepdim=True)
    torch.testing.assert_close(weights[:, :, foreground][..., foreground], inside)


@pytest.mark.parametrize("kernel", ["softmax", "rbf"])
@pytest.mark.parametrize("position", ["relative", "bias", "none"])
@pytest.mark.parametrize("mask", ["soft", "hard", "none"])
@pytest.mark.parametrize("normalise_qk", [True, False])
def test_fast_path_equals_plain_path(kernel, position, mask, normalise_qk):
    settings = replace(
        SMALL, kernel=kernel, position=position, mask=mask, normalise_qk=normalise_qk, degree=3.0, beta=0.5
    )
    attention = build(settings)
    query, key, value = attention.split_heads(tokens())
    for m in (saliency(), None):
        with torch.no_grad():
            fast, plain = attention.mix_fast(query, key, value, m), attention.mix_plain(query, key, value, m)
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)
        made = []
        for mix in (attention.mix_with_gradient, attention.mix_plain):
            attention.zero_grad()
            mixed = mix(*attention.split_heads(tokens()), m)
            (mixed * torch.linspace(0, 1, mixed.numel()).view_as(mixed)).sum().backward()
            made.append([mixed] + [weight.grad for weight in attention.parameters() if weight.grad is not None])
        for one, two in zip(*made, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_inference_and_training_each_take_their_fast_path(monkeypatch):
    attention = build()
    taken = []
    for path in ("mix_fast", "mix_plain", "mix_with_gradient"):
        original = getattr(attention, path)
        monkeypatch.setattr(attention, path, lambda *args, path=path, run=original: (taken.append(path), run(*args))[1])
    attention(tokens(), saliency())
    with torch.no_grad():
        attention(tokens(), saliency())
    assert taken == ["mix_with_gradient", "mix_fast"]


@pytest.mark.parametrize("kernel", ["softmax", "rbf", "rbf_printed"])
def test_gradients_are_right(kernel):
    attention = build(replace(SMALL, kernel=kernel), dtype=torch.double)
    x, m = tokens(torch.double)[:1].requires_grad_(), saliency(torch.double)[:1].requires_grad_()
    assert gradcheck(attention, (x, m))
    names = [name for name, _ in attention.named_parameters() if name.startswith("relative")]
    values = [dict(attention.named_parameters())[name].detach().clone().requires_grad_() for name in names]
    call = torch.func.functional_call
    assert gradcheck(lambda *new: call(attention, dict(zip(names, new, strict=True)), (x.detach(), m.detach())), values)


def test_head_width_and_temperature_must_make_sense():
    with pytest.raises(ValueError, match="beta must be above 0"):
        AttentionSettings(beta=0.0)
    with pytest.raises(ValueError, match="at least 1 head"):
        AttentionSettings(heads=0)
