"""Powers of saliency set by hand beside the one that a SalViT learnt for the picture (paper Sec. 3.2.3).

Letters: B images · T blocks · H, W cells.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from salvit.data.augment import View
from salvit.encoded_lists import fit_view
from salvit.figures.ground import Ground
from salvit.figures.panels import draw_map
from salvit.figures.sheet import Panel, Row, Sheet
from salvit.model.detector import SalViT
from salvit.model.morphology import power_normalise
from salvit.model.saliency_mask import downscale
from salvit.types import Detector

BY_HAND = (0.2, 0.5, 0.7, 1.0, 2.0)
PICTURES, TILE, BINS, BATCH = 4, 200, 40, 16


def why_no_powers(detector: Detector) -> str | None:
    """Why a detector has no exponents to show; None where it has."""
    if not isinstance(detector, SalViT) or not detector.encoder.uses_saliency:
        return f"{detector.name} does not shape any saliency, so it has no exponents"
    if detector.settings.morphology.mode != "learned":
        return f"{detector.name} does not learn its exponents (morphology.mode = {detector.settings.morphology.mode!r})"
    return None


def powers(ground: Ground) -> Sheet:
    """A row for each picture: itself, powers by hand, what was learnt; below, the exponents of all pictures."""
    if (reason := why_no_powers(ground.detector)) is not None:
        raise ValueError(f"{reason}; this figure is for a SalViT that learns them")
    assert isinstance(ground.detector, SalViT)
    rows = ground.listed.values["episodes"]
    ids = sorted({record for row in rows for record in (*row["supports"], *row["queries"])})
    drawn = ground.rng("powers").choice(len(ids), min(PICTURES, len(ids)), replace=False)
    shown = [_picture_row(ground, ground.detector, ground.listed.view(ids[number])) for number in sorted(drawn)]
    learnt = []
    batches = [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
    for batch in ground.track(batches, len(batches), "exponents"):
        learnt.append(_shape(ground, ground.detector, [ground.listed.view(name) for name in batch])[2])
    exponents = torch.cat(learnt).numpy()  # (pictures, T)
    width = (len(BY_HAND) + 2) * (TILE + 8) - 8
    bound = ground.detector.settings.morphology.bound
    means = ", ".join(f"{value:.2f}" for value in exponents.mean(0))
    told = f"{len(exponents)} pictures; mean {means}, from {exponents.min():.2f} to {exponents.max():.2f}"
    histogram = Row((Panel(draw_histogram(exponents, bound, width), told),), "Learnt exponents")
    note = "Saliency on the grid of tokens, kept in 0.02 to 0.98 before it is raised to the power. White: 1."
    return Sheet(ground.title("Powers of saliency"), (*shown, histogram), note)


def _picture_row(ground: Ground, model: SalViT, view: View) -> Row:
    low, masks, exponents = _shape(ground, model, [view])
    pixels = Image.fromarray(fit_view(view, None, TILE, None).pixels)
    panels = [Panel(pixels, view.record.species)]
    for exponent in BY_HAND:
        panels.append(Panel(_enlarged(power_normalise(low[0], exponent)), f"power {exponent:g}"))
    learnt = ", ".join(f"{value:.2f}" for value in exponents[0].tolist())
    panels.append(Panel(_enlarged(masks[0, -1]), f"learnt: {learnt}"))
    return Row(tuple(panels))


@torch.no_grad()
def _shape(ground: Ground, model: SalViT, views: list[View]) -> tuple[Tensor, Tensor, Tensor]:
    """Saliency of the patches (B, H, W), the same after each block's learner (B, T, H, W), exponents (B, T)."""
    images = [fit_view(view, None, model.input_size, ground.saliency_of) for view in views]
    batch = model.prepare(*model.tensors(images))
    output = model.encoder(batch)
    assert batch.saliency is not None and output.masks is not None and output.exponents is not None
    low = downscale(batch.saliency, model.encoder.grid_hw)
    return low.cpu(), output.masks.cpu(), output.exponents.cpu()


def _enlarged(plane: Tensor) -> Image.Image:
    """Cells as they are, without smoothing."""
    small = draw_map(plane.numpy(), plane.shape[1])
    return small.resize((TILE, TILE), Image.Resampling.NEAREST)


def draw_histogram(exponents: npt.NDArray[np.float32], bound: float, width: int, height: int = 170) -> Image.Image:
    """Bars of the last block's exponents from 0 to their bound, with the powers by hand as ticks."""
    image = Image.new("RGB", (width, height), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=14.0)
    counts, edges = np.histogram(exponents[:, -1], BINS, (0.0, bound))
    left, right, top, bottom = 40, width - 20, 22, height - 26

    def across(value: float) -> float:
        return left + value / bound * (right - left)

    for count, start, end in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            bar = bottom - (bottom - top) * count / counts.max()
            pen.rectangle((across(start) + 1, bar, across(end) - 1, bottom), fill=(0, 114, 178))
            pen.text(((across(start) + across(end)) / 2, bar - 2), str(count), (90, 96, 108), font, "ms")
    pen.line((left, bottom, right, bottom), fill=(20, 24, 32), width=1)
    for value in (0.0, *(value for value in BY_HAND if value <= bound)):
        pen.line((across(value), bottom, across(value), bottom + 5), fill=(20, 24, 32))
        pen.text((across(value), bottom + 8), f"{value:g}", (20, 24, 32), font, "ma")
    return image
