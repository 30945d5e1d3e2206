"""Small compared methods on a random lite0, and an episode of drawn creatures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from salvit.baselines.build import build_method
from salvit.data.creatures import draw_creature, write_creatures
from salvit.data.images import fit_image
from salvit.geometry import affine_of_fit
from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput
from salvit.model.settings import ModelSettings, preset
from salvit.types import Example, FittedImage

SIZE = 128


@dataclass(frozen=True)
class Episode:
    """One support picture and some queries, with the truth."""

    support: Example
    queries: list[FittedImage]
    points_input: torch.Tensor
    valid: torch.Tensor
    boxes: torch.Tensor
    """Of the support and the queries, in the input."""

    def tensors(self, model: SalViT) -> tuple[EncoderInput, torch.Tensor, torch.Tensor, EncoderInput]:
        """What ``forward`` takes."""
        with torch.no_grad():
            support = model.prepare(*model.tensors([self.support.image]))
            query = model.prepare(*model.tensors(self.queries))
        points = torch.from_numpy(self.support.points_input).float()[None]
        return support, points, torch.from_numpy(self.support.visible)[None], query

    def hits(self, model: SalViT) -> float:
        """Share of keypoints that are found within 0.1 of the longer side of the box, through the public verbs."""
        found = model.detect(model.learn([self.support]), self.queries).points
        fitted = np.stack([image.fit.to_input(row) for image, row in zip(self.queries, found, strict=True)])
        distance = (torch.from_numpy(fitted) - self.points_input).norm(dim=-1)
        sides = (self.boxes[1:, 2:] - self.boxes[1:, :2]).max(1).values
        return float((distance <= 0.1 * sides[:, None])[self.valid].float().mean())


def settings_of(method: str, *, reweight: bool = False, head: str = "flat") -> ModelSettings:
    """``flat``: the paper's head and decoding; ``spatial``: those of the light width."""
    settings = preset("salvit-lite0", "paper" if head == "flat" else "light")
    return replace(
        settings,
        method=method,
        reweight=reweight,
        input_size=SIZE,
        encoder=replace(settings.encoder, feature_channels=64),
        head=replace(settings.head, channels=32, descriptor_channels=64),
    )


@pytest.fixture(scope="session")
def small() -> Callable[..., SalViT]:
    """Build a small method with random weights."""

    def build(method: str, **options: object) -> SalViT:
        torch.manual_seed(0)
        return build_method(settings_of(method, **options), None)  # type: ignore[arg-type]

    return build


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with drawings of four species in ``data``; beside them tokens may be cached."""
    folder = tmp_path_factory.mktemp("drawn")
    write_creatures(folder / "data", ("fox", "leopard", "deer", "giraffe"), 12, 0, size_hw=(120, 160))
    return folder


@pytest.fixture(scope="session")
def episode() -> Episode:
    creatures = [draw_creature("fox", seed, size_hw=(120, 160), clutter=0.2) for seed in range(3)]
    images = []
    for creature in creatures:
        image = fit_image(creature.image, SIZE)
        mask = fit_image(Image.fromarray((255 * creature.mask).astype(np.uint8)).convert("RGB"), SIZE)
        images.append(replace(image, saliency=mask.pixels[..., 0].astype(np.float32) / 255))
    points = [image.fit.to_input(creature.points) for image, creature in zip(images, creatures, strict=True)]
    visible = np.stack([creature.v == 2 for creature in creatures])
    boxes = [affine_of_fit(image.fit).bounds(one.box) for image, one in zip(images, creatures, strict=True)]
    return Episode(
        support=Example(images[0], creatures[0].names, points[0], visible[0]),
        queries=images[1:],
        points_input=torch.tensor(np.stack(points[1:]), dtype=torch.float32),
        valid=torch.from_numpy(visible[1:] & visible[0]),
        boxes=torch.tensor(boxes, dtype=torch.float32),
    )
