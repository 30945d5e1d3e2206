import numpy as np
import pytest
import torch

from salvit.baselines.match import covariance_of_map, peak_of_map, sample_features
from salvit.data.images import fit_image
from salvit.types import Example


def test_features_between_two_cells_are_their_mean():
    features = torch.tensor([[[0.0, 10.0], [20.0, 30.0]]])  # (1, 2, 2), stride 16: cell centres at 7.5 and 23.5
    points = torch.tensor([[7.5, 7.5], [15.5, 7.5], [15.5, 15.5], [0.0, 0.0]])
    assert sample_features(features, points, 16)[:, 0].tolist() == [0.0, 5.0, 15.0, 0.0]


def test_the_peak_of_a_parabola_is_found_between_cells():
    x = torch.arange(7.0)
    line = 1 - 0.01 * (x - 3.3) ** 2
    column = 1 - 0.01 * (x - 1.8) ** 2
    found = peak_of_map((line[None, :] + column[:, None])[None, None])[0, 0]
    assert torch.allclose(found, torch.tensor([3.3, 1.8]), atol=1e-3)


def test_a_peak_on_the_border_stays_on_its_cell():
    maps = torch.zeros(1, 1, 5, 5)
    maps[0, 0, 0, 4] = 1.0
    assert peak_of_map(maps)[0, 0].tolist() == [4.0, 0.0]


def test_peaks_and_covariances_are_mirror_exact():
    maps = torch.rand(2, 3, 6, 9)
    peak, mirrored = peak_of_map(maps), peak_of_map(maps.flip(-1))
    assert torch.allclose(mirrored[..., 0], 8 - peak[..., 0], atol=1e-5)
    one, other = covariance_of_map(maps, peak), covariance_of_map(maps.flip(-1), mirrored)
    assert torch.allclose(one[..., 0, 1], -other[..., 0, 1], atol=1e-3) and torch.allclose(
        one[..., 0, 0], other[..., 0, 0], atol=1e-3
    )


def test_the_covariance_of_two_equal_cells_is_worked_by_hand():
    probability = torch.zeros(1, 1, 3, 3)
    probability[0, 0, 1, 0] = probability[0, 0, 1, 2] = 0.5  # one cell left and right of the centre: variance 1 in x
    found = covariance_of_map(probability, torch.tensor([[[1.0, 1.0]]]))[0, 0]
    assert torch.allclose(found, torch.tensor([[1 + 1 / 12, 0.0], [0.0, 1 / 12]]))


@pytest.fixture
def example(match, picture):
    image = fit_image(picture(), match.input_size)
    points = image.fit.to_input([[60.0, 80.0], [250.0, 150.0], [120.0, 200.0]])
    return Example(image, ("nose", "tail", "paw"), points, np.ones(3, dtype=bool))


def test_the_support_given_as_query_is_found_within_one_cell(match, example):
    found = match.detect(match.learn([example]), [example.image])
    distance = np.abs(example.image.fit.to_input(found.points[0]) - example.points_input).max()
    assert distance < 16 and found.scores.min() > 0.9


def test_a_keypoint_that_no_example_has_is_unknown(match, example):
    partly = Example(example.image, example.names, example.points_input, np.array([True, False, True]))
    found = match.detect(match.learn([partly]), [example.image])
    assert found.known.tolist() == [True, False, True] and np.isfinite(found.points).all()


def test_the_order_of_examples_does_not_matter(match, example, picture):
    image = fit_image(picture(5), match.input_size)
    other = Example(image, ("paw", "nose"), image.fit.to_input([[120.0, 200.0], [60.0, 80.0]]), np.ones(2, dtype=bool))
    query = [fit_image(picture(6), match.input_size)]
    one = match.detect(match.learn([example, other]), query)
    two = match.detect(match.learn([other, example]), query)
    order = [two.names.index(name) for name in one.names]
    assert np.allclose(one.points, two.points[:, order], atol=1e-3)


def test_covariances_are_symmetric_and_positive(match, example, picture):
    found = match.detect(match.learn([example]), [fit_image(picture(9), match.input_size)])
    assert (np.linalg.eigvalsh(found.covariances) > 0).all()


def test_learning_nothing_is_an_error(match):
    with pytest.raises(ValueError, match="no keypoint is marked"):
        match.learn([])


def test_explaining_gives_a_similarity_map_for_each_keypoint(match, example):
    maps = match.explain(match.learn([example]), example.image)["similarity"]
    assert maps.shape == (3, 20, 20) and maps.max() <= 1.001


@pytest.mark.parametrize("count", [1, 40])
def test_any_number_of_keypoints_is_found_but_the_one_that_no_example_has(match, example, count):
    names = tuple(f"point {n}" for n in range(count))
    visible = np.ones(count, dtype=bool)
    visible[0] = count == 1
    points = np.random.default_rng(0).uniform(20, 300, (count, 2))
    found = match.detect(match.learn([Example(example.image, names, points, visible)]), [example.image])
    assert found.points.shape == (1, count, 2) and np.isfinite(found.points).all()
    assert found.known.tolist() == visible.tolist()
    assert (np.linalg.eigvalsh(found.covariances[:, visible]) > 0).all()
