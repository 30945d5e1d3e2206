"""What loading episodes costs: episodes per second by number of workers, and the work on an image beside its warp."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from salvit.data.augment import AugmentSettings
from salvit.data.creatures import write_creatures
from salvit.data.datasets import read_dataset
from salvit.data.episodes import EpisodePool, EpisodeSettings
from salvit.data.images import read_image
from salvit.data.loading import LoadSettings, iterate_episodes, load_episode
from salvit.data.splits import make_problem
from salvit.geometry import affine_of_fit, affine_turn, fit_square, whole_window
from salvit.types import Record

SIZE, SPECIES, PICTURES, WARM, EPISODES, ROUNDS = 384, ("zebra", "fox", "deer", "bear"), 24, 4, 24, 40
IMAGES_HW = (288, 384)
"""The size of most images of Animal Pose as we hold it."""


def saliency_of(record: Record) -> npt.NDArray[np.float32]:
    """A made-up map: the record's box is salient."""
    height, width = record.image_hw or IMAGES_HW
    saliency = np.zeros((height, width), dtype=np.float32)
    x1, y1, x2, y2 = (round(side) for side in record.box or whole_window((height, width)))
    saliency[max(0, y1) : y2, max(0, x1) : x2] = 1.0
    return saliency


def run() -> dict[str, float]:
    """Episodes per second with 0, 1 and 2 workers, and ``rest_over_warp``.

    Images are drawn creatures of 384×288 pixels; an episode has 1 support, 5 queries, augmentation, saliency, auxiliary
    keypoints and training masks. ``rest_over_warp`` is the time of all work on an image (drawing its place, decoding,
    saliency, warp, points, masks) over one bilinear affine of its RGB pixels to 384×384.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_creatures(Path(folder), SPECIES, PICTURES, 0, size_hw=IMAGES_HW)
        problem = make_problem(read_dataset("creatures", Path(folder)), SPECIES[0])
        settings = EpisodeSettings(augment=AugmentSettings(), auxiliary="default")
        pool = EpisodePool(problem, "train", "base", settings, purpose="train", seed=0)
        load = LoadSettings(size=SIZE, saliency_of=saliency_of, mask_patch=32)
        figures = _measure_image(pool, load)
        for workers in (0, 1, 2):
            figures[f"episodes_per_second_{workers}"] = _measure_rate(pool, load, workers)
    return figures


def _measure_image(pool: EpisodePool, load: LoadSettings) -> dict[str, float]:
    """All work on an image and a bare warp, in turn; time of the processor, so that other programs do not count."""
    work, warp, decode = [], [], []
    for index in range(ROUNDS):
        start = time.process_time()
        episode = pool.draw(index)
        load_episode(episode, load)
        num = len(episode.supports) + len(episode.queries)
        work.append((time.process_time() - start) / num)
        for view in episode.queries:
            start = time.process_time()
            image = read_image(view.record.path)
            decode.append(time.process_time() - start)
            image_hw = (image.height, image.width)
            change = affine_turn(10.0, image_hw).then(affine_of_fit(fit_square(whole_window(image_hw), SIZE)))
            values = change.inverse().values
            start = time.process_time()
            image.transform((SIZE, SIZE), Image.Transform.AFFINE, values, Image.Resampling.BILINEAR)
            warp.append(time.process_time() - start)
    all_work, bare_warp = statistics.median(work), statistics.median(warp)
    return {
        "rest_over_warp": all_work / bare_warp,
        "image_ms": 1000 * all_work,
        "warp_ms": 1000 * bare_warp,
        "decode_ms": 1000 * statistics.median(decode),
    }


def _measure_rate(pool: EpisodePool, load: LoadSettings, workers: int) -> float:
    """Episodes per second after the workers have started."""
    episodes = iterate_episodes(pool, load, workers=workers, stop=WARM + EPISODES)
    for _ in range(WARM):
        next(episodes)
    start = time.perf_counter()
    count = sum(1 for _ in episodes)
    return count / (time.perf_counter() - start)
