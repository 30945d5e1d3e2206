"""The anatomy of the drawn creatures: a species and a pose become solid parts and named points.

Frame: x runs forward from tail to nose, y up from the ground, n towards the viewer; one unit is about one body length.
A creature is always built facing the viewer's right, with a ``near`` and a ``far`` side. It is mirrored afterwards,
and only then do near and far become left and right (:func:`salvit.data.creatures.draw_creature`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from salvit.data.creature_species import Quadruped

Array = npt.NDArray[np.float64]
Side = Literal["near", "far"]
SIDES: tuple[tuple[Side, float], ...] = (("far", -1.0), ("near", 1.0))
NEAR_AXIS = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True, slots=True)
class Part:
    """One solid of a creature: a chain of balls with changing radii, or a flat sheet."""

    group: str
    """Parts of one group never hide each other's keypoints: ``near_front``, ``head``, ``trunk``, …"""
    spine: Array
    """(S, 3) centres of the balls; for a sheet its outline."""
    radii: Array
    """(S,) radii of the balls; empty for a sheet."""
    layer: float
    """Order of painting: higher is nearer to the viewer."""
    tint: str = "coat"
    """A colour of the palette."""
    tip: str = ""
    """The colour that the end takes, or nothing."""
    tip_from: float = 0.7
    """Where along the spine the tip begins, 0 to 1."""
    patterned: float = 0.0
    """How densely the coat's pattern covers it."""
    fade: float = 0.0
    """Share of the spine, from its start, over which the part melts into what lies behind it."""
    belly: float = 0.0
    """How strongly the underside takes the belly colour."""
    lateral: Array = field(default_factory=lambda: NEAR_AXIS)
    """(3,) unit vector to the near side of the part."""


@dataclass(frozen=True, slots=True)
class Eye:
    """An eye on the head: where it lies, which way it looks, how big it is."""

    centre: Array
    normal: Array
    radius: float


@dataclass(frozen=True, slots=True)
class Landmark:
    """A named point, the groups of parts that show it, and its outward direction where it lies on a surface."""

    point: Array
    groups: str
    """Names of groups, separated by spaces."""
    normal: Array | None = None


@dataclass(slots=True)
class Body:
    """Everything that is drawn of one creature in one pose."""

    parts: list[Part] = field(default_factory=list)
    eyes: list[Eye] = field(default_factory=list)
    landmarks: dict[str, Landmark] = field(default_factory=dict)
    """By keypoint name, with ``near`` and ``far`` instead of ``left`` and ``right``."""
    feet: list[Array] = field(default_factory=list)
    """Where it touches the ground, for the shadow."""


@dataclass(frozen=True, slots=True)
class Pose:
    """How a creature holds itself; angles in radians."""

    phase: float
    """Where in its step it is, 0 to 2π."""
    stride: float
    """Swing of the legs."""
    yaw: float
    """Turn of the whole body; positive brings the head towards the viewer."""
    pitch: float
    """How far the viewer looks down on it."""
    head_yaw: float
    head_pitch: float
    neck: float
    """Raises or lowers the neck."""
    lean: float
    """Slope of the back."""
    tail: float
    """Raises or lowers the tail."""


def sample_pose(rng: np.random.Generator) -> Pose:
    """Draw a pose."""
    return Pose(
        # Near the ends of a step, where the legs stand apart.
        phase=np.pi * (rng.integers(2) + 0.5) + rng.uniform(-0.95, 0.95),
        stride=rng.uniform(0.22, 0.46),
        yaw=rng.uniform(-0.42, 0.48),
        pitch=rng.uniform(0.04, 0.16),
        head_yaw=rng.uniform(-0.25, 0.75),
        head_pitch=rng.uniform(-0.45, 0.3),
        neck=rng.uniform(-0.42, 0.28),
        lean=rng.uniform(-0.07, 0.07),
        tail=rng.uniform(-0.6, 0.8),
    )


def vec(x: float, y: float, n: float) -> Array:
    """A vector of the creature's frame: forward, up, towards the viewer."""
    return np.array([x, y, n], dtype=np.float64)


