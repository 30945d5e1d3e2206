import dataclasses

import numpy as np
import pytest

from salvit.data.images import fit_image
from salvit.flip import (
    check_pairs,
    has_lone_side,
    learn_both_ways,
    lone_sides,
    look_mirrored,
    merge,
    mirror,
    mirror_example,
    pairs_at_one_place,
    partners,
)
from salvit.predict import detect, learn
from salvit.types import Example, Prediction

NAMES = ("nose", "left_eye", "right_eye")
PAIRS = (("left_eye", "right_eye"),)


def prediction(points, scores, spread=1.0, known=(True, True, True)):
    points, scores = np.array([points], dtype=float), np.array([scores], dtype=float)
    covariances = np.broadcast_to(np.eye(2) * spread**2, (1, 3, 2, 2)).copy()
    return Prediction(NAMES, points, scores, scores, covariances, np.array(known))


def test_partners_change_places_and_the_rest_stay():
    assert partners(NAMES, PAIRS).tolist() == [0, 2, 1]
    assert partners(NAMES, (("left_ear", "right_ear"),)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ((("left_eye", "right_ear"),), "names 'right_ear'"),
        ((("left_eye", "right_eye"), ("nose", "left_eye")), "in two"),
        ((("nose", "nose"),), "in two"),
    ],
)
def test_pairs_that_cannot_be_meant_are_errors(pairs, message):
    with pytest.raises(ValueError, match=message):
        check_pairs(pairs, NAMES)


def test_mirroring_twice_gives_the_picture_again(picture):
    saliency = np.random.default_rng(0).random((320, 320), dtype=np.float32)
    image = dataclasses.replace(fit_image(picture(), 320), saliency=saliency)
    again = mirror(mirror(image))
    assert np.array_equal(again.pixels, image.pixels) and np.array_equal(again.saliency, image.saliency)
    assert np.array_equal(mirror(image).pixels[:, 0], image.pixels[:, -1])


def test_where_both_ways_agree_the_point_is_their_mean_by_score():
    plain = prediction([[10, 10], [20, 10], [0, 10]], [0.6, 0.5, 0.5])
    mirrored = prediction([[12, 10], [20, 10], [0, 10]], [0.2, 0.5, 0.5])
    merged, warnings = merge(plain, mirrored, PAIRS)
    assert merged.points[0, 0] == pytest.approx([10.5, 10])  # 10 · 0.75 + 12 · 0.25
    assert merged.scores[0, 0] == pytest.approx(0.75 * 0.6 + 0.25 * 0.2)
    # about 10.5: 0.75 (1 + 0.5²) + 0.25 (1 + 1.5²) in x, 1 in y
    assert merged.covariances[0, 0] == pytest.approx(np.diag([1.75, 1.0]))
    assert merged.points[0, 1] == pytest.approx([20, 10]) and warnings == [()]


def test_where_they_do_not_agree_the_better_one_counts_and_the_spread_grows():
    plain = prediction([[10, 10], [20, 10], [0, 10]], [0.9, 0.5, 0.5])
    mirrored = prediction([[110, 10], [20, 10], [0, 10]], [0.1, 0.5, 0.5])
    merged, warnings = merge(plain, mirrored, PAIRS)
    assert merged.points[0, 0] == pytest.approx([10, 10]) and warnings == [()]
    assert merged.covariances[0, 0, 0, 0] == pytest.approx(0.9 * 1 + 0.1 * (1 + 100**2))


@pytest.mark.parametrize("covariance", [np.zeros((2, 2)), np.ones((2, 2)), np.diag([1.0, 0.0])])
def test_a_covariance_that_cannot_be_inverted_is_no_error(covariance):
    covariances = np.broadcast_to(covariance, (1, 3, 2, 2)).copy()
    places = ([[10, 10], [20, 10], [0, 10]], [[10, 90], [20, 10], [0, 10]])
    plain, mirrored = (
        dataclasses.replace(prediction(place, [score, 0.5, 0.5]), covariances=covariances)
        for place, score in zip(places, (0.9, 0.1), strict=True)
    )
    merged, warnings = merge(plain, mirrored, PAIRS)
    assert merged.points[0] == pytest.approx(np.array(places[0])) and warnings == [()]  # 80 px apart along no spread
    assert len(pairs_at_one_place(plain, 0, np.ones(3, dtype=bool), PAIRS)) == 0


