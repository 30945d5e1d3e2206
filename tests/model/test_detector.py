"""The verbs of a detector on a small model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from salvit.geometry import fit_square
from salvit.model.build import build_model
from salvit.model.detector import SalViT
from salvit.model.losses import multi_scale_loss
from salvit.model.settings import preset
from salvit.types import Detector, Example, FittedImage


def image(size=128, seed=0, saliency="random"):
    rng = np.random.default_rng(seed)
    maps = {
        "random": rng.random((size, size), dtype=np.float32),
        "empty": np.zeros((size, size), np.float32),
        "full": np.ones((size, size), np.float32),
        None: None,
    }
    maps["one patch"] = np.zeros((size, size), np.float32)
    maps["one patch"][32:48, 32:48] = 1
    pixels = rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
    return FittedImage(pixels, fit_square((10.0, 20.0, 10.0 + 2 * size, 20.0 + size), size), "made up", maps[saliency])


def example(
    names=("nose", "tail"), points=((20.0, 30.0), (90.0, 70.0)), visible=(True, True), seed=0, saliency="random"
):
    return Example(image(seed=seed, saliency=saliency), names, np.array(points), np.array(visible))


def check_finite(prediction):
    for field in (prediction.points, prediction.scores, prediction.presence, prediction.covariances):
        assert np.isfinite(field).all()


def test_it_is_a_detector(tiny_model):
    detector: Detector = tiny_model
    assert isinstance(detector, SalViT)
    assert (detector.name, detector.input_size) == ("salvit-lite0", 128)


def test_learn_and_detect_give_the_shared_types(tiny_model):
    pack = tiny_model.learn([example(), example(seed=1)])
    assert pack.vectors.shape == (2, 2, tiny_model.encoder.channels)
    assert pack.mask.all()
    assert pack.weights_sha256 == tiny_model.weights_sha256
    prediction = tiny_model.detect(pack, [image(seed=2), image(seed=3), image(seed=4)])
    assert prediction.points.shape == (3, 2, 2)
    assert prediction.covariances.shape == (3, 2, 2, 2)
    assert ((prediction.scores >= 0) & (prediction.scores <= 1)).all()
    assert np.array_equal(prediction.presence, prediction.scores)
    assert (np.linalg.eigvalsh(prediction.covariances) > 0).all()
    check_finite(prediction)


def test_points_come_back_in_pixels_of_the_image(tiny_model):
    pack, query = tiny_model.learn([example()]), image(seed=2)
    prediction = tiny_model.detect(pack, [query])
    with torch.no_grad():
        located = tiny_model.find(tiny_model.asked(pack), tiny_model.encode([query]).features)
    np.testing.assert_allclose(prediction.points[0], query.fit.to_image(located.points_input[0].numpy()), rtol=1e-6)
    np.testing.assert_allclose(
        prediction.covariances[0], query.fit.covariance_to_image(located.covariances[0].numpy()), rtol=1e-6
    )


def test_order_of_shots_and_keypoints_does_not_matter(tiny_model):
    first, second = example(), example(seed=1, points=((50.0, 60.0), (10.0, 10.0)))
    query = [image(seed=5)]
    there = tiny_model.detect(tiny_model.learn([first, second]), query)
    turned = tiny_model.detect(tiny_model.learn([second, first]), query)
    np.testing.assert_allclose(there.points, turned.points, atol=1e-3)
    swap = [
        replace(e, names=e.names[::-1], points_input=e.points_input[::-1], visible=e.visible[::-1])
        for e in (first, second)
    ]
    swapped = tiny_model.detect(tiny_model.learn(swap), query)
    assert swapped.names == ("tail", "nose")
    np.testing.assert_allclose(swapped.points[:, ::-1], there.points, atol=1e-3)


def test_shots_may_name_different_keypoints(tiny_model):
    pack = tiny_model.learn([example(), example(names=("paw",), points=((5.0, 5.0),), visible=(True,), seed=1)])
    assert pack.names == ("nose", "tail", "paw")
    assert pack.mask.tolist() == [[True, True, False], [False, False, True]]
    assert not pack.vectors[1, 0].any()


def test_a_keypoint_missing_in_every_shot_is_absent_and_changes_nothing(tiny_model):
    points = ((20.0, 30.0), (90.0, 70.0), (7.0, 7.0))
    padded = example(("nose", "tail", "ghost"), points, (True, True, False))
    query = [image(seed=6)]
    alone, with_ghost = (tiny_model.detect(tiny_model.learn([e]), query) for e in (example(), padded))
    assert with_ghost.known.tolist() == [True, True, False]
    np.testing.assert_allclose(with_ghost.points[:, :2], alone.points, atol=1e-3)
    np.testing.assert_allclose(with_ghost.scores[:, :2], alone.scores, atol=1e-5)
    check_finite(with_ghost)


def test_points_outside_the_input_count_as_not_marked(tiny_model):
    pack = tiny_model.learn([example(points=((20.0, 30.0), (400.0, 70.0)))])
    assert pack.mask.tolist() == [[True, False]]


@pytest.mark.parametrize("saliency", ["random", "empty", "full", "one patch", None])
def test_no_nan_whatever_the_saliency(tiny_model, saliency):
    pack = tiny_model.learn([example(saliency=saliency)])
    check_finite(tiny_model.detect(pack, [image(seed=1, saliency=saliency)]))


@pytest.mark.parametrize("point", [(-0.5, -0.5), (127.5, 127.5), (0.0, 127.0)])
def test_no_nan_for_a_keypoint_on_the_border(tiny_model, point):
    pack = tiny_model.learn([example(points=(point, (64.0, 64.0)))])
    assert pack.vectors[0, 0].abs().sum() > 0
    check_finite(tiny_model.detect(pack, [image(seed=1)]))


@pytest.mark.parametrize("count", [1, 40])
def test_one_and_forty_keypoints(tiny_model, count):
    names, points = tuple(map(str, range(count))), np.random.default_rng(0).uniform(0, 127, (count, 2))
    pack = tiny_model.learn([example(names, points, np.ones(count, bool))])
    prediction = tiny_model.detect(pack, [image(seed=1)])
    assert prediction.points.shape == (1, count, 2)
    check_finite(prediction)


def test_images_are_found_alone_as_they_are_in_a_batch(tiny_model, monkeypatch):
    pack, queries = tiny_model.learn([example()]), [image(seed=seed) for seed in range(5)]
    together = tiny_model.detect(pack, queries)
    alone = np.concatenate([tiny_model.detect(pack, [query]).points for query in queries])
    np.testing.assert_allclose(together.points, alone, atol=1e-2)
    monkeypatch.setattr("salvit.model.detector.LARGEST_CHUNK", 1)
    np.testing.assert_allclose(tiny_model.detect(pack, queries).points, together.points, atol=1e-2)


def test_a_pack_of_other_weights_is_an_error_that_names_both(tiny_model):
    pack = replace(tiny_model.learn([example()]), weights_sha256="abcdef012345" + "0" * 52, model="salvit-other")
    with pytest.raises(ValueError, match=r"salvit-other with weights abcdef012345.*salvit-lite0"):
        tiny_model.detect(pack, [image()])


def test_another_decoding_shares_the_weights_and_drops_the_calibration(tiny_model):
    before = tiny_model.settings.head.decoding
    other = tiny_model.decoded_by("gathered")
    assert other.settings.head.decoding == "gathered" and tiny_model.settings.head.decoding == before != "gathered"
    assert other.weights_sha256 == tiny_model.weights_sha256
    assert next(other.parameters()) is next(tiny_model.parameters())
    assert tiny_model.decoded_by(before) is tiny_model
    pack = tiny_model.learn([example()])
    one, two = (model.locate(pack, model.encode([image()])) for model in (tiny_model, other))
    check_finite(two)
    assert not np.allclose(one.points, two.points)


def test_hash_follows_the_weights(tiny_settings):
    model = build_model(tiny_settings(), None)
    before = model.weights_sha256
    assert model.weights_sha256 == before
    with torch.no_grad():
        model.locator.scales[0].bias.add_(1.0)
    assert model.weights_sha256 != before


def test_wrong_sizes_and_mixed_saliency_are_refused(tiny_model):
    with pytest.raises(ValueError, match="fitted to 128×128"):
        tiny_model.encode([image(size=96)])
    with pytest.raises(ValueError, match="1 of 2 images have saliency"):
        tiny_model.encode([image(), image(saliency=None)])
    with pytest.raises(ValueError, match="mark at least one"):
        tiny_model.learn([example((), np.zeros((0, 2)), ())])


def test_explain_gives_maps_of_the_right_shapes(tiny_model):
    pack = tiny_model.learn([example()])
    maps = tiny_model.explain(pack, image(seed=1))
    shapes = {name: map_.shape for name, map_ in maps.items()}
    assert shapes == {
        "probability_8": (2, 8, 8),
        "probability_12": (2, 12, 12),
        "probability_16": (2, 16, 16),
        "saliency": (8, 8),
        "shaped_saliency": (8, 8),
        "attention": (2, 8, 8),
    }
    np.testing.assert_allclose(maps["attention"].sum((1, 2)), 1, rtol=1e-4)
    np.testing.assert_allclose(maps["probability_8"].sum((1, 2)), 1, rtol=1e-4)
    own = tiny_model.explain(pack, image(seed=1, saliency=None))["saliency"]  # of its own pass
    assert own.shape == (8, 8) and not np.allclose(own, maps["saliency"])


def test_a_model_that_wants_saliency_from_elsewhere_explains_without_it(tiny_settings):
    settings = tiny_settings("salvit-lite0")
    model = build_model(replace(settings, saliency="rbd"), None)
    assert "saliency" not in model.explain(model.learn([example(saliency=None)]), image(seed=1, saliency=None))


def test_attentiveness_comes_from_the_same_pass(tiny_settings):
    model = build_model(tiny_settings("salvit-dinov2"), None)
    encoded = model.encode([image(size=84, saliency=None)])
    assert encoded.saliency.shape == (1, 6, 6)
    assert encoded.saliency.max() <= 1
    assert encoded.saliency.std() > 0


def test_raw_tokens_are_normalised_where_settings_say_so(tiny_model):
    raw = tiny_model.prepare(torch.rand(2, 3, 128, 128)).raw
    torch.testing.assert_close(raw[:, :112].square().sum(1), torch.full((2, 8, 8), 216.0))


def test_cached_tokens_give_the_same_episode(tiny_model):
    images, saliency = torch.rand(2, 3, 128, 128), torch.rand(2, 128, 128)
    points, mask = torch.rand(2, 3, 2) * 127, torch.ones(2, 3, dtype=torch.bool)
    fresh = tiny_model.prepare(images, saliency)
    cached = replace(fresh, raw=fresh.raw.half().float())
    output, again = (tiny_model(batch, points, mask, batch) for batch in (fresh, cached))
    assert output.exponents.shape == (4, 1)
    for one, other in zip(output.scales, again.scales, strict=True):
        torch.testing.assert_close(one.logits, other.logits, rtol=1e-2, atol=1e-2)


def test_padding_keypoints_changes_no_gradient(tiny_settings):
    torch.manual_seed(0)
    model = build_model(tiny_settings(), None).train()
    batch = model.prepare(torch.rand(1, 3, 128, 128), torch.rand(1, 128, 128))
    points, mask = torch.rand(1, 4, 2) * 127, torch.tensor([[True, True, False, False]])
    gradients = []
    for count in (2, 4):
        model.zero_grad()
        output = model(batch, points[:, :count], mask[:, :count], batch)
        multi_scale_loss(output.scales, points[:, :count], mask[:, :count], 128).backward()
        gradients.append(model.descriptor.project.weight.grad.clone())
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_a_picture_that_was_looked_at_before_gives_the_same_points():
    torch.manual_seed(0)
    swift_model = build_model(replace(preset("salvit-lite0", "swift"), input_size=128), None)
    pack = swift_model.learn([example(), example(seed=1)])
    encoded = swift_model.encode([image(seed=2), image(seed=3)])
    there, again = swift_model.locate(pack, encoded), swift_model.locate(pack, swift_model.look(encoded))
    np.testing.assert_allclose(again.points, there.points, atol=1e-6)
    np.testing.assert_allclose(again.presence, there.presence, atol=1e-6)


def test_a_head_that_makes_nothing_of_a_picture_alone_leaves_it_as_it_is(tiny_model):
    encoded = tiny_model.encode([image()])
    assert tiny_model.look(encoded) is encoded


def test_what_a_pack_asks_for_is_made_once_and_anew_for_another_pack(tiny_model):
    first, second = tiny_model.learn([example()]), tiny_model.learn([example(seed=1)])
    asked = tiny_model.asked(first)
    assert tiny_model.asked(first) is asked
    other = tiny_model.asked(second)
    assert other is not asked and not torch.equal(other.prototypes, asked.prototypes)
