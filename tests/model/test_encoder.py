"""The encoder: what it joins, what saliency does, and that nothing becomes NaN."""

from dataclasses import replace

import pytest
import torch

from salvit.model.encoder import Encoder, EncoderInput
from salvit.model.settings import AttentionSettings, EncoderSettings, MorphologySettings

ATTENTION = AttentionSettings(heads=2, head_channels=4)
MORPHOLOGY = MorphologySettings(embedding_width=6, embedding_channels=5, hidden=7)
ENCODER = EncoderSettings(token_channels=8, vit_channels=12)


def build(encoder=ENCODER, attention=ATTENTION, morphology=MORPHOLOGY, seed=0, raw=10):
    torch.manual_seed(seed)
    return Encoder(raw, (3, 3), 4, encoder, attention, morphology)


def batch(saliency=None, seed=0, raw=10):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, 3, 12, 12, generator=generator)
    given = torch.rand(2, 12, 12, generator=generator) if saliency is None else torch.full((2, 12, 12), saliency)
    return EncoderInput(torch.randn(2, raw, 3, 3, generator=generator), images, given)


def test_raw_tokens_and_block_outputs_stand_side_by_side():
    encoder, given = build(), batch()
    output = encoder(given)
    assert output.features.shape == (2, 22, 3, 3)
    assert torch.equal(output.features[:, :10], given.raw)
    assert output.exponents.shape == (2, 1)
    assert output.masks.shape == (2, 1, 3, 3)


@pytest.mark.parametrize(("join", "channels"), [("raw", 10), ("vit", 12), ("both", 22)])
def test_settings_choose_what_is_joined(join, channels):
    encoder = build(replace(ENCODER, join=join))
    assert encoder.channels == channels
    assert encoder(batch()).features.shape[1] == channels


def test_cascaded_blocks_share_the_embedding_and_the_channels():
    encoder = build(replace(ENCODER, blocks=3))
    output = encoder(batch())
    assert output.features.shape[1] == 22
    assert output.exponents.shape == (2, 3)
    names = {name.split(".")[0] for name, _ in encoder.named_parameters()}
    assert "embedding" in names
    assert sum("embedding.layers.0.weight" in name for name, _ in encoder.named_parameters()) == 1


def test_no_prior_is_the_same_as_no_mask():
    encoder, given = build(), batch()
    torch.manual_seed(0)
    vanilla = build(attention=replace(ATTENTION, mask="none"), morphology=replace(MORPHOLOGY, mode="off"))
    missing, unexpected = vanilla.load_state_dict(encoder.state_dict(), strict=False)
    assert not missing
    assert all("morphology" in name or "embedding" in name for name in unexpected)
    without = encoder(EncoderInput(given.raw, given.images, None))
    assert torch.equal(without.features, vanilla(given).features)
    assert without.exponents is None
    assert not torch.allclose(without.features, encoder(given).features)


def test_vanilla_models_have_no_embedding():
    encoder = build(attention=replace(ATTENTION, mask="none"))
    assert encoder.embedding is None
    assert not encoder.uses_saliency


def test_training_and_inference_paths_agree():
    encoder, given = build(replace(ENCODER, blocks=2)), batch()
    trained = encoder(given).features
    with torch.no_grad():
        torch.testing.assert_close(encoder(given).features, trained.detach(), rtol=1e-4, atol=1e-5)


def test_learnt_morphology_needs_the_image():
    with pytest.raises(ValueError, match=r"give EncoderInput\.images"):
        build()(EncoderInput(batch().raw, None, batch().saliency))


def one_patch():
    saliency = torch.zeros(2, 12, 12)
    saliency[:, 4:8, 4:8] = 1
    return saliency


@pytest.mark.parametrize("kernel", ["rbf", "rbf_printed", "softmax"])
@pytest.mark.parametrize("mask", ["soft", "hard"])
@pytest.mark.parametrize("mode", ["learned", "fixed", "off"])
@pytest.mark.parametrize("prior", [0.0, 1.0, "one patch"])
def test_no_nan_for_empty_full_or_single_patch_saliency(kernel, mask, mode, prior):
    encoder = build(attention=replace(ATTENTION, kernel=kernel, mask=mask), morphology=replace(MORPHOLOGY, mode=mode))
    given = batch(0.0 if prior == "one patch" else prior)
    if prior == "one patch":
        given = replace(given, saliency=one_patch())
    encoder(given).features.sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name
    with torch.no_grad():
        assert torch.isfinite(encoder(given).features).all()


@pytest.mark.parametrize("position", ["relative", "bias", "absolute", "none"])
def test_every_position_encoding_runs_and_learns(position):
    encoder = build(attention=replace(ATTENTION, position=position))
    encoder(batch()).features.square().sum().backward()
    tables = {
        "relative": lambda: encoder.blocks[0].attention.relative.across,
        "bias": lambda: encoder.blocks[0].attention.bias.table,
        "absolute": lambda: encoder.position.table,
    }
    if position != "none":
        assert tables[position]().grad.abs().sum() > 0


def test_without_position_the_order_of_tokens_does_not_matter():
    encoder = build(attention=replace(ATTENTION, position="none", mask="none"))
    raw = batch().raw
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    shuffled = raw.flatten(2)[..., order].view_as(raw)
    here, there = encoder(EncoderInput(raw)).features, encoder(EncoderInput(shuffled)).features
    torch.testing.assert_close(here.flatten(2)[..., order], there.flatten(2))


def test_channels_must_divide_among_blocks():
    with pytest.raises(ValueError, match="do not divide"):
        EncoderSettings(blocks=5)


def test_a_block_is_attention_and_feed_forward_each_with_norm_and_skip():
    encoder = build()
    block, tokens = encoder.blocks[0], torch.randn(2, 9, 8, generator=torch.Generator().manual_seed(3))
    saliency, embedding = torch.rand(2, 9, generator=torch.Generator().manual_seed(4)), torch.randn(2, 5)
    norm = lambda layer, x: torch.nn.functional.layer_norm(x, (8,), layer.weight, layer.bias, 1e-6)  # noqa: E731
    normed = norm(block.norm_attention, tokens)
    shaped, exponent = block.morphology(saliency, embedding, normed)
    middle = block.attention(normed, shaped) + tokens
    expected = block.ffn[2](torch.nn.functional.gelu(block.ffn[0](norm(block.norm_ffn, middle)))) + middle
    out, mask, theta = block(tokens, saliency, embedding)
    torch.testing.assert_close(out, expected)
    assert torch.equal(mask, shaped)
    assert torch.equal(theta, exponent)


def test_kept_raw_tokens_stand_last_and_are_never_dropped():
    encoder, given = build(replace(ENCODER, feature_channels=6, keeps_raw=True, dropout=0.5)), batch()
    assert encoder.channels == 16 and encoder.compared == 10
    features = encoder.train()(given).features
    assert torch.equal(features[:, 6:], given.raw)
    assert 0.2 < float((features[:, :6] == 0).float().mean()) < 0.8


def test_dropout_is_for_training_alone():
    encoder, given = build(replace(ENCODER, dropout=0.5)).eval(), batch()
    assert torch.equal(encoder(given).features, build().eval()(given).features)
    assert not torch.equal(encoder.train()(given).features, encoder.train()(given).features)


def test_dropout_must_leave_something():
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1, got 1"):
        replace(ENCODER, dropout=1.0)
