"""What the drawn species are: proportions, coats and colours. Lengths are in units of the creature's frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

Colour = tuple[int, int, int]
Horn = tuple[tuple[float, float, float], ...]
"""Points of a horn in the head's frame (forward, up, to the side), in skull radii."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quadruped:
    """Proportions of a four-legged animal."""

    length: float = 0.86
    """From hip to chest."""
    hip: float = 0.2
    belly: float = 0.2
    chest: float = 0.22
    sag: float = 0.0
    """How far the belly hangs."""
    withers: float = 0.02
    leg: float = 0.62
    """Height of the hip above the ground."""
    leg_radii: tuple[float, float, float] = (0.12, 0.055, 0.045)
    foot: float = 0.9
    foot_tint: str = "coat"
    socks: str = ""
    neck: float = 0.34
    neck_radius: float = 0.14
    neck_angle: float = 0.75
    head_angle: float = -0.12
    skull: float = 0.155
    snout: float = 0.17
    snout_drop: float = 0.3
    muzzle: float = 0.075
    muzzle_tint: str = "belly"
    muzzle_from: float = 0.72
    """Where along the head the muzzle's colour begins."""
    cheek: float = 0.5
    """Width between skull and muzzle, as a share of their sum."""
    nose: float = 0.5
    eye: float = 0.2
    eye_forward: float = 0.12
    ear: float = 0.2
    ear_width: float = 0.34
    ear_out: float = 0.4
    ear_back: float = 0.15
    ear_tip: str = ""
    round_ears: bool = False
    face_pattern: float = 0.0
    horns: tuple[Horn, ...] = ()
    horn_radius: float = 0.022
    horn_taper: float = 0.5
    horn_tip: str = ""
    crest: float = 0.0
    tail: float = 0.5
    tail_radii: tuple[float, float, float] = (0.05, 0.045, 0.03)
    tail_angle: float = -0.5
    tail_curl: float = 0.7
    tail_tip: str = ""