def smooth(points: npt.ArrayLike, values: npt.ArrayLike, num: int = 20) -> tuple[Array, Array]:
    """A smooth curve through points (K, 3) and the values (K,) along it (Catmull–Rom): (num, 3) and (num,)."""
    knots = np.column_stack([np.asarray(points, dtype=np.float64), np.asarray(values, dtype=np.float64)])
    ends = np.vstack([2 * knots[0] - knots[1], knots, 2 * knots[-1] - knots[-2]])
    at = np.linspace(0, len(knots) - 1, num)
    i = np.minimum(at.astype(int), len(knots) - 2)
    t = (at - i)[:, None]
    before, start, end, after = ends[i], ends[i + 1], ends[i + 2], ends[i + 3]
    curve = 0.5 * (
        2 * start
        + (end - before) * t
        + (2 * before - 5 * start + 4 * end - after) * t**2
        + (3 * start - before - 3 * end + after) * t**3
    )
    return curve[:, :3], np.maximum(curve[:, 3], 1e-3)


def view_matrix(pose: Pose) -> Array:
    """(3, 3) rotation from the creature's frame to the viewer's: right, up, towards the viewer."""
    cy, sy, cp, sp = np.cos(pose.yaw), np.sin(pose.yaw), np.cos(pose.pitch), np.sin(pose.pitch)
    turn = np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    tilt = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    return np.asarray(tilt @ turn)


def head_frame(pitch: float, yaw: float) -> tuple[Array, Array, Array]:
    """Unit vectors of a head: forward, up and to the near side."""
    forward = np.array([np.cos(pitch) * np.cos(yaw), np.sin(pitch), np.cos(pitch) * np.sin(yaw)])
    near = np.array([-np.sin(yaw), 0.0, np.cos(yaw)])
    return forward, np.cross(near, forward), near


def along(start: Array, angle: float, length: float, out: float = 0.0) -> Array:
    """The point at ``length`` from ``start``, ``angle`` forward of straight down, ``out`` sideways."""
    return start + vec(np.sin(angle) * length, -np.cos(angle) * length, out)


def tube(
    body: Body,
    group: str,
    points: npt.ArrayLike,
    radii: npt.ArrayLike,
    layer: float,
    *,
    num: int = 18,
    tint: str = "coat",
    tip: str = "",
    tip_from: float = 0.7,
    patterned: float = 0.0,
    fade: float = 0.0,
    belly: float = 0.0,
    lateral: Array = NEAR_AXIS,
) -> Part:
    """Add a smooth tube of ``num`` balls through the points to a body; for the rest see :class:`Part`."""
    spine, widths = smooth(points, radii, num)
    part = Part(group, spine, widths, layer, tint, tip, tip_from, patterned, fade, belly, lateral)
    body.parts.append(part)
    return part


def sheet(body: Body, group: str, outline: npt.ArrayLike, layer: float, tint: str) -> None:
    """Add a flat sheet with a smooth outline to a body."""
    points = np.asarray(outline, dtype=np.float64)
    closed = np.vstack([points, points[:1]])
    curve, _ = smooth(closed, np.ones(len(closed)), 8 * len(points))
    body.parts.append(Part(group, curve, np.empty(0), layer, tint))


def build_quadruped(plan: Quadruped, pose: Pose) -> Body:
    """A four-legged animal: trunk with neck, head, four legs, tail."""
    body = Body()
    height, half = plan.leg, plan.length / 2
    rise = np.tan(pose.lean)
    hip = np.array([-half, height - half * rise, 0.0])
    chest = np.array([half, height + plan.withers + half * rise, 0.0])
    angle = plan.neck_angle + pose.neck
    neck = np.array([np.cos(angle), np.sin(angle), 0.0])
    head_at = chest + neck * plan.neck
    trunk = tube(
        body,
        "trunk",
        [
            hip + vec(-plan.hip * 0.35, 0.01, 0),
            hip + vec(plan.hip * 0.5, 0.0, 0),
            (hip + chest) / 2 + vec(0, -plan.sag, 0),
            chest + vec(-plan.chest * 0.35, -plan.chest * 0.12, 0),
            chest + neck * plan.neck * 0.42 + vec(0.0, 0.01, 0),
            head_at,
        ],
        [
            plan.hip * 0.78,
            plan.hip,
            plan.belly,
            plan.chest,
            plan.neck_radius * 1.22,
            plan.neck_radius * 0.92,
        ],
        layer=0.0,
        patterned=1.0,
        belly=1.0,
        num=40,
    )
    throat = int(0.84 * (len(trunk.spine) - 1))
    under = np.array([neck[1], -neck[0], 0.0])
    body.landmarks["throat"] = Landmark(trunk.spine[throat] + under * trunk.radii[throat] * 0.78, "trunk")
    _add_quadruped_tail(body, plan, pose, hip)
    for side, sign in SIDES:
        for which in ("front", "back"):
            root = (
                chest + vec(-plan.chest * 0.45, -plan.chest * 0.3, 0)
                if which == "front"
                else hip + vec(plan.hip * 0.2, -plan.hip * 0.3, 0)
            )
            _add_leg(body, plan, pose, which, side, sign, root)
    _add_head(body, plan, pose, head_at, neck)
    if plan.crest:
        _add_crest(body, plan, trunk)
    return body


