"""Bodies that are not four-legged mammals: two birds, a lizard, a beetle, a fish."""

from __future__ import annotations

import numpy as np

from salvit.data.creature_bodies import (
    SIDES,
    Array,
    Body,
    Eye,
    Landmark,
    Part,
    Pose,
    along,
    head_frame,
    sheet,
    tube,
    vec,
)


def build_bird(pose: Pose, *, is_heron: bool) -> Body:
    """A standing or walking bird: a wader with a long neck, or a round song bird.

    Its legs are the back limbs; wings carry no keypoints.
    """
    body = Body()
    leg, size = (0.78, 0.2) if is_heron else (0.3, 0.27)
    slope = (0.28 if is_heron else 0.42) + pose.lean * 2
    back = vec(np.cos(slope), np.sin(slope), 0.0)
    middle = vec(0.0, leg + size * 0.75, 0.0)
    rump, breast = middle - back * size * 1.25, middle + back * size * (0.85 if is_heron else 0.55)
    if is_heron:
        rise = 1.25 + pose.neck
        bend = breast + vec(0.15 * np.cos(rise), 0.34 * np.sin(rise), 0.0)
        head_at = bend + vec(0.02 + 0.1 * pose.neck, 0.34, 0.0)
        knots = [rump, middle, breast, (breast + bend) / 2 + vec(0.07, 0, 0), bend + vec(-0.03, 0.02, 0), head_at]
        radii = [size * 0.4, size, size * 0.72, 0.085, 0.06, 0.055]
    else:
        head_at = breast + back * size * 0.5 + vec(0.02, size * 0.62, 0.0)
        knots = [rump, middle - back * size * 0.2, breast, head_at]
        radii = [size * 0.42, size * 1.0, size * 0.98, size * 0.55]
    trunk = tube(body, "trunk", knots, radii, 0.0, patterned=0.8, belly=1.3, num=36)
    skull = 0.085 if is_heron else size * 0.68
    _add_bird_head(body, pose, head_at, skull, is_heron)
    at = int(0.86 * (len(trunk.spine) - 1))
    throat = trunk.spine[at] + vec(0.94, -0.34, 0.0) * trunk.radii[at] * 0.75
    body.landmarks["throat"] = Landmark(throat, "trunk")
    _add_bird_tail(body, pose, rump, back, size * (1.1 if is_heron else 1.5))
    _add_wing(body, pose, middle, back, size)
    for side, sign in SIDES:
        _add_bird_leg(body, pose, middle - back * size * 0.15, size, leg, (side, sign), is_heron)
    return body


def _add_bird_head(body: Body, pose: Pose, at: Array, skull: float, is_heron: bool) -> None:
    forward, up, near = head_frame(-0.1 + 0.7 * pose.head_pitch, 0.8 * pose.head_yaw)
    centre = at + up * skull * 0.3 + forward * skull * 0.25
    knots = [centre - forward * skull * 0.35, centre, centre + forward * skull * 0.5]
    tube(body, "head", knots, [skull * 0.9, skull, skull * 0.6], 3.0, belly=0.8, lateral=near, fade=0.1, num=12)
    length, thick = (4.2, 0.34) if is_heron else (0.95, 0.32)
    start = centre + forward * skull * 0.72 - up * skull * 0.08
    tip = start + forward * skull * length - up * skull * 0.12
    tube(body, "head", [start, (start + tip) / 2, tip], [skull * thick, skull * thick * 0.62, 0.006], 2.9, tint="bill")
    if is_heron:
        plume = [centre + up * skull * 0.6, centre - forward * skull * 1.2 + up * skull * 0.7]
        tube(
            body,
            "head",
            [*plume, centre - forward * skull * 3.2],
            [skull * 0.4, skull * 0.28, 0.005],
            3.05,
            tint="dark",
        )
    body.landmarks["nose"] = Landmark(tip - forward * 0.02, "head")
    for side, sign in SIDES:
        normal = forward * 0.42 + up * 0.3 + near * sign * 0.85
        eye = centre + normal * skull * 0.9
        body.eyes.append(Eye(eye, normal, skull * (0.24 if is_heron else 0.2)))
        body.landmarks[f"{side}_eye"] = Landmark(eye, "head", normal)


