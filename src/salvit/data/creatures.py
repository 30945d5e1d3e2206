"""Seeded drawings of jointed creatures, with everything about them known exactly.

They serve the demo and give every test real-looking pictures without a download: a species in a random pose, coat and
place, with its keypoints, their visibility, its box and its true mask.

Left and right are the animal's own. A creature that faces the viewer's left shows its left side.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from salvit.data.creature_bodies import Array, Body, Pose, build_quadruped, sample_pose, view_matrix
from salvit.data.creature_kinds import build_beetle, build_bird, build_fish, build_lizard
from salvit.data.creature_occluders import draw_occluders
from salvit.data.creature_paint import Painter
from salvit.data.creature_scenes import Theme, add_grain, draw_scene, sample_theme
from salvit.data.creature_species import COATS, OTHERS, PALETTES, QUADRUPEDS, jitter_palette
from salvit.data.creature_surface import Camera
from salvit.geometry import Window

Facing = Literal["left", "right"]

SPECIES: tuple[str, ...] = (*QUADRUPEDS, *OTHERS)
"""All species that can be drawn."""

_LIMBS = tuple(f"{side}_{which}" for which in ("front", "back") for side in ("left", "right"))
KEYPOINTS: tuple[str, ...] = (
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "throat", "tail_base", "tail_tip",
    *(f"{limb}_{joint}" for limb in _LIMBS for joint in ("elbow", "knee", "paw")),
)  # fmt: skip
"""Keypoints that all species share; one that a species does not have is never visible. Ears are marked at the tip."""

PAIRS: tuple[tuple[str, str], ...] = tuple(
    (name, name.replace("left_", "right_")) for name in KEYPOINTS if name.startswith("left_")
)
"""Keypoints that change places in a mirror."""

SKELETON: tuple[tuple[str, str], ...] = (
    ("nose", "left_eye"), ("nose", "right_eye"), ("left_eye", "left_ear"), ("right_eye", "right_ear"),
    ("nose", "throat"), ("throat", "tail_base"), ("tail_base", "tail_tip"),
    *((("throat" if "front" in limb else "tail_base"), f"{limb}_elbow") for limb in _LIMBS),
    *((f"{limb}_elbow", f"{limb}_knee") for limb in _LIMBS), *((f"{limb}_knee", f"{limb}_paw") for limb in _LIMBS),
)  # fmt: skip
"""Keypoints to link in drawings."""

DEMO_SPECIES = "fox"
DEMO_SUPPORT = 22
DEMO_QUERIES = (2, 7, 14, 18, 21, 23)
"""Seeds of the bundled pictures. Choice: foxes whose places and coats differ most."""
DEMO_KEYPOINTS = (
    "nose", "left_eye", "left_ear", "right_ear", "throat", "left_front_elbow", "left_front_paw", "left_back_elbow",
    "left_back_paw", "tail_base", "tail_tip",
)  # fmt: skip
"""What is marked in the bundled support picture."""


@dataclass(frozen=True, slots=True)
class Creature:
    """One drawn creature and the truth about it."""

    image: Image.Image
    """RGB."""
    names: tuple[str, ...]
    """:data:`KEYPOINTS`, N of them."""
    points: npt.NDArray[np.float64]
    """(N, 2) pixels, pixel centres at integers; (0, 0) where v is 0."""
    v: npt.NDArray[np.int64]
    """(N,) 0 the species has no such point, 1 hidden by the creature itself or by something in front, 2 visible."""
    box: Window
    """Tight around the mask, xyxy in edge coordinates."""
    mask: npt.NDArray[np.bool_]
    """(H, W) pixels where the creature is seen: without what something in front hides."""
    species: str
    seed: int


def draw_creature(
    species: str,
    seed: int,
    *,
    size_hw: tuple[int, int] = (480, 640),
    occlusion: float = 0.0,
    clutter: float = 0.5,
    facing: Facing | None = None,
) -> Creature:
    """Draw one creature; the same arguments always give the same picture.

    Args:
        species: One of :data:`SPECIES`.
        seed: Decides pose, colours, place and things in front, each by a stream of its own: the same seed with more
            occlusion is the same animal at the same place.
        size_hw: Height and width of the picture, at least 48 each.
        occlusion: From 0, nothing in front, to 1, about four large things.
        clutter: From 0, a bare background, to 1, a crowded one.
        facing: The viewer's side to which the head points; drawn from the seed if not given. Changing it mirrors the
            animal, not its surroundings.
    """
    _check(species, size_hw, occlusion, clutter, facing)
    streams = np.random.SeedSequence([zlib.crc32(species.encode()), seed]).spawn(4)
    rng, paint_rng, scene_rng, occluder_rng = (np.random.default_rng(stream) for stream in streams)
    pose = sample_pose(rng)
    is_left = bool(rng.random() < 0.5) if facing is None else facing == "left"
    theme = sample_theme(scene_rng, is_under_water=species == "fish")
    body = _build(species, pose)
    camera = _place(body, pose, size_hw, rng, is_left=is_left, floats=theme.is_under_water)
    painter = Painter(
        size_hw,
        camera,
        jitter_palette(PALETTES[species][int(paint_rng.integers(len(PALETTES[species])))], paint_rng),
        COATS[species][int(paint_rng.integers(len(COATS[species])))],
        int(paint_rng.integers(2**31)),
    )
    painter.paint(body)
    image = draw_scene(scene_rng, theme, size_hw, clutter)
    if not theme.is_under_water:
        _throw_shadow(body, camera, image)
    image = painter.onto(image)
    points, v = _keypoints(body, painter, is_left=is_left)
    seen = painter.cover > 0.5
    if occlusion > 0:
        layer = _draw_in_front(occluder_rng, theme, points[v == 2], seen, occlusion)
        image.paste(layer, (0, 0), layer)
        covered = np.asarray(layer.getchannel("A")) > 127
        x, y = np.round(points).astype(int).T
        seen, v = seen & ~covered, np.where((v == 2) & covered[y, x], 1, v)
    image = add_grain(scene_rng, image, 2.2)
    return Creature(image, KEYPOINTS, points, v, _box_of(seen), seen, species, seed)


def _check(species: str, size_hw: tuple[int, int], occlusion: float, clutter: float, facing: str | None) -> None:
    if species not in SPECIES:
        raise ValueError(f"there is no species {species!r}; expected one of {', '.join(SPECIES)}")
    if min(size_hw) < 48:
        raise ValueError(f"a picture of height and width {size_hw} is too small; expected at least 48 pixels each")
    for name, value in (("occlusion", occlusion), ("clutter", clutter)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; expected a number from 0 to 1")
    if facing not in (None, "left", "right"):
        raise ValueError(f"facing is {facing!r}; expected 'left', 'right' or None")


def _build(species: str, pose: Pose) -> Body:
    match species:
        case "heron" | "finch":
            return build_bird(pose, is_heron=species == "heron")
        case "lizard":
            return build_lizard(pose)
        case "beetle":
            return build_beetle(pose)
        case "fish":
            return build_fish(pose)
    return build_quadruped(QUADRUPEDS[species], pose)


def _place(
    body: Body, pose: Pose, size_hw: tuple[int, int], rng: np.random.Generator, *, is_left: bool, floats: bool
) -> Camera:
    """Choose size and place so that the whole creature is in the picture."""
    height, width = size_hw
    rotation = view_matrix(pose)
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for part in body.parts:
        seen = (part.spine @ rotation.T)[:, :2] * [1.0, -1.0]
        reach = part.radii[:, None] if len(part.radii) else 0.0
        low, high = np.minimum(low, (seen - reach).min(0)), np.maximum(high, (seen + reach).max(0))
    extent = high - low
    scale = float(min(width * 0.94 / extent[0], height * 0.88 / extent[1]) * rng.uniform(0.68, 0.97))
    free = np.array([width, height]) - extent * scale
    x = rng.uniform(0.12, 0.88) * free[0]
    y = free[1] * rng.uniform(0.3, 0.62) if floats else min(free[1] * rng.uniform(0.6, 0.88), 0.95 * height)
    origin = np.array([x, y]) - low * scale - 0.5
    if is_left:
        origin[0] = width - 1 - origin[0]
    return Camera(rotation, scale, origin, -1.0 if is_left else 1.0)


def _keypoints(body: Body, painter: Painter, *, is_left: bool) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Points and visibility in the order of :data:`KEYPOINTS`: here near and far become left and right."""
    side = {"near": "left", "far": "right"} if is_left else {"near": "right", "far": "left"}
    points, v = np.zeros((len(KEYPOINTS), 2)), np.zeros(len(KEYPOINTS), dtype=np.int64)
    for name, landmark in body.landmarks.items():
        first, _, rest = name.partition("_")
        index = KEYPOINTS.index(f"{side[first]}_{rest}" if first in side else name)
        points[index] = painter.camera.to_pixels(landmark.point)
        v[index] = 2 if painter.is_seen(landmark) else 1
    return points, v


