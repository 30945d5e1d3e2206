"""Detections as ``supervision.KeyPoints``, for its annotators, trackers and metrics."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from salvit.formats.targets import require
from salvit.types import Detection


def to_supervision(detections: Sequence[Detection]) -> Any:
    """The objects found in one picture as one ``supervision.KeyPoints``.

    Points, scores and ``visible`` (False where the detector abstains) are in its own fields; ``data`` holds
    ``covariance`` (objects, keypoints, 2, 2), which its ellipse annotators draw, ``presence`` and ``keypoint_names``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that OpenCV is absent, which nothing here needs
        supervision = require("supervision", "supervision.KeyPoints")
    if not detections:
        return supervision.KeyPoints.empty()
    if len({detection.path for detection in detections}) > 1 or len({found.names for found in detections}) > 1:
        raise ValueError("expected detections of one picture and one pack; call it once for each picture")
    located = np.stack([found.located for found in detections])  # (objects, keypoints)
    scores = np.stack([found.scores for found in detections]) * located
    return supervision.KeyPoints(
        xy=np.stack([found.points for found in detections]).astype(np.float32),
        keypoint_confidence=scores.astype(np.float32),
        detection_confidence=(scores.sum(1) / located.sum(1).clip(min=1)).astype(np.float32),
        visible=located,
        data={
            "covariance": np.stack([found.covariances for found in detections]).astype(np.float32),
            "presence": np.stack([found.presence for found in detections]).astype(np.float32),
            "keypoint_names": np.array([found.names for found in detections]),
        },
    )