def _add_crest(body: Body, plan: Quadruped, trunk: Part) -> None:
    """Short upright hair along the top of the neck."""
    first = int(0.62 * len(trunk.spine))
    spine, radii = trunk.spine[first:], trunk.radii[first:]
    tangent = np.gradient(spine, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    up = np.cross(NEAR_AXIS, tangent)
    top = spine + up * radii[:, None] * 0.95
    width = plan.crest * np.sin(np.linspace(0.15, 1, len(spine)) * np.pi * 0.75)
    body.parts.append(Part("trunk", top, np.maximum(width, 0.004), -0.5, tint="dark"))


def _add_quadruped_tail(body: Body, plan: Quadruped, pose: Pose, hip: Array) -> None:
    base = hip + vec(-plan.hip * 0.92, plan.hip * 0.4, 0.0)
    droop, sway = plan.tail_angle + pose.tail, 0.25 * np.sin(pose.phase)
    first = vec(-np.cos(droop), np.sin(droop), sway) * plan.tail * 0.5
    second = vec(-np.cos(droop + plan.tail_curl), np.sin(droop + plan.tail_curl), sway) * plan.tail * 0.5
    start, middle, end = plan.tail_radii
    part = tube(
        body,
        "tail",
        [base + vec(plan.hip * 0.45, -plan.hip * 0.12, 0), base, base + first, base + first + second],
        [start, start, middle, end],
        layer=-1.0 if pose.yaw > -0.1 else 0.6,
        fade=0.0 if pose.yaw > -0.1 else 0.3,
        patterned=0.7,
        tip=plan.tail_tip,
        tip_from=0.74,
        num=24,
    )
    body.landmarks["tail_base"] = Landmark(base + vec(plan.hip * 0.08, -start * 0.15, 0), "tail trunk")
    body.landmarks["tail_tip"] = Landmark(part.spine[-1], "tail")


def _add_leg(body: Body, plan: Quadruped, pose: Pose, which: str, side: Side, sign: float, root: Array) -> None:
    """One leg: shoulder or hip, elbow, knee, paw; feet on the ground stay there."""
    # Opposite legs step together, as in a walk or a trot.
    offset = 0.0 if (which == "front") == (side == "near") else np.pi
    swing = pose.stride * np.sin(pose.phase + offset)
    lift = max(0.0, float(np.cos(pose.phase + offset))) * pose.stride
    top, middle, bottom = plan.leg_radii
    out = sign * (plan.chest if which == "front" else plan.hip) * 0.52
    length = root[1] - bottom
    hip = root + vec(0, 0.0, out)
    if which == "front":
        elbow = along(hip, -0.22 + 0.5 * swing, length * 0.46, sign * 0.01)
        knee = along(elbow, 0.06 + 0.9 * swing + 0.7 * lift, length * 0.3)
        paw_x = knee[0] + length * 0.26 * np.sin(0.85 * swing - 1.2 * lift)
    else:
        elbow = along(hip, 0.36 + 0.5 * swing, length * 0.45, sign * 0.01)
        knee = along(elbow, -0.62 + 0.8 * swing - 0.3 * lift, length * 0.34)
        paw_x = knee[0] + length * 0.26 * np.sin(0.22 + 0.8 * swing - 0.5 * lift)
    paw = np.array([paw_x, bottom + 0.16 * length * lift, out + sign * 0.005])
    group, layer = f"{side}_{which}", 1.0 if sign > 0 else -3.0
    thick = 1.25 if which == "back" else 1.0
    tube(
        body,
        group,
        [hip + vec(0, top * 0.1, 0), elbow, knee, paw],
        [top * thick * 1.1, top * thick * 0.78, middle, bottom],
        layer,
        patterned=0.6,
        tip=plan.socks,
        tip_from=0.72,
        fade=0.3 if sign > 0 else 0.0,
        num=24,
    )
    toe = paw + vec(bottom * plan.foot, -bottom * 0.25, 0)
    tube(
        body,
        group,
        [paw + vec(-bottom * 0.25, -bottom * 0.1, 0), toe],
        [bottom * 1.02, bottom * 0.8],
        layer + 0.1,
        tint=plan.foot_tint,
        num=6,
    )
    for name, point in (("elbow", elbow), ("knee", knee), ("paw", paw)):
        body.landmarks[f"{side}_{which}_{name}"] = Landmark(point, group)
    body.feet.append(np.array([paw[0] + bottom * 0.4, 0.0, paw[2]]))


def _add_head(body: Body, plan: Quadruped, pose: Pose, at: Array, neck: Array) -> None:
    forward, up, near = head_frame(plan.head_angle + pose.head_pitch, pose.head_yaw)
    skull, muzzle, length = plan.skull, plan.muzzle, plan.snout
    centre = at + neck * skull * 0.35 + forward * skull * 0.35
    tip = centre + forward * (length + skull * 0.5) - up * skull * plan.snout_drop
    bridge = centre + forward * skull * 0.95 - up * skull * plan.snout_drop * 0.55
    tube(
        body,
        "head",
        [centre - forward * skull * 0.3, centre + forward * skull * 0.1, bridge, tip - forward * muzzle * 0.5],
        [skull * 0.92, skull, (skull + muzzle) * plan.cheek, muzzle],
        layer=3.0,
        fade=0.12,
        belly=0.9,
        patterned=plan.face_pattern,
        tip=plan.muzzle_tint,
        tip_from=plan.muzzle_from,
        lateral=near,
        num=22,
    )
    nose = tip + forward * muzzle * 0.32 + up * muzzle * 0.28
    faces = float(view_matrix(pose)[2] @ forward)
    body.parts.append(
        Part(
            "head",
            np.stack([nose - near * muzzle * 0.22, nose, nose + near * muzzle * 0.22]),
            np.full(3, muzzle * plan.nose),
            3.5 if faces > -0.45 else 2.9,
            tint="dark",
        )
    )
    body.landmarks["nose"] = Landmark(nose, "head")
    lip = tip - forward * muzzle * 0.5 - up * muzzle * 0.42
    corner = bridge - up * muzzle * 0.62
    for side, sign in SIDES:
        mouth = [
            lip + forward * muzzle * 0.82 + near * sign * muzzle * 0.2,
            lip + near * sign * muzzle * 0.93 - up * muzzle * 0.12,
            corner + up * muzzle * 0.3 + forward * muzzle * 0.5 + near * sign * (muzzle + skull) * 0.36,
        ]
        if sign > 0:
            tube(body, "head", mouth, np.array([0.5, 0.6, 0.4]) * plan.skull * 0.055, 3.1, tint="dark", num=12)
        normal = forward * 0.5 + up * 0.42 + near * sign * 0.76
        eye = centre + normal * skull * 0.93 + forward * skull * plan.eye_forward
        body.eyes.append(Eye(eye, normal, plan.eye * skull))
        body.landmarks[f"{side}_eye"] = Landmark(eye, "head", normal)
        _add_ear(body, plan, side, sign, centre, (forward, up, near))


def _add_ear(
    body: Body, plan: Quadruped, side: Side, sign: float, centre: Array, frame: tuple[Array, Array, Array]
) -> None:
    """An ear with its pale inside, and the horn beside it where the species has one."""
    forward, up, near = frame
    skull = plan.skull
    base = centre - forward * skull * 0.28 + up * skull * 0.62 + near * sign * skull * 0.6
    lean = plan.ear_out
    direction = up * np.cos(lean) + near * sign * np.sin(lean) - forward * plan.ear_back
    direction /= np.linalg.norm(direction)
    tip = base + direction * plan.ear
    wide = plan.ear_width * plan.ear
    layer = 3.3 if sign > 0 else 2.5
    widths = np.array([0.62, 0.95, 0.85 if plan.round_ears else 0.6, 0.66 if plan.round_ears else 0.12]) * wide
    knots = [base - direction * wide * 0.2, base + direction * plan.ear * 0.3, base + direction * plan.ear * 0.65, tip]
    tube(body, f"{side}_ear", knots, widths, layer, tip=plan.ear_tip, tip_from=0.72, num=14)
    inside = [point + forward * wide * 0.24 for point in knots[1:3]] + [tip - direction * plan.ear * 0.14]
    tube(body, f"{side}_ear", inside, widths[1:] * [0.58, 0.58, 0.5], layer + 0.1, tint="inner", num=8)
    body.landmarks[f"{side}_ear"] = Landmark(tip - direction * wide * 0.12, f"{side}_ear")
    for horn in plan.horns:
        points = [centre + forward * skull * f + up * skull * u + near * sign * skull * n for f, u, n in horn]
        widths = np.linspace(plan.horn_radius, plan.horn_radius * plan.horn_taper, len(points))
        tube(body, f"{side}_horn", points, widths, 3.2 if sign > 0 else 2.4, tint="horn", tip=plan.horn_tip, num=12)