def _add_bird_tail(body: Body, pose: Pose, rump: Array, back: Array, length: float) -> None:
    angle = np.arctan2(back[1], back[0]) * 0.5 - pose.tail * 0.35
    away = -vec(np.cos(angle), np.sin(angle), 0.0)
    base, tip = rump + away * 0.02, rump + away * length
    across = np.array([-away[1], away[0], 0.0])
    layer = -1.0 if pose.yaw > -0.1 else 0.4
    for spread in (-0.16, 0.0, 0.16):
        end = tip + across * length * spread * 0.7 + vec(0.0, 0.0, length * spread)
        tube(
            body, "tail", [base - away * 0.1, (base + end) / 2, end], [length * 0.14, length * 0.12, length * 0.07],
            layer + spread * 0.1, tint="pattern", tip="dark", tip_from=0.8,
        )  # fmt: skip
    body.landmarks["tail_base"] = Landmark(base, "tail trunk")
    body.landmarks["tail_tip"] = Landmark(tip, "tail")


def _add_wing(body: Body, pose: Pose, middle: Array, back: Array, size: float) -> None:
    """The near wing, folded: three rows of feathers, each a sheet over the other. The far one is never seen."""
    across = np.array([-back[1], back[0], 0.0])
    out = vec(0.0, 0.0, size * 0.8)
    flap = 0.08 * np.sin(pose.phase)
    rows = (("dark", -2.05, 0.3), ("pattern", -1.62, 0.4), ("coat", -1.1, 0.46))
    for row, (tint, reach, wide) in enumerate(rows):
        shapes = (
            (0.75, 0.18),
            (0.35, wide + 0.1),
            (-0.5, wide),
            (reach, 0.1 + flap),
            (-0.7, -wide * 0.6),
            (0.2, -wide),
        )
        outline = [middle + out + back * size * a + across * size * b for a, b in shapes]
        sheet(body, "near_wing", outline, 0.5 + 0.05 * row, tint=tint)


def _add_bird_leg(
    body: Body, pose: Pose, root: Array, size: float, leg: float, side_sign: tuple[str, float], is_heron: bool
) -> None:
    side, sign = side_sign
    swing = pose.stride * 0.9 * np.sin(pose.phase + (0 if sign > 0 else np.pi))
    lift = max(0.0, float(np.cos(pose.phase + (0 if sign > 0 else np.pi)))) * pose.stride * 0.25
    hip = root + vec(0, -size * 0.45, sign * size * 0.4)
    long = hip[1]
    elbow = along(hip, 0.3 + swing * 0.5, long * 0.3)
    knee = along(elbow, -0.5 + swing * 0.7, long * 0.34)
    paw = np.array([knee[0] + long * 0.3 * np.sin(0.15 + swing), 0.02 + lift * leg, hip[2]])
    group, layer = f"{side}_back", 0.3 if sign > 0 else -3.0
    thin = 0.019 if is_heron else 0.022
    tube(body, group, [hip, elbow], [size * 0.42, thin * 1.8], layer, fade=0.4 if sign > 0 else 0.0, belly=0.5, num=10)
    shin = [elbow + vec(0, 0.02, 0), knee, paw]
    tube(body, group, shin, [thin * 1.5, thin * 1.1, thin], layer + 0.1, tint="bill")
    for turn in (-0.5, 0.15, 2.7):
        toe = paw + vec(0.1 * np.cos(turn), -0.008, 0.1 * np.sin(turn) * sign)
        tube(body, group, [paw, toe], [thin, thin * 0.6], layer + 0.2, tint="bill", num=5)
    for name, point in (("elbow", elbow), ("knee", knee), ("paw", paw)):
        body.landmarks[f"{side}_back_{name}"] = Landmark(point, group)
    body.feet.append(np.array([paw[0] + 0.03, 0.0, paw[2]]))


