"""A finder for a model that was trained without one: it learns from the boxes of the model's own training pictures.

Everything else of the model stays as it is, so this costs one glance at each picture and a few minutes.

Letters: R pictures · C, H, W of the tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from salvit.data.splits import Problem, Role, check_allowed
from salvit.data.views import load_view
from salvit.features import Track, ViewSettings, draw_cached_view
from salvit.model.detector import SalViT
from salvit.model.finder import Finder, iou
from salvit.recipes import Recipe
from salvit.types import Record

_BATCH = 16
_RATE, _DECAY = 2e-3, 0.05


@dataclass(frozen=True, slots=True)
class Glances:
    """What a finder learns from."""

    tokens: Tensor
    """(R, C, H, W) float16."""
    boxes: Tensor
    """(R, 4) in the input."""

    def mirrored(self, rows: Tensor, input_size: int, *, is_mirrored: bool) -> tuple[Tensor, Tensor]:
        """Some of them as float32, mirrored if asked."""
        tokens, boxes = self.tokens[rows].float(), self.boxes[rows]
        if is_mirrored:
            x1, y1, x2, y2 = boxes.unbind(1)
            tokens, boxes = tokens.flip(-1), torch.stack([input_size - x2, y1, input_size - x1, y2], dim=1)
        return tokens, boxes


def glance_at(
    model: SalViT, recipe: Recipe, problems: Sequence[Problem], role: Role, pictures: int, *, track: Track
) -> Glances:
    """Tokens and boxes of views of each data set: at most so many pictures of each, drawn by the recipe's seed."""
    rows: list[tuple[Record, Problem, ViewSettings]] = []
    for data, problem in zip(recipe.datasets, problems, strict=True):
        records = problem.records[role]
        check_allowed(problem, "train" if role == "train" else "tune", records)
        rng = np.random.default_rng(np.random.SeedSequence([recipe.train.seed, len(rows)]))
        crop = (data.train_crop or data.crop) if role == "train" else data.crop
        augment = data.augment if role == "train" else None
        shown = ViewSettings(crop=crop, views=1, seed=recipe.train.seed, augment=augment)
        chosen = rng.permutation(len(records))[:pictures]
        rows += [(records[number], problem, shown) for number in chosen]
    if not rows:
        names = ", ".join(problem.name for problem in problems)
        raise ValueError(f"{names}: no {role} pictures, so a finder cannot be taught and judged; take more pictures")
    tokens, boxes = [], []
    starts = range(0, len(rows), _BATCH)
    for start in track(starts, len(starts), f"looking at {role} pictures"):
        part = rows[start : start + _BATCH]
        views = [draw_cached_view(record, problem, shown, 0) for record, problem, shown in part]
        loaded = [load_view(view, model.input_size, ()) for view in views]
        pixels = torch.from_numpy(np.stack([one.pixels for one in loaded])).to(model.device)
        tokens.append(model.glance(pixels.permute(0, 3, 1, 2).float() / 255.0).half().cpu())
        boxes += [one.box_input for one in loaded]
    return Glances(torch.cat(tokens), torch.tensor(boxes, dtype=torch.float32))


def teach(finder: Finder, glances: Glances, input_size: int, *, epochs: int, seed: int, track: Track) -> None:
    """Train a finder; mirrored tokens stand for those of mirrored pictures in half of the steps."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(finder.parameters(), lr=_RATE, weight_decay=_DECAY)
    device, each = next(finder.parameters()).device, max(1, len(glances.boxes) // _BATCH)
    finder.train()
    for step in track(range(epochs * each), epochs * each, "teaching the finder"):
        if step % each == 0:
            order = torch.randperm(len(glances.boxes), generator=generator)
        rows = order[step % each * _BATCH : (step % each + 1) * _BATCH]
        is_mirrored = bool(torch.rand((), generator=generator) < 0.5)
        tokens, boxes = glances.mirrored(rows, input_size, is_mirrored=is_mirrored)
        for group in optimizer.param_groups:
            group["lr"] = _RATE * 0.5 * (1 + math.cos(math.pi * step / (epochs * each)))
        loss = finder.loss(tokens.to(device), boxes.to(device), input_size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    finder.eval()


def judge(finder: Finder, glances: Glances, input_size: int) -> Tensor:
    """IoU of the found with the true boxes: (R,)."""
    device = next(finder.parameters()).device
    parts = [finder.find(part.float().to(device), input_size) for part in glances.tokens.split(_BATCH)]
    return iou(torch.tensor([box for part in parts for box in part]), glances.boxes)
