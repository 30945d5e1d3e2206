"""Painting solid parts onto a picture: soft form shading, coats with patterns and fur, eyes, and who hides whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from salvit.data.creature_bodies import Array, Body, Eye, Landmark, Part
from salvit.data.creature_coats import coat_polygons, fur_strokes
from salvit.data.creature_species import Palette
from salvit.data.creature_surface import Camera, Surface

Plane = npt.NDArray[np.float32]
"""(h, w), or (3, h, w) for colours: planes first, because NumPy is several times faster on them."""
Patch = tuple[int, int, int, int]
"""A rectangle of whole pixels, xyxy, the end not included."""

COARSE = 0.5  # what is blurred anyway is drawn at half size
SHADOW = np.array([0.56, 0.54, 0.68], dtype=np.float32).reshape(3, 1, 1)
LIGHT = np.array([1.16, 1.13, 1.05], dtype=np.float32).reshape(3, 1, 1)
FAR = np.array([0.7, 0.7, 0.78], dtype=np.float32).reshape(3, 1, 1)
TINY = 3.0  # radius in pixels below which a part gets no shading and throws no shadow
DARKEST = 60
SHADE_STEPS = ((0.84, 0.13, 120), (0.62, 0.26, 178), (0.38, 0.38, 228))
"""Nested tubes that make up the form shading: share of the radius, shift towards the light, lightness."""
TOWARDS_LIGHT = np.array([-0.45, -0.89])
DOWN = np.array([0.0, 1.0])


class Painter:
    """A canvas that takes parts from back to front and remembers which of them covers which pixel."""

    def __init__(self, size_hw: tuple[int, int], camera: Camera, palette: Palette, coat: str, seed: int) -> None:
        self.size_hw, self.camera, self.palette, self.coat = size_hw, camera, palette, coat
        self.rgb: Plane = np.zeros((3, *size_hw), dtype=np.float32)
        self.cover: Plane = np.zeros(size_hw, dtype=np.float32)
        self._rng = np.random.default_rng(seed)
        self._painted: list[tuple[str, Patch, Plane]] = []

    def paint(self, body: Body) -> None:
        """Paint all parts and the eyes."""
        face = _face(body)
        for part in sorted(body.parts, key=lambda part: part.layer):
            self._paint_part(part)
            if part is face:
                for eye in body.eyes:
                    self._paint_eye(eye)

    def is_seen(self, landmark: Landmark) -> bool:
        """Whether nothing of the creature itself hides a landmark."""
        if landmark.normal is not None and self.camera.towards_viewer(landmark.normal) < 0.08:
            return False
        x, y = np.round(self.camera.to_pixels(landmark.point)).astype(int)
        for group, (x1, y1, x2, y2), alpha in reversed(self._painted):
            if x1 <= x < x2 and y1 <= y < y2 and alpha[y - y1, x - x1] > 0.5:
                return group in landmark.groups.split()
        return False

    def onto(self, background: Image.Image) -> Image.Image:
        """The background with the creature on it."""
        rows, columns = np.flatnonzero(self.cover.any(1)), np.flatnonzero(self.cover.any(0))
        part = np.s_[..., rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        colours = np.minimum(self.rgb[part] + 0.5, 255).astype(np.uint8)
        picture = Image.merge("RGB", [Image.fromarray(plane) for plane in colours])
        image = background.copy()
        alpha = Image.fromarray((self.cover[part] * 255).astype(np.uint8))
        image.paste(picture, (int(columns[0]), int(rows[0])), alpha)
        return image

    def _paint_part(self, part: Part) -> None:
        centres = self.camera.to_pixels(part.spine)
        radii = part.radii * self.camera.scale
        patch = self._patch(centres, radii)
        if patch is None:
            return
        outline = self._outline(centres, radii, patch)
        alpha = _plane(outline)
        base = self._colours(part, centres, radii, patch)
        painted = base * (SHADOW + (LIGHT - SHADOW) * self._shade(outline, centres, radii, patch))
        bevel = max(1, round(self.camera.scale / 130))
        painted[:, bevel:, bevel:] += 26 * np.maximum(alpha[bevel:, bevel:] - alpha[:-bevel, :-bevel], 0)
        if part.layer < -1.5:
            painted *= FAR
        self._painted.append((part.group, patch, alpha))
        x1, y1, x2, y2 = patch
        below, cover = self.rgb[:, y1:y2, x1:x2], self.cover[y1:y2, x1:x2]
        ramp = self._ramp(centres, radii, patch, part.fade) if part.fade > 0 else np.float32(1)
        alpha = alpha * ramp
        if part.layer >= -1.5 and (not len(radii) or float(radii.max()) >= TINY):
            below *= 1.0 - self._gloom(outline) * ramp * (1.0 - alpha)
        below += (painted - below) * alpha
        np.maximum(cover, alpha, out=cover)

    def _gloom(self, outline: Image.Image) -> Plane:
        """The soft shadow that a part throws on what lies behind it."""
        reach = max(1.0, self.camera.scale * 0.02)
        soft = outline.reduce(2).filter(ImageFilter.BoxBlur(reach / 2)).resize(outline.size, Image.Resampling.BILINEAR)
        return np.roll(_plane(soft), round(reach), 0) * np.float32(0.38)

    def _patch(self, centres: Array, radii: Array) -> Patch | None:
        height, width = self.size_hw
        margin = (float(radii.max()) if len(radii) else 0.0) + 5
        low, high = np.floor(centres.min(0) - margin).astype(int), np.ceil(centres.max(0) + margin).astype(int)
        x1, y1, x2, y2 = max(0, low[0]), max(0, low[1]), min(width, high[0] + 1), min(height, high[1] + 1)
        return (int(x1), int(y1), int(x2), int(y2)) if x1 < x2 and y1 < y2 else None

    def _outline(self, centres: Array, radii: Array, patch: Patch) -> Image.Image:
        """The part's silhouette, drawn two or three times as large and averaged down to smooth its edge."""
        fine = 3 if (patch[2] - patch[0]) * (patch[3] - patch[1]) < 40_000 else 2
        picture, draw = _blank(patch, fine)
        if len(radii):
            _draw_tube(draw, _in_patch(centres, patch, fine), radii * fine, 255)
        else:
            draw.polygon(_flat(_in_patch(centres, patch, fine)), fill=255)
        return picture.reduce(fine)

    def _colours(self, part: Part, centres: Array, radii: Array, patch: Patch) -> Plane:
        """Colour of each pixel before shading (3, h, w): coat, underside, tip, pattern, fur."""
        base = np.empty((3, patch[3] - patch[1], patch[2] - patch[0]), dtype=np.float32)
        base[:] = self._tint(part.tint)
        if not len(radii):
            _mix(base, self._tint(part.tint) * np.float32(0.72), self._rays(centres, patch))
            return base
        if part.patterned and self.coat == "saddle":
            saddle = self._soft_tube(centres - DOWN * radii[:, None] * 0.75, radii * 0.62, patch, 0.3)
            _mix(base, self._tint("pattern"), saddle * np.float32(0.9))
        if part.belly:
            under = self._soft_tube(centres + DOWN * radii[:, None] * 0.76, radii * 0.7, patch, 0.24)
            _mix(base, self._tint("belly"), under * np.float32(part.belly))
        if part.tip:
            first = int(part.tip_from * (len(radii) - 1))
            _mix(base, self._tint(part.tip), self._soft_tube(centres[first:], radii[first:] * 1.1, patch, 0.35))
        has_pattern = part.patterned > 0 and self.coat not in ("plain", "saddle")
        is_furry = part.tint == "coat" and float(radii.max()) > TINY
        if has_pattern or is_furry:
            surface = Surface(part)
            if has_pattern:
                _mix(base, self._tint("pattern"), self._pattern(part, surface, patch))
            if is_furry:
                base *= self._fur(surface, patch)
        return base

    def _tint(self, name: str) -> Plane:
        return np.array(getattr(self.palette, name), dtype=np.float32).reshape(3, 1, 1)

    def _pattern(self, part: Part, surface: Surface, patch: Patch) -> Plane:
        picture, draw = _blank(patch, 2)
        for polygon, strength in coat_polygons(self.coat, part, surface, self.camera, self._rng):
            draw.polygon(_flat(_in_patch(polygon, patch, 2)), fill=strength)
        return _plane(picture.reduce(2))

    def _fur(self, surface: Surface, patch: Patch) -> Plane:
        """Factors about 1 that look like strokes of fur."""
        picture, draw = _blank(patch, 2, 128)
        strokes, is_light = fur_strokes(surface, self.camera, self._rng)
        wide = max(1, round(self.camera.scale / 110))
        for stroke, light in zip(_in_patch(strokes, patch, 2).reshape(-1, 4).tolist(), is_light, strict=True):
            draw.line(stroke, fill=172 if light else 88, width=wide)
        return np.float32(0.78) + np.float32(0.44) * _plane(picture.reduce(2))

    def _rays(self, outline: Array, patch: Patch) -> Plane:
        """Rays of a fin or a feather, from its root to its edge."""
        picture, draw = _blank(patch, 2)
        root = (outline[0] + outline[-len(outline) // 8]) / 2
        x, y = _in_patch(root, patch, 2)
        for end in _in_patch(outline[:: max(1, len(outline) // 26)], patch, 2).tolist():
            draw.line((x, y, *end), fill=130, width=2)
        return _plane(picture.reduce(2))

    def _shade(self, outline: Image.Image, centres: Array, radii: Array, patch: Patch) -> Plane:
        """(h, w), or one value for all, from 0 in shadow to 1 in light."""
        if not len(radii):
            blur = ImageFilter.BoxBlur(self.camera.scale * 0.04)
            return np.float32(0.3) + np.float32(0.45) * _plane(outline.filter(blur))
        if float(radii.max()) < TINY:
            return np.full((1, 1), 0.6, dtype=np.float32)
        picture, draw = _blank(patch, COARSE, DARKEST)
        every = 2 if len(radii) > 16 else 1
        for share, shift, level in SHADE_STEPS:
            moved = centres + TOWARDS_LIGHT * radii[:, None] * shift
            _draw_tube(draw, _in_patch(moved, patch, COARSE)[::every], radii[::every] * share * COARSE, level)
        return _plane(_softened(picture, float(np.median(radii)) * 0.2 * COARSE, outline.size))

    def _soft_tube(self, centres: Array, radii: Array, patch: Patch, softness: float) -> Plane:
        picture, draw = _blank(patch, COARSE)
        every = 2 if len(radii) > 16 else 1
        _draw_tube(draw, _in_patch(centres, patch, COARSE)[::every], radii[::every] * COARSE, 255)
        size = (patch[2] - patch[0], patch[3] - patch[1])
        return _plane(_softened(picture, float(np.median(radii)) * softness * COARSE, size))

    def _ramp(self, centres: Array, radii: Array, patch: Patch, fade: float) -> Plane:
        """From 0 at the start of a part to 1 where its fade ends."""
        picture, draw = _blank(patch, COARSE)
        places = _in_patch(centres, patch, COARSE)
        share = np.clip(np.linspace(0, 1, len(radii)) / fade, 0, 1)
        for (x, y), radius, value in zip(places.tolist(), (radii * 1.3 * COARSE).tolist(), share, strict=True):
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=int(255 * value))
        size = (patch[2] - patch[0], patch[3] - patch[1])
        return _plane(_softened(picture, float(radii[0]) * 0.2 * COARSE, size))

    def _paint_eye(self, eye: Eye) -> None:
        facing = float(self.camera.towards_viewer(eye.normal))
        centre, radius = self.camera.to_pixels(eye.centre), max(1.2, eye.radius * self.camera.scale)
        patch = self._patch(centre[None], np.array([radius * 1.6]))
        if facing < 0.08 or patch is None:
            return
        narrow = min(1.0, 0.5 + 0.6 * facing)
        x1, y1, x2, y2 = patch
        below = self.rgb[:, y1:y2, x1:x2]
        rings = (
            (1.28, "light", (0.0, 0.0), 150),
            (1.0, "iris", (0.0, 0.0), 255),
            (0.34, "white", (-0.3, -0.38), 255),
            (0.16, "white", (0.34, 0.4), 170),
        )
        for share, tint, (dx, dy), strength in rings:
            picture, draw = _blank(patch, 4)
            x, y = _in_patch(centre + np.array([dx * narrow, dy]) * radius, patch, 4)
            wide, tall = 4 * radius * share * narrow, 4 * radius * share
            draw.ellipse((x - wide, y - tall, x + wide, y + tall), fill=strength)
            _mix(below, self._tint(tint), _plane(picture.reduce(4)))


def _face(body: Body) -> Part:
    """The part that carries the eyes: the big one of the head, or the trunk where there is no head."""
    heads = [part for part in body.parts if part.group == "head" and len(part.radii)]
    trunks = [part for part in body.parts if part.group == "trunk" and len(part.radii)]
    return max(heads or trunks, key=lambda part: float(part.radii.max()))


def _blank(patch: Patch, times: float, value: int = 0) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    size = (max(1, round((patch[2] - patch[0]) * times)), max(1, round((patch[3] - patch[1]) * times)))
    picture = Image.new("L", size, value)
    return picture, ImageDraw.Draw(picture)


def _in_patch(points: Array, patch: Patch, times: float) -> Array:
    """Pixels of the picture to drawing coordinates of a patch that is drawn ``times`` as large.

    Pillow cuts coordinates down to whole numbers, so what it draws sits right if edges, not centres, are integers.
    """
    return np.asarray((points + 0.5 - np.array(patch[:2])) * times)


def _flat(points: Array) -> Sequence[float]:
    flat: list[float] = points.reshape(-1).tolist()
    return flat


def _draw_tube(draw: ImageDraw.ImageDraw, centres: Array, radii: Array, fill: int) -> None:
    """Fill the outline that balls of changing radius sweep on their way."""
    radii = np.maximum(radii - 0.45, 0.3)  # Pillow fills the border pixels too
    step = centres[1:] - centres[:-1]
    across = np.stack([-step[:, 1], step[:, 0]], 1) / np.maximum(np.hypot(step[:, 0], step[:, 1]), 1e-6)[:, None]
    first, second = radii[:-1, None] * across, radii[1:, None] * across
    quads = np.stack([centres[:-1] + first, centres[1:] + second, centres[1:] - second, centres[:-1] - first], 1)
    for quad in quads.reshape(-1, 8).tolist():
        draw.polygon(quad, fill=fill)
    boxes = np.concatenate([centres - radii[:, None], centres + radii[:, None]], 1)
    for box in boxes.tolist():
        draw.ellipse(box, fill=fill)


def _softened(picture: Image.Image, radius: float, size: tuple[int, int]) -> Image.Image:
    """Blur a picture that was drawn small and bring it to its full size."""
    return picture.filter(ImageFilter.GaussianBlur(radius)).resize(size, Image.Resampling.BILINEAR)


def _plane(picture: Image.Image) -> Plane:
    return np.asarray(picture, dtype=np.float32) * np.float32(1 / 255)


def _mix(base: Plane, colour: Plane, share: Plane) -> None:
    """Move colours (3, h, w) towards another by a share (h, w), in place."""
    base += (colour - base) * share
