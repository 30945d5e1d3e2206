"""Adaptation of the localisation net: MAML and TFA."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from salvit.flip import learn_both_ways
from salvit.model.losses import multi_scale_loss
from salvit.model.prototypes import prototypes
from salvit.packs import load_pack, save_pack
from salvit.types import Example


def marked(model, episode):
    support, points, mask, _ = episode.tensors(model)
    with torch.no_grad():
        features = model.encoder(support).features
        return prototypes(model.represent(features, points), mask), features, points, mask


@pytest.mark.parametrize("name", ["maml", "tfa"])
def test_adaptation_fits_the_support_and_leaves_the_trained_weights_alone(name, small, episode):
    model = small(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    kept, features, points, mask = marked(model, episode)
    weights = model.adapt(kept, features, points, mask)
    assert set(weights) == {key for key, _ in model.locator.named_parameters()}, "the localisation net alone"
    with torch.no_grad():
        descriptors = model.descriptor(features, kept)
        scales = [model._read(descriptors, each) for each in (None, weights)]
    losses = [float(multi_scale_loss(one, points, mask, model.input_size)) for one in scales]
    assert losses[1] < losses[0]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_the_gradient_is_first_order(small, episode):
    model = small("maml")
    weights = model.adapt(*marked(model, episode))
    sum((value * torch.arange(value.numel()).view_as(value)).sum() for value in weights.values()).backward()
    for value in model.locator.parameters():
        torch.testing.assert_close(value.grad, torch.arange(value.numel()).view_as(value).float())


def test_one_adapts_in_training_and_the_other_does_not(small, episode):
    for name, changes in (("maml", True), ("tfa", False)):
        model = small(name).train()
        inputs = episode.tensors(model)
        adapted = model(*inputs).scales[0].logits
        plain = model.compare(marked(model, episode)[0], model.encoder(inputs[3]).features)[0].logits
        assert torch.allclose(adapted, plain) != changes
        model.eval()
        assert not torch.allclose(model(*inputs).scales[0].logits, plain)


def test_what_is_explained_and_searched_is_what_finds_the_points(small, episode):
    model = small("tfa")
    pack = model.learn([episode.support])
    encoded = model.encode(episode.queries[:1])
    with torch.no_grad():
        adapted = model.search(model.asked(pack), encoded.features)[0].probabilities
        plain = model.compare(model.asked(pack).prototypes, encoded.features)[0].probabilities
    maps = model.explain(pack, episode.queries[0])
    shown = torch.from_numpy(maps[f"probability_{model.settings.head.scales[0]}"]).flatten(1)
    torch.testing.assert_close(shown, adapted[0])
    assert not torch.allclose(shown, plain[0])


def test_a_pack_that_was_written_and_read_is_adapted_to_in_the_same_way(small, episode, tmp_path):
    model = small("tfa")
    pack = model.learn([episode.support])
    again = load_pack(save_pack(pack, tmp_path / "pack.safetensors"))
    first, second = (model.detect(one, episode.queries).points for one in (pack, again))
    assert (first == second).all()


def test_a_pack_of_both_ways_is_adapted_to_where_its_pictures_are_marked_alone(small, episode, monkeypatch):
    """A side that a picture lacks comes from its mirrored partner: there is no place in the picture to adapt to."""
    model = small("tfa")
    names = ("left_eye", "right_eye")
    points = episode.support.points_input[:2]
    one, two = (Example(episode.support.image, names, points, np.array(seen)) for seen in ([1, 0], [0, 1]))
    one, two = (replace(each, visible=each.visible.astype(bool)) for each in (one, two))
    pack = learn_both_ways(model, [one, two], (names,))
    assert pack.mask.all(), "both know both"
    seen = []
    adapt = model.adapt
    monkeypatch.setattr(model, "adapt", lambda *given: seen.append(given[3]) or adapt(*given))
    model.locate(pack, model.encode(episode.queries))
    assert seen[0].tolist() == [[True, False], [False, True]]
