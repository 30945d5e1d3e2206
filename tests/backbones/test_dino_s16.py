"""DINO ViT-S/16: grid, attentiveness, and the two layouts of published files."""

import pytest
import torch

from salvit.backbones import build_backbone
from salvit.backbones.files import load_weights


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return build_backbone("dino-s16", None, attention_block=10)


def as_original(state):
    """The same tensors under the names of the DINO repository: queries, keys and values joined."""
    renamed = {}
    for key, tensor in state.items():
        if ".k_proj." in key or ".v_proj." in key:
            continue
        if ".q_proj." in key:
            joined = [state[key.replace(".q_proj.", f".{part}_proj.")] for part in "qkv"]
            renamed[key.replace(".attention.q_proj.", ".attn.qkv.")] = torch.cat(joined)
            continue
        for own, published in (
            ("embeddings.cls_token", "cls_token"),
            ("embeddings.position_embeddings", "pos_embed"),
            ("embeddings.patch_embeddings.projection.", "patch_embed.proj."),
            (".attention.o_proj.", ".attn.proj."),
            (".layernorm_before.", ".norm1."),
            (".layernorm_after.", ".norm2."),
        ):
            key = key.replace(own, published)
        renamed[key] = tensor
    return renamed


def as_hugging_face(state):
    renamed = {}
    for key, tensor in state.items():
        for own, published in (
            (".q_proj.", ".attention.query."),
            (".k_proj.", ".attention.key."),
            (".v_proj.", ".attention.value."),
            (".o_proj.", ".output.dense."),
            (".mlp.fc1.", ".intermediate.dense."),
            (".mlp.fc2.", ".output.dense."),
            ("blocks.", "encoder.layer."),
        ):
            key = key.replace(own, published)
        renamed[key.replace("norm.", "layernorm.") if key.startswith("norm.") else key] = tensor
    return renamed


def test_tokens_are_384_channels_at_stride_16(backbone):
    with torch.no_grad():
        tokens = backbone(torch.rand(2, 3, 64, 96))
    assert tokens.levels[0].shape == (2, 384, 4, 6)
    assert tokens.attentiveness.shape == (2, 4, 6)


def test_attentiveness_is_what_full_attention_of_that_block_gives(backbone):
    images = torch.rand(1, 3, 64, 64)
    kept = {}
    attention = backbone.blocks[9].attention
    handle = attention.register_forward_pre_hook(lambda module, inputs: kept.update(hidden=inputs[0]))
    with torch.no_grad():
        tokens = backbone(images)
        handle.remove()
        heads = lambda x: x.unflatten(-1, (6, 64)).transpose(1, 2)  # noqa: E731
        query, key = heads(attention.q_proj(kept["hidden"])), heads(attention.k_proj(kept["hidden"]))
        full = (query @ key.transpose(-1, -2) / 8).softmax(-1)
    torch.testing.assert_close(tokens.attentiveness.flatten(1), full[:, :, 0, 1:].mean(1))


@pytest.mark.parametrize("layout", [as_original, as_hugging_face])
@pytest.mark.parametrize("prefix", ["", "backbone."])
def test_files_of_both_layouts_load_and_give_the_same_tokens(backbone, layout, prefix):
    published = {prefix + key: tensor for key, tensor in layout(backbone.state_dict()).items()}
    published |= {"head.mlp.0.weight": torch.zeros(1), "pooler.dense.bias": torch.zeros(1)}
    other = build_backbone("dino-s16", None)
    load_weights(other, published, "made-up file")
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(other(images).levels[0], backbone(images).levels[0])


def test_a_key_that_does_not_fit_is_named(backbone):
    published = as_original(backbone.state_dict())
    with pytest.raises(ValueError, match=r"blocks\.12"):
        load_weights(backbone, published | {"blocks.12.norm1.weight": torch.zeros(384)}, "file")
    with pytest.raises(ValueError, match="dino-s16"):
        load_weights(backbone, {"conv1.weight": torch.zeros(1)}, "file")


def test_only_the_last_two_blocks_and_the_norm_may_be_trained(backbone):
    parts = backbone.trainable_parts()
    assert [*parts[:2]] == [backbone.blocks[10], backbone.blocks[11]]
    assert parts[2] is backbone.norm


def test_a_block_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="1 to 12"):
        build_backbone("dino-s16", None, attention_block=13)


def test_the_trained_part_goes_on_where_the_frozen_one_ends(backbone):
    images = torch.rand(2, 3, 48, 48)
    with torch.no_grad():
        begun = backbone.begin(images)
        assert begun.shape == (2, 1 + 9, 384)
        assert torch.equal(backbone.finish(begun).levels[0], backbone(images).levels[0])
    trained = {id(parameter) for part in backbone.trainable_parts() for parameter in part.parameters()}
    backbone.requires_grad_(True)
    backbone.finish(begun).levels[0].sum().backward()
    reached = {id(parameter) for parameter in backbone.parameters() if parameter.grad is not None}
    backbone.requires_grad_(False).zero_grad(set_to_none=True)
    assert reached == trained
