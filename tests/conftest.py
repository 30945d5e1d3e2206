"""Fixtures that all tests share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """Two busy processes with two threads each on two cores run many times slower than one."""
    import torch

    from salvit.memory import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data sets; only some machines have them."""
    folder = os.environ.get("SALVIT_DATA")
    if not folder:
        pytest.skip("real data sets are not here: SALVIT_DATA is not set")
    return Path(folder)


MARKS = {"nose": (60.0, 80.0), "tail": (250.0, 150.0), "paw": (120.0, 200.0)}


def paint(seed: int = 0, size: tuple[int, int] = (320, 240)) -> Image.Image:
    """A textured picture in which each of MARKS has a look of its own."""
    rng = np.random.default_rng(seed)
    noise = Image.fromarray(rng.integers(90, 150, size=(size[1] // 8, size[0] // 8, 3), dtype=np.uint8))
    image = noise.resize(size, Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    for (x, y), colour in zip(MARKS.values(), ("red", "blue", "yellow"), strict=True):
        pen.ellipse((x - 14, y - 14, x + 14, y + 14), fill=colour, outline="black", width=3)
    return image


@pytest.fixture
def picture() -> Callable[..., Image.Image]:
    return paint


@pytest.fixture
def marked_folder(tmp_path: Path) -> Path:
    """A folder with one marked picture (support.json and support.csv) and three others in queries/."""
    paint(0).save(tmp_path / "support.png")
    (tmp_path / "queries").mkdir()
    for seed in (1, 2, 3):
        paint(seed).save(tmp_path / "queries" / f"{seed}.png")
    coco = {
        "images": [{"id": 7, "file_name": "support.png", "width": 320, "height": 240}],
        "categories": [{"id": 1, "name": "thing", "keypoints": list(MARKS), "skeleton": [[1, 2]]}],
        "annotations": [
            {
                "id": 1,
                "image_id": 7,
                "category_id": 1,
                "bbox": [40, 60, 230, 160],
                "keypoints": [value for x, y in MARKS.values() for value in (x, y, 2)],
            }
        ],
    }
    (tmp_path / "support.json").write_text(json.dumps(coco))
    rows = [f"support.png,{name},{x},{y}" for name, (x, y) in MARKS.items()]
    (tmp_path / "support.csv").write_text("image,keypoint,x,y\n" + "\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture(scope="session")
def match():  # type: ignore[no-untyped-def]
    """The default detector, loaded once."""
    from salvit.predict import load

    return load("match", device="cpu")
