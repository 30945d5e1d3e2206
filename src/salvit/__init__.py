"""Find any keypoints in any pictures from one to five marked examples.

Public names; everything else may change. They are imported on first use, so that ``import salvit`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from salvit.data.support import Support, read_support
    from salvit.demo import demo_queries, demo_support
    from salvit.draw import draw_detection
    from salvit.packs import load_pack, save_pack
    from salvit.predict import detect, find_images, learn, load
    from salvit.types import Detection, Detector, Failure, Pack, Prediction

__version__ = "0.1.0"

__all__ = [
    "Detection",
    "Detector",
    "Failure",
    "Pack",
    "Prediction",
    "Support",
    "demo_queries",
    "demo_support",
    "detect",
    "draw_detection",
    "find_images",
    "learn",
    "load",
    "load_pack",
    "read_support",
    "save_pack",
]

_HOME = {
    "salvit.data.support": ("Support", "read_support"),
    "salvit.demo": ("demo_queries", "demo_support"),
    "salvit.draw": ("draw_detection",),
    "salvit.packs": ("load_pack", "save_pack"),
    "salvit.predict": ("detect", "find_images", "learn", "load"),
    "salvit.types": ("Detection", "Detector", "Failure", "Pack", "Prediction"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            import importlib

            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'salvit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
