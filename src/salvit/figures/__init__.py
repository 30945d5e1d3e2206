"""Figures of a model on a frozen list, drawn by a seed and not by choice: ``salvit figures``."""

from __future__ import annotations

from typing import Literal, get_args

from salvit.figures.ground import Ground
from salvit.figures.sheet import Sheet, save_sheet
from salvit.types import Detector

FigureName = Literal["qualitative", "worst", "occlusions", "saliency", "powers"]
FIGURES: tuple[str, ...] = get_args(FigureName)

__all__ = ["FIGURES", "Ground", "Sheet", "make_figure", "save_sheet", "why_not"]


def why_not(name: str, detector: Detector) -> str | None:
    """Why a detector cannot give a figure; None where it can."""
    from salvit.figures.powers import why_no_powers

    return why_no_powers(detector) if name == "powers" else None


def make_figure(name: str, ground: Ground) -> Sheet:
    """The sheet of one figure."""
    match name:
        case "qualitative":
            from salvit.figures.qualitative import qualitative

            return qualitative(ground)
        case "worst":
            from salvit.figures.worst import worst

            return worst(ground)
        case "occlusions":
            from salvit.figures.occlusions import occlusions

            return occlusions(ground)
        case "saliency":
            from salvit.figures.saliency import saliency

            return saliency(ground)
        case "powers":
            from salvit.figures.powers import powers

            return powers(ground)
    raise ValueError(f"unknown figure {name!r}; known: {', '.join(FIGURES)}")