def test_a_pair_that_changes_places_is_warned_of_and_taken_from_one_way():
    plain = prediction([[10, 10], [20, 10], [0, 10]], [0.9, 0.8, 0.2])
    mirrored = prediction([[10, 10], [0, 10], [20, 10]], [0.9, 0.3, 0.6])
    merged, ((warning,),) = merge(plain, mirrored, PAIRS)
    assert warning.startswith("left_eye and right_eye may be swapped")
    assert merged.points[0, 1:] == pytest.approx(np.array([[20, 10], [0, 10]]))  # 0.8 + 0.2 > 0.3 + 0.6


def test_a_keypoint_whose_partner_is_unknown_is_taken_from_the_plain_way():
    plain = prediction([[10, 10], [20, 10], [0, 10]], [0.9, 0.3, 0.0], known=(True, True, False))
    mirrored = prediction([[10, 10], [99, 99], [7, 7]], [0.9, 0.9, 0.9], known=(True, False, True))
    merged, warnings = merge(plain, mirrored, PAIRS)
    assert merged.points[0, 1] == pytest.approx([20, 10]) and merged.scores[0, 1] == pytest.approx(0.3)
    assert merged.known.tolist() == [True, True, False] and warnings == [()]


def test_a_name_with_a_side_and_no_partner_is_taken_from_the_plain_way():
    names = ("left_paw", "nose", "ear.R", "L-hip", "bottle")
    assert has_lone_side(names, ()).tolist() == [True, False, True, True, False]
    assert has_lone_side(("left_eye", "right_eye"), PAIRS).tolist() == [False, False]
    plain = prediction([[10, 10], [20, 10], [0, 10]], [0.5, 0.3, 0.3])
    mirrored = prediction([[12, 10], [22, 10], [2, 10]], [0.5, 0.9, 0.9])
    merged, _ = merge(plain, mirrored, ())
    assert merged.points[0] == pytest.approx(np.array([[11, 10], [20, 10], [0, 10]]))  # only the nose is merged


def test_a_pair_found_at_one_place_is_warned_of_unless_one_is_not_located():
    found = prediction([[10, 10], [20, 10], [20.1, 10]], [0.9, 0.8, 0.2])
    assert "at one place" in pairs_at_one_place(found, 0, np.array([True, True, True]), PAIRS)[0]
    assert pairs_at_one_place(found, 0, np.array([True, True, False]), PAIRS) == ()
    apart = prediction([[10, 10], [20, 10], [23, 10]], [0.9, 0.8, 0.2])
    assert pairs_at_one_place(apart, 0, np.array([True, True, True]), PAIRS) == ()


@pytest.fixture
def sided(match, marked_folder):
    """A pack of the test picture in which nose and tail are a pair."""
    return learn(match, marked_folder / "support.json", pairs=(("nose", "tail"),))


def test_looking_at_a_mirrored_picture_gives_the_mirrored_places_with_sides_exchanged(match, sided, picture):
    image = fit_image(picture(1), match.input_size)
    plain = match.detect(sided, [image])
    mirrored = match.detect(sided, [mirror(image)])
    back = look_mirrored(match, sided, [image])
    width = match.input_size
    expected = image.fit.to_image(np.array([width - 1, 0]) + mirrored.points[0] * [-1, 1])
    assert back.points[0] == pytest.approx(expected[[1, 0, 2]])
    assert np.abs(back.points[0, 2] - plain.points[0, 2]).max() < 20  # the paw has no side: found again
    assert back.covariances[0, 2, 0, 1] == pytest.approx(-mirrored.covariances[0, 2, 0, 1] * 1.0, rel=1e-6)


