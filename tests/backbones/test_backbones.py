import pytest
import torch

from salvit.backbones import build_backbone
from salvit.backbones.base import Tokens
from salvit.backbones.dinov2 import DinoV2
from salvit.backbones.lite0 import Lite0


def test_lite0_gives_strides_16_and_32():
    tokens = build_backbone("lite0")(torch.rand(2, 3, 64, 96))
    assert [tuple(level.shape) for level in tokens.levels] == [(2, 112, 4, 6), (2, 320, 2, 3)]
    assert tokens.joined().shape == (2, 432, 4, 6)


def test_lite0_can_give_stride_8_too_and_only_what_it_has():
    assert Lite0(strides=(8, 16)).eval()(torch.rand(1, 3, 64, 64)).joined().shape == (1, 152, 8, 8)
    with pytest.raises(ValueError, match="strides 8, 16 and 32"):
        Lite0(strides=(4,))


@pytest.mark.parametrize(("blocks", "begun"), [(5, (2, 112, 4, 6)), (8, (2, 80, 4, 6))])
def test_lite0_begins_and_finishes_as_a_whole_and_trains_its_last_blocks_alone(blocks, begun):
    backbone, images = build_backbone("lite0", weights=None, trained_blocks=blocks), torch.rand(2, 3, 64, 96)
    whole, cut = backbone(images), backbone.begin(images)
    assert cut.shape == begun
    for one, other in zip(whole.levels, backbone.finish(cut).levels, strict=True):
        torch.testing.assert_close(one, other)
    frozen = build_backbone("lite0", weights=None)
    frozen.load_state_dict(backbone.state_dict())
    torch.testing.assert_close(frozen(images).joined(), whole.joined())
    parts = backbone.trainable_parts()
    assert len(parts) == blocks and parts[-1] is backbone.blocks[-1] and not frozen.trainable_parts()


def test_joined_begins_and_finishes_as_a_whole_and_trains_the_last_blocks_of_lite0():
    backbone, images = build_backbone("joined", weights=None, trained_blocks=8), torch.rand(1, 3, 64, 96)
    whole, cut = backbone(images), backbone.begin(images)
    assert cut.shape == (1, 80 + 384, 4, 6)
    for one, other in zip(whole.levels, backbone.finish(cut).levels, strict=True):
        torch.testing.assert_close(one, other)
    assert backbone.trainable_parts() == list(backbone.lite0.blocks[-8:])


def test_lite0_trains_whole_stages_with_its_usual_tokens():
    for wrong in ({"trained_blocks": 3}, {"trained_blocks": 5, "strides": (8, 16)}):
        with pytest.raises(ValueError, match="last 5 or 8 blocks"):
            Lite0(**wrong)


def test_lite0_knows_a_picture_of_a_cat():
    """The published weights are really in: the classifier on top of our blocks says 'cat'."""
    skimage_data = pytest.importorskip("skimage.data")
    from efficientnet_lite_pytorch import EfficientNet

    from salvit.backbones.files import read_weights
    from salvit.backbones.weights import require_weights

    network = EfficientNet.from_name("efficientnet-lite0").eval()
    network.load_state_dict(read_weights(require_weights("lite0")))
    cat = torch.from_numpy(skimage_data.chelsea()[:, 75:375]).permute(2, 0, 1)[None].float() / 255
    cat = torch.nn.functional.interpolate(cat, size=(224, 224), mode="bilinear", antialias=True)
    with torch.inference_mode():
        last = build_backbone("lite0")(cat).levels[-1]
        top = network._swish(network._bn1(network._conv_head(last)))
        best = network._fc(top.mean((2, 3))).topk(3).indices[0].tolist()
    assert set(best) & {281, 282, 283, 284, 285}  # tabby, tiger cat, Persian, Siamese, Egyptian


