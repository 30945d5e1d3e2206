import multiprocessing
import os

import numpy as np
import pytest
from PIL import Image

from salvit.saliency.cache import CachedProvider, clear_cache, map_key, trim_cache
from salvit.saliency.spectral_residual import SpectralResidual


class Counting:
    name = "counting"

    def __init__(self, settings="a"):
        self.settings = settings
        self.calls = 0

    def __call__(self, picture, source=None):
        self.calls += 1
        return np.full(picture.shape[:2], 0.3, dtype=np.float32)


@pytest.fixture
def picture():
    return np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)


def test_a_map_is_computed_once_and_read_back_the_same(tmp_path, picture):
    provider = Counting()
    first, second = CachedProvider(provider, tmp_path), CachedProvider(provider, tmp_path)
    assert (first(picture) == second(picture)).all()
    assert provider.calls == 1


def test_other_pixels_settings_and_shapes_are_other_entries(picture):
    changed = picture.copy()
    changed[0, 0, 0] ^= 1
    keys = {
        map_key(picture, "rbd", "a"),
        map_key(changed, "rbd", "a"),
        map_key(picture, "rbd", "b"),
        map_key(picture, "learned", "a"),
        map_key(picture.reshape(30, 20, 3), "rbd", "a"),
    }
    assert len(keys) == 5


def test_a_broken_entry_is_made_anew(tmp_path, picture):
    provider = Counting()
    cached = CachedProvider(provider, tmp_path)
    cached(picture)
    next(tmp_path.glob("*.png")).write_bytes(b"half a fi")
    assert cached(picture)[0, 0] == pytest.approx(0.3, abs=0.01)
    assert provider.calls == 2


def test_a_failed_write_leaves_nothing_behind(tmp_path, picture, monkeypatch):
    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        CachedProvider(Counting(), tmp_path)(picture)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_unused_go_first_when_the_limit_is_reached(tmp_path):
    for index in range(4):
        path = tmp_path / f"{index}.png"
        path.write_bytes(b"x" * 1000)
        os.utime(path, (1000 + index, 1000 + index))
    os.utime(tmp_path / "0.png", (2000, 2000))  # the oldest was used again
    assert trim_cache(tmp_path, limit_mb=0.0025) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.png", "3.png"]


def test_the_provider_keeps_its_folder_under_the_limit(tmp_path):
    cached = CachedProvider(SpectralResidual(), tmp_path, limit_mb=0.0)
    for seed in range(66):
        cached(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    assert len(list(tmp_path.glob("*.png"))) <= 64


def test_clearing_removes_maps_and_leftovers_and_nothing_else(tmp_path, picture):
    CachedProvider(Counting(), tmp_path)(picture)
    (tmp_path / "left.part").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("mine")
    count, size = clear_cache(tmp_path)
    assert count == 1
    assert size > 0
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_clearing_a_folder_that_is_not_there_is_no_error(tmp_path):
    assert clear_cache(tmp_path / "none") == (0, 0.0)


def _fill(folder, results):
    cached = CachedProvider(SpectralResidual(), folder)
    pictures = [np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8) for seed in range(20)]
    results.put([float(cached(picture).sum()) for picture in pictures])


def test_several_processes_may_share_a_folder(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_fill, args=(tmp_path, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    sums = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sums[0] == sums[1] == sums[2]
    assert len(list(tmp_path.glob("*.png"))) == 20
    assert not list(tmp_path.glob("*.part"))
    for path in tmp_path.glob("*.png"):
        Image.open(path).verify()
