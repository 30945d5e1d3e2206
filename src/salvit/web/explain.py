"""Maps that show why a point was found there: the detector's own, and what a clicked place looks like or looks at."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from salvit.geometry import Fit, is_inside
from salvit.model.detector import SalViT
from salvit.projects import stamps_of
from salvit.saliency import build_provider
from salvit.types import FittedImage
from salvit.web.engine import Engine
from salvit.web.models import OWN

_LARGEST_SIDE = 160


def explain_object(engine: Engine, number: int) -> dict[str, Any]:
    """All maps of one object.

    ``views``: by name, ``values`` (uint8, base64) of shape ``shape`` = (N, H, W), stretched between ``low`` and
    ``high``; N is 1 or one for each of ``keypoints``. ``window``: the part of the picture that they lie on, xyxy.
    """
    model = engine.prepare()
    target = engine.work.target(number)
    image = engine.fit(target)
    views = {}
    shots = engine.work.shots()
    keypoints: list[int] = []
    if shots:
        stamps = stamps_of(shots, model)
        pack = engine.learn(shots, sorted(stamps), stamps)
        keypoints = [int(name) for name in pack.names]
        views = {name: _view(values) for name, values in engine.detector.explain(pack, image).items()}
    if "saliency" not in views:
        views["saliency"] = _view(_saliency(engine, image))
    return {"object": number, "keypoints": keypoints, "window": _window(image.fit), "views": views}


def explain_place(engine: Engine, number: int, x: float, y: float) -> dict[str, Any]:
    """Maps from one place of an object: ``attention`` (where its patch looks) and ``alike`` (what resembles it)."""
    engine.prepare()
    target = engine.work.target(number)
    encoded = engine.encode([target])
    fit = encoded.fits[0]
    at = fit.to_input([x, y])
    if not is_inside(at, (fit.size, fit.size)):
        raise ValueError(f"({x:g}, {y:g}) lies outside the part of the picture that is looked at; click inside")
    height, width = encoded.features.shape[-2:]
    column = min(width - 1, int((at[0] + 0.5) / fit.size * width))
    row = min(height - 1, int((at[1] + 0.5) / fit.size * height))
    tokens = F.normalize(encoded.features[0], dim=0)  # (D, H, W)
    alike = torch.einsum("d,dhw->hw", tokens[:, row, column], tokens).clamp(min=0).cpu().numpy()
    views = {"alike": _view(alike)}
    attention = _attention(engine, engine.fit(target), row * width + column)
    if attention is not None:
        views["attention"] = _view(attention)
    return {"object": number, "keypoints": [], "window": _window(fit), "views": views}


def _attention(engine: Engine, image: FittedImage, patch: int) -> npt.NDArray[np.float32] | None:
    detector = engine.detector
    if not isinstance(detector, SalViT):
        return None
    with torch.no_grad():
        attention = detector.encoder.last_attention(detector.prepare(*detector.tensors([image])))
    if attention is None:
        return None
    values: npt.NDArray[np.float32] = attention[0, patch].unflatten(0, detector.encoder.grid_hw).float().cpu().numpy()
    return values


def _saliency(engine: Engine, image: FittedImage) -> npt.NDArray[np.float32]:
    """The chosen source's map of the picture, for models that use none of their own; 0 in the padding."""
    (x, y), (height, width) = image.fit.pad_xy, image.fit.inner_hw
    plane: npt.NDArray[np.float32] = np.zeros(image.pixels.shape[:2], dtype=np.float32)
    inner = np.ascontiguousarray(image.pixels[y : y + height, x : x + width])
    name = engine.project.settings()["saliency"]
    plane[y : y + height, x : x + width] = build_provider("learned" if name == OWN else name)(inner)
    step = -(-plane.shape[0] // _LARGEST_SIDE)
    return plane[step // 2 :: step, step // 2 :: step]


def _view(values: npt.NDArray[np.float32]) -> dict[str, Any]:
    maps = np.nan_to_num(values[None] if values.ndim == 2 else values)
    low, high = float(maps.min()), float(maps.max())
    stretched = np.round((maps - low) / max(high - low, 1e-12) * 255).astype(np.uint8)
    return {
        "shape": list(maps.shape),
        "low": low,
        "high": high,
        "values": base64.b64encode(stretched.tobytes()).decode(),
    }


def _window(fit: Fit) -> list[float]:
    """The square input, padding included, in edge coordinates of the picture."""
    corners = fit.to_image([[-0.5, -0.5], [fit.size - 0.5, fit.size - 0.5]]) + 0.5
    return [float(value) for value in corners.flatten()]