def test_frozen_backbones_are_in_eval_mode_without_gradients():
    backbone = build_backbone("lite0", weights=None)
    assert not backbone.training and not any(parameter.requires_grad for parameter in backbone.parameters())


def test_dinov2_gives_a_grid_of_patches():
    tokens = DinoV2(num_blocks=2).eval()(torch.rand(2, 3, 42, 56))
    assert tokens.levels[0].shape == (2, 384, 3, 4) and tokens.attentiveness is None


def test_attentiveness_is_the_class_tokens_row_of_full_attention():
    torch.manual_seed(0)
    backbone = DinoV2(num_blocks=3, attention_block=2).eval()
    images = torch.rand(2, 3, 42, 42)
    rows = []

    def keep(module, inputs, output):
        hidden = inputs[0]
        query, key = (part(hidden).unflatten(-1, (6, 64)).transpose(1, 2) for part in (module.q_proj, module.k_proj))
        rows.append((query @ key.transpose(2, 3) / 8).softmax(-1)[:, :, 0, 1:].mean(1))

    backbone.blocks[1].attention.register_forward_hook(keep)
    with torch.inference_mode():
        found = backbone(images).attentiveness
    assert found.shape == (2, 3, 3) and torch.allclose(found.flatten(1), rows[0], atol=1e-6)


def test_attention_to_patches_does_not_change_the_tokens():
    torch.manual_seed(0)
    plain = DinoV2(num_blocks=2).eval()
    tapped = DinoV2(num_blocks=2, attention_block=1).eval()
    tapped.load_state_dict(plain.state_dict())
    images = torch.rand(1, 3, 28, 28)
    assert torch.equal(plain(images).levels[0], tapped(images).levels[0])


@pytest.mark.parametrize("bad", [{"num_blocks": 13}, {"num_blocks": 0}, {"num_blocks": 4, "attention_block": 5}])
def test_blocks_that_are_not_there_are_refused(bad):
    with pytest.raises(ValueError, match="must be 1 to"):
        DinoV2(**bad)


@pytest.mark.parametrize(("name", "side"), [("lite0", 100), ("dinov2-s14", 100)])
def test_an_input_that_does_not_fit_the_grid_is_refused(name, side):
    with pytest.raises(ValueError, match="multiples of"):
        build_backbone(name, weights=None)(torch.rand(1, 3, side, side))


def test_an_unknown_backbone_lists_the_known():
    with pytest.raises(ValueError, match="known: lite0"):
        build_backbone("vgg")


def test_levels_are_joined_on_the_finest_grid_and_can_be_made_unit_length_first():
    fine, coarse = torch.full((1, 2, 4, 4), 3.0), torch.full((1, 1, 2, 2), 7.0)
    joined = Tokens((fine, coarse)).joined()
    assert joined.shape == (1, 3, 4, 4) and joined[0, :, 0, 0].tolist() == [3.0, 3.0, 7.0]
    unit = Tokens((fine, coarse)).joined(normalise=True)[0, :, 0, 0]
    assert torch.allclose(unit, torch.tensor([0.5**0.5, 0.5**0.5, 1.0]))


def test_scaled_tokens_have_a_root_mean_square_of_one():
    tokens = Tokens((torch.rand(2, 5, 4, 4), 9 * torch.rand(2, 3, 2, 2)))
    square = tokens.scaled().square()
    assert torch.allclose(square[:, :5].sum(1), torch.tensor(4.0))  # 8 numbers of two levels: each level has half
    assert torch.allclose(Tokens(tokens.levels[:1]).scaled().square().mean(1), torch.tensor(1.0))


def test_a_wholly_frozen_backbone_begins_with_the_picture_and_finishes_with_its_tokens():
    backbone, images = build_backbone("lite0", weights=None), torch.rand(1, 3, 64, 64)
    assert backbone.trainable_parts() == []
    with torch.inference_mode():
        tokens = backbone.finish(backbone.begin(images))
        assert torch.equal(tokens.joined(), backbone(images).joined())