def _draw_in_front(
    rng: np.random.Generator, theme: Theme, targets: Array, seen: npt.NDArray[np.bool_], occlusion: float
) -> Image.Image:
    """An RGBA layer of things in front; weaker than asked for where they would hide nearly the whole creature."""
    while True:
        layer = draw_occluders(rng, theme, seen.shape, targets, _box_of(seen), occlusion)
        if (seen & (np.asarray(layer.getchannel("A")) < 128)).sum() > 0.06 * seen.sum():
            return layer
        occlusion /= 2


def _box_of(mask: npt.NDArray[np.bool_]) -> Window:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def _throw_shadow(body: Body, camera: Camera, image: Image.Image) -> None:
    """Darken the ground under a creature, softly."""
    feet = camera.to_pixels(np.stack(body.feet))
    reach = camera.scale
    (left, top), (right, bottom) = feet.min(0), feet.max(0)
    corner = np.floor([left - reach * 0.5, top - reach * 0.25]).astype(int)
    size = (np.ceil([right + reach * 0.5, bottom + reach * 0.3]).astype(int) - corner) // 4 + 1
    small = Image.new("L", (int(size[0]), int(size[1])))
    draw = ImageDraw.Draw(small)
    feet, reach = (feet - corner) / 4, reach / 4
    (left, top), (right, bottom) = feet.min(0), feet.max(0)
    draw.ellipse((left - reach * 0.3, top - reach * 0.06, right + reach * 0.3, bottom + reach * 0.09), fill=70)
    for x, y in feet:
        draw.ellipse((x - reach * 0.13, y - reach * 0.035, x + reach * 0.13, y + reach * 0.04), fill=130)
    soft = small.filter(ImageFilter.GaussianBlur(reach * 0.045))
    soft = soft.resize((small.width * 4, small.height * 4), Image.Resampling.BILINEAR)
    image.paste(Image.new("RGB", soft.size, (24, 28, 48)), (int(corner[0]), int(corner[1])), soft)


