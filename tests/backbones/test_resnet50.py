"""ResNet-50: grid, frozen part, and the two layouts of published files."""

import pytest
import torch

from salvit.backbones import build_backbone
from salvit.backbones.batch_norm import set_batch_norm
from salvit.backbones.files import load_weights


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return build_backbone("resnet50", None)


def as_torchvision(state):
    """The same tensors under the names that torchvision gives them."""
    renamed = {}
    for key, tensor in state.items():
        if key.startswith("embedder.embedder."):
            renamed[
                key.replace("embedder.embedder.convolution", "conv1").replace("embedder.embedder.normalization", "bn1")
            ] = tensor
            continue
        _, stage, block, kind, *rest = key.split(".")
        place = f"layer{int(stage) + 1}.{block}"
        if kind == "shortcut":
            renamed[f"{place}.downsample.{0 if rest[0] == 'convolution' else 1}.{rest[1]}"] = tensor
        else:
            part = "conv" if rest[1] == "convolution" else "bn"
            renamed[f"{place}.{part}{int(rest[0]) + 1}.{rest[2]}"] = tensor
    return renamed


def as_hugging_face(state):
    renamed = {}
    for key, tensor in state.items():
        if key.startswith("stages."):
            _, stage, rest = key.split(".", 2)
            key = f"encoder.stages.{stage}.layers.{rest}"
        renamed[f"resnet.{key}"] = tensor
    return renamed


def test_tokens_are_2048_channels_at_stride_32(backbone):
    with torch.no_grad():
        tokens = backbone(torch.rand(2, 3, 96, 64))
    assert tokens.levels[0].shape == (2, 2048, 3, 2)


def test_full_trunk_has_23_5_million_parameters_and_the_cut_one_19(backbone):
    count = lambda module: sum(parameter.numel() for parameter in module.parameters())  # noqa: E731
    assert count(backbone) == 23_508_032
    assert count(build_backbone("resnet50", None, layer4_blocks=2)) == 19_045_440


def test_a_wrong_number_of_blocks_or_size_is_refused(backbone):
    with pytest.raises(ValueError, match="layer4_blocks must be 2 or 3"):
        build_backbone("resnet50", None, layer4_blocks=1)
    with pytest.raises(ValueError, match="multiples of 32"):
        backbone(torch.rand(1, 3, 100, 96))


@pytest.mark.parametrize("layout", [as_torchvision, as_hugging_face])
@pytest.mark.parametrize("blocks", [2, 3])
def test_files_of_both_layouts_load_and_give_the_same_tokens(backbone, layout, blocks):
    published = layout(backbone.state_dict())
    published |= {"fc.weight": torch.zeros(1), "classifier.1.bias": torch.zeros(1)}  # not used, so not an error
    published = {key: tensor for key, tensor in published.items() if not key.endswith("num_batches_tracked")}
    other = build_backbone("resnet50", None, layer4_blocks=blocks)
    load_weights(other, published, "made-up file")
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        whole, cut = backbone.stages[3], backbone.stages[3][:blocks]
        backbone.stages[3] = cut
        expected = backbone(images).levels[0]
        backbone.stages[3] = whole
        assert torch.equal(other(images).levels[0], expected)


def test_a_key_that_does_not_fit_is_named(backbone):
    published = as_torchvision(backbone.state_dict())
    with pytest.raises(ValueError, match="layer5"):
        load_weights(backbone, published | {"layer5.0.conv1.weight": torch.zeros(1)}, "file")
    with pytest.raises(ValueError, match=r"conv1\.weight"):
        load_weights(backbone, published | {"conv1.weight": torch.zeros(64, 3, 3, 3)}, "file")
    del published["layer3.2.bn1.weight"]
    with pytest.raises(ValueError, match=r"stages\.2\.2\.layer\.0\.normalization\.weight"):
        load_weights(backbone, published, "file")


def test_batch_norm_modes_choose_the_statistics():
    torch.manual_seed(0)
    backbone = build_backbone("resnet50", None)
    images = torch.rand(2, 3, 64, 64)

    def tokens(mode, is_training):
        set_batch_norm(backbone, mode, is_training=is_training)
        before = {key: value.clone() for key, value in backbone.state_dict().items() if "running" in key}
        with torch.no_grad():
            out = backbone(images).levels[0]
        moved = {
            key
            for key, value in backbone.state_dict().items()
            if "running" in key and not torch.equal(value, before[key])
        }
        return out, moved

    running, moved = tokens("running", False)
    assert not moved
    frozen, moved = tokens("frozen", True)
    assert not moved
    assert torch.equal(running, frozen)
    episode, moved = tokens("episode", False)
    assert not moved, "inference must not move the running statistics"
    assert not torch.allclose(running, episode)
    _, moved = tokens("running", True)
    assert moved
    assert all(key.startswith("stages.3.") for key in moved), "only the trained layer gathers statistics"
    _, moved = tokens("episode", True)
    assert any(key.startswith("embedder.") for key in moved)
    with pytest.raises(ValueError, match="known: running, episode, frozen"):
        set_batch_norm(backbone, "eval", is_training=False)


def test_the_trained_part_goes_on_where_the_frozen_one_ends(backbone):
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        begun = backbone.begin(images)
        assert begun.shape == (2, 1024, 4, 4)
        assert torch.equal(backbone.finish(begun).levels[0], backbone(images).levels[0])
    trained = {id(parameter) for part in backbone.trainable_parts() for parameter in part.parameters()}
    backbone.requires_grad_(True)
    backbone.finish(begun).levels[0].sum().backward()
    reached = {id(parameter) for parameter in backbone.parameters() if parameter.grad is not None}
    backbone.requires_grad_(False).zero_grad(set_to_none=True)
    assert reached == trained
