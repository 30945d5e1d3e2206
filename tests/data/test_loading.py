import hashlib

import numpy as np
import pytest

from salvit.bench.data import saliency_of
from salvit.data.augment import AugmentSettings
from salvit.data.episodes import EpisodePool, EpisodeSettings
from salvit.data.images import MEAN_COLOUR
from salvit.data.loading import LoadSettings, iterate_episodes, load_episode

LOAD = LoadSettings(size=96, saliency_of=saliency_of, mask_patch=32)


@pytest.fixture
def pool(cow_problem):
    settings = EpisodeSettings(shots=(1, 3), queries=4, augment=AugmentSettings(colour=0.2), auxiliary="random")
    return EpisodePool(cow_problem, "train", "base", settings, purpose="train", seed=11)


def fingerprint(loaded):
    """Ids, crops, points and pixels of an episode in one word."""
    digest = hashlib.sha256(repr([view.window for view in loaded.episode.supports + loaded.episode.queries]).encode())
    for images in (loaded.support, loaded.query):
        digest.update(repr(images.ids).encode())
        for array in (images.pixels, images.points, images.visible, images.saliency, images.masks):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(images.auxiliary_points.tobytes())
    return loaded.index, digest.hexdigest()


def test_0_1_and_2_workers_give_the_same_ids_crops_and_pixels(pool):
    runs = [[fingerprint(e) for e in iterate_episodes(pool, LOAD, workers=workers, stop=7)] for workers in (0, 1, 2)]
    assert runs[0] == runs[1] == runs[2]
    assert [index for index, _ in runs[0]] == list(range(7)) and len({word for _, word in runs[0]}) == 7


def test_a_run_resumes_at_any_episode(pool):
    whole = [fingerprint(e) for e in iterate_episodes(pool, LOAD, stop=6)]
    assert [fingerprint(e) for e in iterate_episodes(pool, LOAD, start=4, stop=6)] == whole[4:]


def test_an_endless_run_can_be_left(pool):
    episodes = iterate_episodes(pool, LOAD, workers=1)
    assert [next(episodes).index for _ in range(3)] == [0, 1, 2]
    episodes.close()


def test_an_error_in_a_worker_reaches_the_caller(pool, cow_problem):
    for record in cow_problem.records["train"]:
        record.path.unlink(missing_ok=True)
    with pytest.raises(OSError, match="does not exist"):
        list(iterate_episodes(pool, LOAD, workers=1, stop=1))


def test_arrays_have_the_shapes_that_they_promise(pool):
    loaded = load_episode(pool.draw(0), LOAD)
    shots = len(loaded.episode.supports)
    assert loaded.support.pixels.shape == (shots, 96, 96, 3) and loaded.query.pixels.shape == (4, 96, 96, 3)
    assert loaded.query.points.shape == (4, 11, 2) and loaded.query.visible.shape == (4, 11)
    assert loaded.query.auxiliary_points.shape == (4, 18, 2) and loaded.query.boxes.shape == (4, 4)
    assert loaded.query.saliency.shape == (4, 96, 96) and loaded.query.masks.shape == (4, 3, 3)
    assert loaded.valid.shape == (4, 11) and loaded.auxiliary_valid.shape == (4, 18)


def test_a_keypoint_counts_if_the_query_and_some_support_show_it(pool):
    loaded = load_episode(pool.draw(0), LOAD)
    known = loaded.support.visible.any(0)
    assert (loaded.valid == (loaded.query.visible & known)).all()
    assert not loaded.valid[:, ~known].any()


def test_masked_views_are_grey_where_the_masks_say(pool):
    for index in range(8):
        images = load_episode(pool.draw(index), LOAD).query
        hidden, dimmed = images.masked()
        is_hidden = images.masks.repeat(32, 1).repeat(32, 2)
        assert (hidden[is_hidden] == MEAN_COLOUR).all() and (dimmed[is_hidden] == 0).all()
        assert (hidden[~is_hidden] == images.pixels[~is_hidden]).all()


def test_masks_without_saliency_and_bad_counts_are_errors(pool):
    with pytest.raises(ValueError, match="need saliency maps"):
        load_episode(pool.draw(0), LoadSettings(size=96, mask_patch=32))
    with pytest.raises(ValueError, match="load the episode with `mask_patch`"):
        load_episode(pool.draw(0), LoadSettings(size=96)).query.masked()
    with pytest.raises(ValueError, match="counts ≥ 0"):
        next(iterate_episodes(pool, LOAD, workers=-1))