def build_lizard(pose: Pose) -> Body:
    """A lizard: low, sprawling legs, a long tail that snakes to the side."""
    body = Body()
    height = 0.17
    wave = 0.12 * np.sin(pose.phase)
    knots = [
        [-0.42, height, -wave],
        [-0.2, height + 0.01, 0],
        [0.12, height + 0.02, wave * 0.6],
        [0.38, height + 0.03, 0],
    ]
    radii = [0.085, 0.125, 0.14, 0.1]
    neck = vec(0.52, height + 0.07 + 0.12 * max(0.0, pose.neck), 0.0)
    trunk = tube(body, "trunk", np.vstack([knots, neck]), [*radii, 0.085], 0.0, patterned=1.0, belly=0.9, num=36)
    tail = [
        [-0.36, height, -wave * 0.8], [-0.5, height, -wave], [-0.78, height * 0.8, -wave * 0.2],
        [-1.02, height * (0.6 + pose.tail), wave], [-1.22, height * (0.55 + 2.2 * pose.tail), wave * 1.6],
    ]  # fmt: skip
    end = tube(body, "tail", tail, [0.095, 0.08, 0.055, 0.034, 0.012], -0.2, patterned=1.0, belly=0.6, num=34)
    body.landmarks["tail_base"] = Landmark(np.array(tail[1]), "tail trunk")
    body.landmarks["tail_tip"] = Landmark(end.spine[-1], "tail")
    body.landmarks["throat"] = Landmark(trunk.spine[-4] + [0.01, -trunk.radii[-4] * 0.75, 0], "trunk")
    crest = np.linspace(4, 33, 15).astype(int)
    for i in crest:
        spike = trunk.spine[i] + np.array([0.0, trunk.radii[i] * 0.9, 0.0])
        tube(body, "trunk", [spike, spike + vec(-0.03, 0.05, 0)], [0.02, 0.004], -0.1, tint="pattern", num=4)
    _add_lizard_head(body, pose, neck)
    for side, sign in SIDES:
        for which, x in (("front", 0.3), ("back", -0.3)):
            offset = 0.0 if (which == "front") == (side == "near") else np.pi
            _add_lizard_leg(body, which, side, sign, x, height, 0.14 * np.sin(pose.phase + offset))
    return body


def _add_lizard_head(body: Body, pose: Pose, at: Array) -> None:
    forward, up, near = head_frame(0.12 + 0.6 * pose.head_pitch, 0.7 * pose.head_yaw)
    skull = 0.105
    centre = at + forward * 0.07 + up * 0.01
    tip = centre + forward * 0.2 - up * 0.03
    knots = [centre - forward * 0.05, centre, (centre + tip) / 2, tip]
    tube(
        body, "head", knots, [skull * 0.9, skull, skull * 0.76, skull * 0.42],
        3.0, belly=1.0, patterned=0.4, lateral=near, fade=0.15, num=20,
    )  # fmt: skip
    body.landmarks["nose"] = Landmark(tip + forward * skull * 0.25, "head")
    for side, sign in SIDES:
        normal = forward * 0.3 + up * 0.55 + near * sign * 0.78
        eye = centre + normal * skull * 0.9 + forward * 0.02
        body.eyes.append(Eye(eye, normal, skull * 0.26))
        body.landmarks[f"{side}_eye"] = Landmark(eye, "head", normal)
        nostril = tip + near * sign * skull * 0.24 + up * skull * 0.2 + forward * skull * 0.1
        body.parts.append(Part("head", nostril[None] + [[0, 0, 0], [0.004, 0, 0]], np.full(2, 0.008), 3.2, tint="dark"))