def write_creatures(
    folder: Path,
    species: Sequence[str],
    count: int,
    seed: int,
    *,
    size_hw: tuple[int, int] = (480, 640),
    occlusion: float = 0.0,
    clutter: float = 0.5,
) -> Path:
    """Write drawings and a COCO keypoints file about them.

    Args:
        folder: Made if it is not there. A file that is in the way is an error: nothing is overwritten.
        species: Which to draw; each gets ``count`` pictures and is a category of its own.
        count: Pictures of each species.
        seed: Seed of the first picture of each species; the others follow.
        size_hw: See :func:`draw_creature`.
        occlusion: See :func:`draw_creature`.
        clutter: See :func:`draw_creature`.

    Returns:
        The path of ``annotations.json``; its pictures lie beside it, in ``images``.
    """
    if count < 1 or not species:
        raise ValueError(f"{count} pictures of {len(species)} species were asked for; expected at least one of each")
    plan = [(kind, number) for kind in species for number in range(seed, seed + count)]
    names = [f"images/{kind}_{number:06d}.jpg" for kind, number in plan]
    file = Path(folder) / "annotations.json"
    _check_free(file, *(file.parent / name for name in names))
    creatures = []
    for (kind, number), name in zip(plan, names, strict=True):
        creature = draw_creature(kind, number, size_hw=size_hw, occlusion=occlusion, clutter=clutter)
        creatures.append(creature)
        _save(creature, file.parent / name)
    file.write_text(json.dumps(to_coco(creatures, names)), encoding="utf-8")
    return file


