"""A second, nearer look (ours): where the keypoints were found at first, the picture is shown again, larger.

A picture that holds a small object leaves few cells to each keypoint. A pack for it knows its examples twice: as they
are, and near (:func:`with_nearer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from salvit.data.crops import zoom_window
from salvit.data.images import MAX_PIXELS, read_and_fit
from salvit.types import Example, FittedImage, FloatArray, Pack

_PREFIX = "zoom."
NEARER = _PREFIX + "vectors"
"""Where a pack keeps what the near examples taught: (K, N, D); what else they taught has the same prefix."""
Prior = Callable[[FittedImage], FittedImage]


def nearer(image: FittedImage, points: FloatArray, prior: Prior, *, max_pixels: int = MAX_PIXELS) -> FittedImage:
    """The same picture, shown near these points (N, 2) of it."""
    window = zoom_window(points, image.fit.window)
    near = read_and_fit(Path(image.source), image.fit.size, window, max_pixels=max_pixels, margin=0.0)
    return prior(near)


def with_nearer(
    learn: Callable[[Sequence[Example]], Pack], pack: Pack, examples: Sequence[Example], prior: Prior
) -> Pack:
    """The pack, and what its examples teach, in the way in which it was learnt, when looked at near their marks."""
    near = []
    for example in examples:
        points = example.image.fit.to_image(example.points_input)
        image = nearer(example.image, points[example.visible], prior)
        near.append(Example(image, example.names, image.fit.to_input(points), example.visible))
    learnt = learn(near)
    assert learnt.names == pack.names and bool((learnt.mask == pack.mask).all())
    more = {_PREFIX + name: tensor for name, tensor in learnt.extra.items()}
    return replace(pack, extra={**pack.extra, **more, NEARER: learnt.vectors})


def nearer_pack(pack: Pack) -> Pack:
    """The pack to look with the second time; one that was not made for it is an error."""
    if NEARER not in pack.extra:
        raise ValueError(
            "the pack was not made for a second look; make it again with `salvit learn --zoom`, or leave out --zoom"
        )
    near = {
        name.removeprefix(_PREFIX): tensor
        for name, tensor in pack.extra.items()
        if name.startswith(_PREFIX) and name != NEARER
    }
    return replace(pack, vectors=pack.extra[NEARER], extra={**pack.extra, **near})