def test_flip_finds_the_points_too(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    for found in detect(match, pack, sorted((marked_folder / "queries").iterdir()), flip=True):
        assert np.abs(found.points - [[60, 80], [250, 150], [120, 200]]).max() < 17
        assert (np.linalg.eigvalsh(found.covariances) > 0).all()


def test_a_flipped_picture_gives_the_flipped_result(match, marked_folder, picture, tmp_path):
    from PIL import ImageOps

    ImageOps.mirror(picture(1)).save(tmp_path / "mirrored.png")
    pack = learn(match, marked_folder / "support.json", pairs=())
    one, other = detect(match, pack, [marked_folder / "queries" / "1.png", tmp_path / "mirrored.png"], flip=True)
    assert np.abs(one.points - ([319, 0] + other.points * [-1, 1])).max() < 0.1
    assert one.scores == pytest.approx(other.scores, abs=1e-4)


def marked(image, points, visible=(True, True, True)):
    return Example(image, NAMES, np.array(points, dtype=float), np.array(visible))


def test_a_mirrored_example_has_its_sides_exchanged_and_lone_sides_left_out(picture):
    image = fit_image(picture(), 320)
    example = marked(image, [[10, 20], [30, 40], [50, 60]], (True, True, False))
    turned = mirror_example(example, NAMES, PAIRS)
    assert turned.points_input.tolist() == [[309, 20], [269, 60], [289, 40]]
    assert turned.visible.tolist() == [True, False, True], "what was a left eye is a right one"
    assert np.array_equal(turned.image.pixels, image.pixels[:, ::-1])
    assert mirror_example(example, NAMES, (), one_way=("left_eye",)).visible.tolist() == [True, False, False]


def test_both_ways_are_the_mean_of_both_where_both_are_marked(match, picture):
    image = fit_image(picture(), match.input_size)
    example = marked(image, [[60, 80], [120, 200], [250, 150]], (True, True, True))
    plain, other = match.learn([example]), match.learn([mirror_example(example, NAMES, PAIRS)])
    both = learn_both_ways(match, [example], PAIRS)
    assert np.allclose(both.vectors, (plain.vectors + other.vectors) / 2) and both.mask.all()
    assert both.names == plain.names and not np.allclose(plain.vectors, other.vectors)


def test_a_side_that_one_shot_lacks_comes_from_its_partner_but_none_is_invented(match, picture):
    image = fit_image(picture(), match.input_size)
    points = [[60, 80], [120, 200], [250, 150]]
    one, two = marked(image, points, (True, True, False)), marked(image, points, (True, False, True))
    both = learn_both_ways(match, [one, two], PAIRS)
    assert both.mask.tolist() == [[True, True, True], [True, True, True]]
    assert np.allclose(both.vectors[0, 2], match.learn([mirror_example(one, NAMES, PAIRS)]).vectors[0, 2])
    alone = learn_both_ways(match, [one], PAIRS)
    assert alone.mask.tolist() == [[True, True, False]] and alone.known.tolist() == [True, True, False]


def test_both_ways_learn_alike_from_a_picture_and_its_mirror_image(match, picture):
    image = fit_image(picture(), match.input_size)
    example = marked(image, [[60, 80], [120, 200], [250, 150]])
    one, other = (learn_both_ways(match, [it], PAIRS) for it in (example, mirror_example(example, NAMES, PAIRS)))
    assert np.allclose(one.vectors, other.vectors, atol=1e-5)


def test_pictures_are_learnt_both_ways_where_there_are_pairs_unless_told_otherwise(match, marked_folder):
    file = marked_folder / "support.json"
    one_way = learn(match, file, pairs=())
    assert np.allclose(one_way.vectors, learn(match, file, pairs=(("nose", "tail"),), both_ways=False).vectors)
    sided = learn(match, file, pairs=(("nose", "tail"),))
    assert not np.allclose(one_way.vectors, sided.vectors)
    assert not np.allclose(one_way.vectors, learn(match, file, pairs=(), both_ways=True).vectors)


def test_a_name_whose_stated_partner_is_not_marked_is_learnt_one_way():
    names, stated = ("collar1", "cuff1", "cuff2"), (("collar1", "collar2"), ("cuff1", "cuff2"))
    assert lone_sides(names, (("cuff1", "cuff2"),), stated) == {"collar1"}
    assert lone_sides(("left_paw", "nose"), ()) == {"left_paw"}