def _add_lizard_leg(body: Body, which: str, side: str, sign: float, x: float, height: float, swing: float) -> None:
    root = vec(x, height, sign * 0.08)
    bend = 0.1 if which == "front" else -0.1
    elbow = root + vec(bend * 0.5 + swing * 0.3, 0.0, sign * 0.13)
    knee = elbow + vec(-bend * 0.4 + swing * 0.5, -0.07, sign * 0.07)
    paw = np.array([knee[0] + bend * 0.5 + swing * 0.5, 0.02, knee[2] + sign * 0.05])
    group, layer = f"{side}_{which}", 1.0 if sign > 0 else -3.0
    tube(body, group, [root, elbow, knee, paw], [0.065, 0.052, 0.04, 0.03], layer, patterned=0.7, fade=0.2)
    for turn in (-0.9, -0.3, 0.3, 0.9):
        toe = paw + vec(0.085 * np.cos(turn), -0.01, sign * 0.085 * np.sin(turn + 0.4))
        tube(body, group, [paw, toe], [0.02, 0.01], layer + 0.1, num=5)
    for name, point in (("elbow", elbow), ("knee", knee), ("paw", paw)):
        body.landmarks[f"{side}_{which}_{name}"] = Landmark(point, group)
    body.feet.append(np.array([paw[0] + 0.03, 0.0, paw[2]]))


def build_beetle(pose: Pose) -> Body:
    """A beetle: domed wing cases, three pairs of legs (the middle pair has no keypoints), feelers."""
    body = Body()
    height = 0.3
    knots = [[-0.42, height, 0], [-0.2, height + 0.05, 0], [0.08, height + 0.06, 0], [0.26, height + 0.02, 0]]
    dome = tube(body, "trunk", knots, [0.14, 0.27, 0.29, 0.2], 0.0, patterned=1.2, num=32)
    seam = dome.spine + vec(0.0, 1.0, 0.12) * dome.radii[:, None] * 0.96
    body.parts.append(Part("trunk", seam, np.full(len(seam), 0.007), 0.1, tint="dark"))
    tube(body, "neck", [[0.24, height, 0], [0.4, height - 0.01, 0]], [0.21, 0.16], -0.4, tint="dark", num=10)
    body.landmarks["tail_base"] = Landmark(dome.spine[0] + vec(-0.05, 0, 0), "trunk")
    forward, up, near = head_frame(-0.25 + 0.4 * pose.head_pitch, 0.5 * pose.head_yaw)
    skull = 0.125
    centre = vec(0.5, height - 0.03, 0.0) + forward * 0.03
    tube(
        body,
        "head",
        [centre, centre + forward * skull * 0.8],
        [skull, skull * 0.6],
        -0.2,
        tint="belly",
        lateral=near,
        num=10,
    )
    body.landmarks["nose"] = Landmark(centre + forward * skull * 1.25, "head")
    body.landmarks["throat"] = Landmark(centre - up * skull * 0.75 - forward * skull * 0.5, "head")
    for side, sign in SIDES:
        normal = forward * 0.55 + up * 0.35 + near * sign * 0.75
        eye = centre + normal * skull * 0.95
        body.eyes.append(Eye(eye, normal, skull * 0.32))
        body.landmarks[f"{side}_eye"] = Landmark(eye, "head", normal)
        wiggle = 0.06 * np.sin(pose.phase + sign)
        feeler = [centre + up * skull * 0.6, centre + forward * 0.16 + up * 0.2 + near * sign * 0.12]
        feeler.append(centre + forward * (0.34 + wiggle) + up * (0.22 + wiggle) + near * sign * 0.22)
        tube(body, f"{side}_feeler", feeler, [0.016, 0.012, 0.022], -0.1 if sign > 0 else -0.5, tint="dark", num=14)
        for number, (which, x) in enumerate((("front", 0.3), ("middle", 0.02), ("back", -0.24))):
            swing = 0.09 * np.sin(pose.phase + number * np.pi + (0 if sign > 0 else np.pi))
            _add_beetle_leg(body, which, side, sign, x, height, swing)
    return body


