"""Evaluation with a second, nearer look (:mod:`salvit.zoom`).

Nothing but the first predictions (and, for supports, the marks that were given) says where to look nearer, so no label
of a query is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from salvit.data.augment import View
from salvit.data.crops import zoom_window
from salvit.data.frozen import FrozenList
from salvit.data.views import select_keypoints
from salvit.encoded_lists import EncodedList, SaliencyOf, Track, fit_view
from salvit.evaluate import learn_episode, mark_view, rows_of, stated_ellipses, write_predictions
from salvit.geometry import Window
from salvit.types import Detector, Encoded, FloatArray

if TYPE_CHECKING:
    from salvit.transductive import TransductiveSettings


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
    near = _NearSupports(detector, saliency_of)
    write_predictions(
        lambda index: _look_twice(detector, frozen, index, encoded, near, saliency_of, transductive),
        len(frozen),
        {"list_hash": frozen.hash, "model": detector.name, **stated_ellipses(detector), **about},
        path,
        track=track,
        timing=encoded.timing,
    )


class _NearSupports:
    """Supports near their marks, encoded once: a record is shown in the same way whenever the same points are asked."""

    def __init__(self, detector: Detector, saliency_of: SaliencyOf | None) -> None:
        self._detector, self._saliency_of = detector, saliency_of
        self._known: dict[tuple[str, Window], Encoded] = {}

    def encode(self, views: Sequence[View]) -> Encoded:
        """The views as one batch; features are kept as float16, as in a whole list."""
        import torch

        size = self._detector.input_size
        for view in views:
            if (view.record.id, view.window) not in self._known:
                one = self._detector.encode([fit_view(view, None, size, self._saliency_of)])
                self._known[view.record.id, view.window] = replace(one, features=one.features.half(), saliency=None)
        found = [self._known[view.record.id, view.window] for view in views]
        return Encoded(torch.cat([one.features for one in found]).float(), tuple(one.fits[0] for one in found))


def _look_twice(
    detector: Detector,
    frozen: FrozenList,
    index: int,
    encoded: EncodedList,
    near: _NearSupports,
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
    nearer = detector.learn([mark_view(view, episode, size) for view in supports], near.encode(supports))
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