# fmt: off
QUADRUPEDS: Mapping[str, Quadruped] = {
    "fox": Quadruped(
        length=0.8, hip=0.165, belly=0.155, chest=0.18, leg=0.56, leg_radii=(0.1, 0.048, 0.042), socks="dark",
        neck=0.25, neck_radius=0.135, neck_angle=0.72, skull=0.16, snout=0.19, muzzle=0.052, cheek=0.52, eye=0.19,
        ear=0.24, ear_width=0.42, ear_out=0.36, ear_tip="dark", tail=0.74, tail_radii=(0.05, 0.135, 0.035),
        tail_angle=-0.35, tail_curl=0.55, tail_tip="light", foot_tint="dark",
    ),
    "leopard": Quadruped(
        length=0.96, hip=0.18, belly=0.17, chest=0.2, leg=0.58, leg_radii=(0.125, 0.066, 0.06), foot=0.8, neck=0.26,
        neck_radius=0.14, neck_angle=0.55, skull=0.165, snout=0.09, muzzle=0.085, snout_drop=0.32, cheek=0.53,
        nose=0.4, ear=0.12, ear_width=0.52, ear_out=0.55, round_ears=True, ear_tip="dark", face_pattern=0.5, tail=0.9,
        tail_radii=(0.05, 0.04, 0.04), tail_angle=-0.75, tail_curl=1.3, tail_tip="dark",
    ),
    "deer": Quadruped(
        length=0.76, hip=0.175, belly=0.16, chest=0.18, leg=0.76, leg_radii=(0.105, 0.037, 0.03), foot_tint="dark",
        foot=0.7, neck=0.46, neck_radius=0.095, neck_angle=0.98, skull=0.125, snout=0.17, muzzle=0.055, eye=0.24,
        ear=0.2, ear_width=0.34, ear_out=1.0, tail=0.2, tail_radii=(0.045, 0.05, 0.02), tail_angle=0.1,
        tail_tip="light", horns=(
            ((-0.1, 0.8, 0.3), (-0.5, 1.9, 0.75), (-0.25, 3.0, 1.25), (0.35, 3.8, 1.1)),
            ((-0.38, 1.75, 0.68), (0.3, 2.3, 0.8), (0.65, 2.9, 0.8)),
            ((-0.32, 2.75, 1.12), (-0.8, 3.3, 1.35), (-0.9, 3.9, 1.3)),
        ),
    ),
    "giraffe": Quadruped(
        length=0.62, hip=0.175, belly=0.18, chest=0.2, withers=0.1, leg=0.86, leg_radii=(0.12, 0.052, 0.042),
        foot_tint="dark", foot=0.7, socks="belly", neck=1.05, neck_radius=0.085, neck_angle=1.12, head_angle=-0.3,
        skull=0.11, snout=0.17, muzzle=0.06, eye=0.24, ear=0.15, ear_width=0.3, ear_out=1.15, crest=0.034, tail=0.48,
        tail_radii=(0.028, 0.02, 0.05), tail_angle=-1.15, tail_curl=0.2, tail_tip="dark",
        horns=(((-0.1, 0.8, 0.35), (-0.2, 1.35, 0.42), (-0.25, 1.9, 0.45)),), horn_radius=0.022, horn_taper=1.3,
        horn_tip="dark",
    ),
    "bear": Quadruped(
        length=0.84, hip=0.27, belly=0.27, chest=0.29, sag=0.02, withers=0.05, leg=0.56, leg_radii=(0.17, 0.1, 0.085),
        foot=0.8, neck=0.25, neck_radius=0.2, neck_angle=0.35, skull=0.19, snout=0.18, muzzle=0.085, snout_drop=0.36,
        cheek=0.44, muzzle_from=0.6, eye=0.14, ear=0.1, ear_width=0.6, ear_out=0.6,
        round_ears=True, tail=0.12, tail_radii=(0.07, 0.065, 0.05), tail_angle=-0.3,
    ),
    "zebra": Quadruped(
        length=0.86, hip=0.205, belly=0.2, chest=0.205, leg=0.68, leg_radii=(0.125, 0.05, 0.042), foot_tint="dark",
        foot=0.75, neck=0.46, neck_radius=0.13, neck_angle=0.9, head_angle=-0.5, skull=0.13, snout=0.27, muzzle=0.075,
        muzzle_tint="dark", snout_drop=0.2, eye=0.2, ear=0.15, ear_width=0.34, ear_out=0.3, face_pattern=0.9,
        crest=0.055, tail=0.55, tail_radii=(0.032, 0.024, 0.055), tail_angle=-1.1, tail_curl=0.15, tail_tip="dark",
    ),
    "hare": Quadruped(
        length=0.5, hip=0.22, belly=0.19, chest=0.155, withers=-0.04, leg=0.4, leg_radii=(0.115, 0.055, 0.045),
        foot=1.5, neck=0.17, neck_radius=0.12, neck_angle=0.85, skull=0.145, snout=0.09, muzzle=0.07, cheek=0.52,
        nose=0.38, eye=0.23, ear=0.44, ear_width=0.17, ear_out=0.22, ear_back=0.5, ear_tip="dark", tail=0.12,
        tail_radii=(0.07, 0.085, 0.06), tail_angle=0.5, tail_tip="light",
    ),
}
"""The four-legged species by name."""
# fmt: on