def _add_beetle_leg(body: Body, which: str, side: str, sign: float, x: float, height: float, swing: float) -> None:
    reach = {"front": 0.12, "middle": 0.0, "back": -0.15}[which]
    root = vec(x, height - 0.1, sign * 0.17)
    elbow = root + vec(reach * 0.7 + swing * 0.6, 0.02, sign * 0.15)
    knee = elbow + vec(reach * 0.6 + swing, -0.13, sign * 0.08)
    paw = np.array([knee[0] + reach * 0.8 + 0.02 + swing, 0.015, knee[2] + sign * 0.06])
    group, layer = f"{side}_{which}", 1.0 if sign > 0 else -3.0
    tube(body, group, [root, elbow], [0.05, 0.038], layer - 1.5, tint="dark", num=8)
    tube(body, group, [elbow, knee], [0.036, 0.024], layer, tint="dark", num=8)
    tube(body, group, [knee, paw, paw + vec(0.06, -0.005, 0)], [0.024, 0.017, 0.01], layer, tint="dark", num=10)
    if which != "middle":
        for name, point in (("elbow", elbow), ("knee", knee), ("paw", paw)):
            body.landmarks[f"{side}_{which}_{name}"] = Landmark(point, group)
    body.feet.append(np.array([paw[0] + 0.02, 0.0, paw[2]]))


def build_fish(pose: Pose) -> Body:
    """A fish: its breast fins are the front limbs (base is the elbow, end the paw); it has no legs."""
    body = Body()
    bend = 0.14 * np.sin(pose.phase)
    knots = [[-0.55, 0, -bend * 1.4], [-0.34, 0, -bend], [0.0, 0.01, 0], [0.28, 0, 0], [0.5, -0.02, bend * 0.3]]
    trunk = tube(body, "trunk", knots, [0.05, 0.12, 0.25, 0.22, 0.075], 0.0, patterned=1.0, belly=1.0, num=40)
    base = np.array(knots[0])
    away = vec(-1.0, 0.0, -1.6 * bend)
    tips = [base + away * 0.3 + vec(0, 0.27, 0), base + away * 0.2, base + away * 0.3 - vec(0, 0.25, 0)]
    sheet(
        body,
        "tail",
        [base + vec(0.06, 0.03, 0), tips[0], tips[1], tips[2], base + vec(0.06, -0.03, 0)],
        -1.0,
        tint="inner",
    )
    body.landmarks["tail_base"] = Landmark(base, "trunk tail")
    body.landmarks["tail_tip"] = Landmark(base + away * 0.255 + vec(0, 0.2, 0), "tail")
    top = [[0.2, 0.2, 0], [0.02, 0.38, 0], [-0.2, 0.34, 0], [-0.34, 0.21, 0], [-0.3, 0.08, 0]]
    sheet(body, "fin", top, -1.0, tint="inner")
    sheet(body, "fin", [[-0.05, -0.2, 0], [-0.2, -0.36, 0], [-0.3, -0.3, 0], [-0.32, -0.1, 0]], -1.0, tint="inner")
    body.landmarks["nose"] = Landmark(vec(0.545, -0.02, bend * 0.3), "trunk")
    body.landmarks["throat"] = Landmark(trunk.spine[31] + [0, -trunk.radii[31] * 0.8, 0], "trunk")
    flap = 0.5 + 0.35 * np.sin(pose.phase * 2)
    for side, sign in SIDES:
        normal = vec(0.42, 0.3, sign * 0.85)
        eye = vec(0.32, 0.03, bend * 0.2) + normal * 0.155
        body.eyes.append(Eye(eye, normal, 0.048))
        body.landmarks[f"{side}_eye"] = Landmark(eye, "trunk", normal)
        root = vec(0.14, -0.08, sign * 0.19)
        tip = root + vec(-0.2, -0.1 * flap, sign * 0.16 * flap)
        upper, lower = (root + tip) / 2 + vec(0, 0.06, sign * 0.02), (root + tip) / 2 + vec(-0.01, -0.08, 0)
        outline = [
            root + vec(0, 0.02, 0),
            upper,
            tip + vec(0.01, 0.03, 0),
            tip + vec(0.02, -0.04, 0),
            lower,
            root - vec(0, 0.025, 0),
        ]
        sheet(body, f"{side}_front", outline, 1.0 if sign > 0 else -3.0, tint="inner")
        body.landmarks[f"{side}_front_elbow"] = Landmark(root, f"{side}_front")
        body.landmarks[f"{side}_front_paw"] = Landmark(tip * 0.85 + root * 0.15, f"{side}_front")
    return body
