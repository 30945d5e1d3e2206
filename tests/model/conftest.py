"""A small model, and an episode of drawn creatures."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from PIL import Image

from salvit.data.creatures import draw_creature
from salvit.data.images import fit_image
from salvit.geometry import fit_square
from salvit.model.build import build_model
from salvit.model.detector import SalViT
from salvit.model.settings import ModelSettings, preset
from salvit.types import Example, FittedImage

SIZES = {"salvit-resnet50": 128, "salvit-dino-s16": 96, "salvit-dinov2": 84, "salvit-lite0": 128}


@dataclass(frozen=True)
class Episode:
    """One support picture and some queries, with the truth."""

    support: Example
    queries: list[FittedImage]
    points_input: torch.Tensor
    valid: torch.Tensor
    boxes: list[tuple[float, float, float, float]]


def tiny(name: str = "salvit-lite0") -> ModelSettings:
    """A preset at a small input, with widths that a test can train in seconds."""
    settings = preset(name)
    return replace(
        settings,
        input_size=SIZES[name],
        # a random network has no running statistics worth using: its activations would grow from layer to layer
        backbone=replace(settings.backbone, bn="episode" if name == "salvit-resnet50" else "running"),
        attention=replace(settings.attention, heads=2, head_channels=32),
        morphology=replace(settings.morphology, embedding_width=32, embedding_channels=32, hidden=32),
        encoder=replace(settings.encoder, token_channels=96, vit_channels=96),
        head=replace(settings.head, channels=64, descriptor_channels=128),
    )


@pytest.fixture(scope="session")
def tiny_settings() -> Callable[..., ModelSettings]:
    return tiny


@pytest.fixture(scope="session")
def tiny_model() -> SalViT:
    torch.manual_seed(0)
    return build_model(tiny(), None)


@pytest.fixture(scope="session")
def creature_episode() -> Callable[..., Episode]:
    """Build an episode at an input size: one support, three queries, keypoints that the support shows."""

    def build(size: int, queries: int = 3) -> Episode:
        creatures = [draw_creature("fox", seed, size_hw=(120, 160), clutter=0.2) for seed in range(1 + queries)]
        images = []
        for creature in creatures:
            image = fit_image(creature.image, size)
            mask = fit_image(Image.fromarray((255 * creature.mask).astype(np.uint8)).convert("RGB"), size)
            images.append(replace(image, saliency=mask.pixels[..., 0].astype(np.float32) / 255))
        points = [image.fit.to_input(creature.points) for image, creature in zip(images, creatures, strict=True)]
        visible = np.stack([creature.v == 2 for creature in creatures])
        return Episode(
            support=Example(images[0], creatures[0].names, points[0], visible[0]),
            queries=images[1:],
            points_input=torch.tensor(np.stack(points[1:]), dtype=torch.float32),
            valid=torch.from_numpy(visible[1:] & visible[0]),
            boxes=[creature.box for creature in creatures[1:]],
        )

    return build


@pytest.fixture(scope="session")
def model_with():
    """Builds a small SalViT with the dynamic head, untrained, some of the head's settings changed, or a body frame."""

    def build(*, body=0, **head):
        settings = preset("salvit-lite0", "swift")
        encoder, changed = replace(settings.encoder, keeps_raw=True, body=body), replace(settings.head, **head)
        torch.manual_seed(0)
        return build_model(replace(settings, input_size=96, saliency="none", encoder=encoder, head=changed), None)

    return build


@pytest.fixture(scope="session")
def picture():
    """Gives a picture of noise by its seed."""

    def draw(seed):
        pixels = np.random.default_rng(seed).integers(0, 256, (96, 96, 3), dtype=np.uint8)
        return FittedImage(pixels, fit_square((0.0, 0.0, 96.0, 96.0), 96), "made up")

    return draw


@pytest.fixture(scope="session")
def example(picture):
    """Gives such a picture with two eyes marked."""

    def mark(seed, visible=(True, True)):
        points = np.array([[20.0, 30.0], [70.0, 60.0]])
        return Example(picture(seed), ("left_eye", "right_eye"), points, np.array(visible))

    return mark