OTHERS: tuple[str, ...] = ("heron", "finch", "lizard", "beetle", "fish")
"""Species with a body plan of their own (:mod:`salvit.data.creature_kinds`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """The colours of one animal."""

    coat: Colour
    belly: Colour
    pattern: Colour
    dark: Colour = (52, 42, 44)
    light: Colour = (248, 242, 230)
    inner: Colour = (226, 158, 148)
    horn: Colour = (196, 168, 128)
    bill: Colour = (236, 162, 60)
    iris: Colour = (34, 26, 30)
    white: Colour = (255, 255, 255)


def _palette(coat: str, belly: str, pattern: str, **others: str) -> Palette:
    values = {"coat": coat, "belly": belly, "pattern": pattern, **others}
    return Palette(**{name: _from_hex(code) for name, code in values.items()})


def _from_hex(code: str) -> Colour:
    return int(code[0:2], 16), int(code[2:4], 16), int(code[4:6], 16)


PALETTES: Mapping[str, tuple[Palette, ...]] = {
    "fox": (
        _palette("d9702c", "f6e6d0", "b4521f", dark="4a2f2a"),
        _palette("c9572f", "f3dcc6", "9c3f24", dark="3c2a2c"),
        _palette("a9a4a8", "f1efec", "807b82", dark="4c484f"),
        _palette("e09a4a", "fbeed8", "bd7630", dark="5a3a2a"),
    ),
    "leopard": (
        _palette("e3ab58", "f8ead0", "4a3226", dark="43302a"),
        _palette("cfc6ba", "f5f1ea", "4e4a50", dark="46434a"),
        _palette("d6914a", "f5dfc0", "3e2a24", dark="3a2a26"),
    ),
    "deer": (
        _palette("b0713f", "f0dcc0", "f3e2c8", dark="4b3830"),
        _palette("c58a52", "f5e5cc", "fbefdb", dark="54403a"),
        _palette("8d6a52", "e3d2bd", "e8d9c6", dark="3f3230"),
    ),
    "giraffe": (
        _palette("f0d9a4", "f8ecd0", "b06a34", dark="5a3c30"),
        _palette("f2dcb4", "f9efda", "8a4f2e", dark="4a3530"),
        _palette("ecca86", "f7e6c2", "c07a3a", dark="5c4030"),
    ),
    "bear": (
        _palette("7c5238", "a87d5a", "5f3d2a", dark="33262a", inner="b58468"),
        _palette("4f4347", "8a7468", "3a3136", dark="241f26", inner="8f7066"),
        _palette("b58a58", "d8b98c", "94683e", dark="43302c", inner="d6a888"),
    ),
    "zebra": (
        _palette("f4efe6", "fffaf2", "37323c", dark="37323c"),
        _palette("efe3d0", "faf2e4", "4c3a38", dark="42343a"),
    ),
    "hare": (
        _palette("a98a6c", "ece0d0", "86694f", dark="4a3c38"),
        _palette("bfb6ae", "f2efeb", "989089", dark="5a5358"),
        _palette("c79a68", "f5e8d4", "a57848", dark="594038"),
    ),
    "heron": (
        _palette("8fa3b5", "eef1f2", "5f7489", dark="38404e", bill="e6a545"),
        _palette("f0ece6", "ffffff", "cfc8c0", dark="5a5660", bill="ec9a4a"),
        _palette("b4788a", "f3dfe2", "8f5568", dark="4c3440", bill="e8b45a"),
    ),
    "finch": (
        _palette("5f8fc0", "f2a35e", "3f6a9a", dark="2e3a4e", bill="e9b452"),
        _palette("d9584a", "f6dcb8", "a93a38", dark="3e2c30", bill="e8c070"),
        _palette("e8c04a", "fbf1cc", "b8902c", dark="423a2c", bill="e88a4a"),
        _palette("6fa86a", "f0e6b0", "4a8050", dark="2e4034", bill="e9a952"),
    ),
    "lizard": (
        _palette("6fae58", "e9ecb0", "3d7a48", dark="34503c"),
        _palette("d08a4a", "f4dfae", "9a5434", dark="5a382e"),
        _palette("4fa0a0", "dcefd2", "2f6c78", dark="2c4854"),
    ),
    "beetle": (
        _palette("d8402e", "3a2c34", "2c242c", dark="2e262e"),
        _palette("2f8f78", "26443f", "1f6458", dark="28343a"),
        _palette("e0a030", "4a3628", "3c2c28", dark="3a2c2a"),
        _palette("5a62b8", "2e3052", "3c4290", dark="2a2a3e"),
    ),
    "fish": (
        _palette("ef8a3c", "fbe3c0", "fdf6ec", dark="4a3a44", inner="e06a34"),
        _palette("4f9fd0", "e6f4f4", "2c6aa8", dark="2c3a54", inner="f0c050"),
        _palette("e6c648", "fbf4d2", "3f4a68", dark="3a3e50", inner="e0973c"),
    ),
}
"""Colours that each species comes in."""

COATS: Mapping[str, tuple[str, ...]] = {
    "fox": ("saddle", "plain"),
    "leopard": ("rosettes", "spots"),
    "deer": ("spots",),
    "giraffe": ("patches",),
    "bear": ("plain", "saddle"),
    "zebra": ("stripes",),
    "hare": ("saddle", "plain", "spots"),
    "heron": ("plain", "saddle"),
    "finch": ("saddle", "plain"),
    "lizard": ("bands", "spots", "rosettes"),
    "beetle": ("spots", "plain"),
    "fish": ("bands", "stripes", "spots"),
}
"""Patterns that each species comes in."""


def jitter_palette(palette: Palette, rng: np.random.Generator) -> Palette:
    """Move all colours a little, together, so that no two animals are alike."""
    gain = rng.uniform(0.93, 1.06)
    shift = rng.uniform(-9, 9, 3)
    values = {}
    for entry in fields(Palette):
        moved = np.clip(np.array(getattr(palette, entry.name)) * gain + shift, 0, 255)
        values[entry.name] = (int(moved[0]), int(moved[1]), int(moved[2]))
    return Palette(**values)