def write_demo(folder: Path) -> Path:
    """Write the pictures that come with salvit: a marked creature and others of its species to find the marks in.

    Args:
        folder: Gets ``support.json`` with ``support.jpg``, and ``query1.jpg`` … with the truth about them in
            ``queries.json``. Nothing is overwritten.

    Returns:
        The path of ``support.json``.
    """
    pictures = {"support": ["support.jpg"], "queries": [f"query{i}.jpg" for i in range(1, len(DEMO_QUERIES) + 1)]}
    seeds = {"support": (DEMO_SUPPORT,), "queries": DEMO_QUERIES}
    folder = Path(folder)
    for part, names in pictures.items():
        _check_free(folder / f"{part}.json", *(folder / name for name in names))
    for part, names in pictures.items():
        creatures = [draw_creature(DEMO_SPECIES, seed, clutter=0.6, facing="left") for seed in seeds[part]]
        for creature, name in zip(creatures, names, strict=True):
            _save(creature, folder / name)
        content = json.dumps(to_coco(creatures, names, DEMO_KEYPOINTS), indent=1)
        (folder / f"{part}.json").write_text(content + "\n", encoding="utf-8")
    return folder / "support.json"


def _check_free(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise FileExistsError(f"{path} is already there and is not overwritten; choose another folder")


def _save(creature: Creature, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    creature.image.save(path, quality=88)


def to_coco(
    creatures: Sequence[Creature], file_names: Sequence[str], keypoints: Sequence[str] = KEYPOINTS
) -> dict[str, Any]:
    """A COCO keypoints file about drawn creatures, limited to some keypoints."""
    chosen = [KEYPOINTS.index(name) for name in keypoints]
    links = [[keypoints.index(a) + 1, keypoints.index(b) + 1] for a, b in SKELETON if a in keypoints and b in keypoints]
    kinds = list(dict.fromkeys(creature.species for creature in creatures))
    images, annotations = [], []
    for number, (creature, name) in enumerate(zip(creatures, file_names, strict=True), start=1):
        x1, y1, x2, y2 = creature.box
        triples = [
            [round(float(x), 3), round(float(y), 3), int(v)] if v else [0, 0, 0]
            for (x, y), v in zip(creature.points[chosen], creature.v[chosen], strict=True)
        ]
        images.append({"id": number, "file_name": name, "width": creature.image.width, "height": creature.image.height})
        annotations.append(
            {
                "id": number,
                "image_id": number,
                "category_id": kinds.index(creature.species) + 1,
                "bbox": [x1, y1, x2 - x1, y2 - y1],
                "area": int(creature.mask.sum()),
                "iscrowd": 0,
                "num_keypoints": sum(v > 0 for _, _, v in triples),
                "keypoints": [value for triple in triples for value in triple],
            }
        )
    categories = [
        {"id": i, "name": kind, "keypoints": list(keypoints), "skeleton": links}
        for i, kind in enumerate(kinds, start=1)
    ]
    return {"images": images, "annotations": annotations, "categories": categories}
