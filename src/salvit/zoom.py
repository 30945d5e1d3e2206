"""A second, nearer look (ours): where the keypoints were found at first, the picture is shown again, larger.

Crops that hold a small object, or several, leave few cells to each keypoint. Nothing but the first predictions (and,
for supports, the marks that were given) says where to look nearer, so no label of a query is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from salvit.data.augment import View
from salvit.data.frozen import FrozenList
from salvit.data.views import select_keypoints
from salvit.evaluate import (
    EncodedList,
    SaliencyOf,
    Track,
    fit_view,
    learn_episode,
    mark_view,
    rows_of,
    stated_ellipses,
    write_predictions,
)
from salvit.geometry import Window
from salvit.types import Detector, FloatArray

if TYPE_CHECKING:
    from salvit.transductive import TransductiveSettings

MARGIN = 0.25
"""The window goes beyond the hull of the points by this share of its longer side, on each side."""
LEAST = 0.25
"""The nearest look: the window's longer side is at least this share of the first one's."""


def zoom_window(points: FloatArray, outer: Window) -> Window:
    """The window of a second look: around points (N, 2), inside the window of the first look.

    Points beyond the first window are brought to its edge; without any point it is the first window itself.
    """
    if len(points) == 0:
        return outer
    low, high = np.array(outer[:2]), np.array(outer[2:])
    inside = np.clip(points, low, high)
    near, far = inside.min(0), inside.max(0)
    longer = float((far - near).max())
    least = LEAST * float((high - low).max())
    middle, half = (near + far) / 2, np.maximum((far - near) / 2 + MARGIN * longer, least / 2)
    x1, y1 = np.maximum(middle - half, low)
    x2, y2 = np.minimum(middle + half, high)
    return (float(x1), float(y1), float(x2), float(y2))


def predict_zoomed(
    detector: Detector,
    frozen: FrozenList,
    encoded: EncodedList,
    about: dict[str, Any],
    path: Path,
    *,
    saliency_of: SaliencyOf | None = None,
    transductive: TransductiveSettings | None = None,
    track: Track,
) -> None:
    """As :func:`salvit.evaluate.predict_list`, each query looked at twice; what is refined is the second look."""
    write_predictions(
        lambda index: _look_twice(detector, frozen, index, encoded, saliency_of, transductive),
        len(frozen),
        {"list_hash": frozen.hash, "model": detector.name, **stated_ellipses(detector), **about},
        path,
        track=track,
        timing={"encode_ms_per_image": round(1000 * encoded.seconds / max(len(encoded.rows), 1), 3)},
    )


def _look_twice(
    detector: Detector,
    frozen: FrozenList,
    index: int,
    encoded: EncodedList,
    saliency_of: SaliencyOf | None,
    transductive: TransductiveSettings | None,
) -> list[dict[str, Any]]:
    episode, pack, asked = learn_episode(detector, frozen, index, encoded)
    first, size = detector.locate(pack, asked), detector.input_size
    supports = [View(view.record, zoom_window(_marked(view, episode.names), view.window)) for view in episode.supports]
    queries = [
        View(view.record, zoom_window(found[first.known], view.window))
        for view, found in zip(episode.queries, first.points, strict=True)
    ]
    images = [fit_view(view, None, size, saliency_of) for view in supports]
    nearer = detector.learn([mark_view(view, episode, size) for view in supports], detector.encode(images))
    occlusions = episode.occlusions or (None,) * len(queries)
    shown = [fit_view(*pair, size, saliency_of) for pair in zip(queries, occlusions, strict=True)]
    seen = detector.encode(shown)
    if transductive is not None:
        from salvit.transductive import refine_pack

        nearer = refine_pack(detector, nearer, [seen], transductive)
    return rows_of(index, episode, detector.locate(nearer, seen))


def _marked(view: View, names: tuple[str, ...]) -> FloatArray:
    """The marks of a support (M, 2) that lie in its window."""
    points, visible = select_keypoints(view.record, names)
    x1, y1, x2, y2 = view.window
    inside = (points >= (x1 - 0.5, y1 - 0.5)).all(-1) & (points <= (x2 - 0.5, y2 - 0.5)).all(-1)
    kept: FloatArray = points[visible & inside]
    return kept
