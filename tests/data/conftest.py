"""Small, format-true copies of the data sets, written anew for each test."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from salvit.data.animal_pose import KEYPOINTS as ANIMAL_KEYPOINTS
from salvit.data.ap10k import KEYPOINTS as AP10K_KEYPOINTS
from salvit.data.awa_pose import KEYPOINTS as AWA_KEYPOINTS
from salvit.data.cub import PARTS as CUB_PARTS
from salvit.data.datasets import read_dataset
from salvit.data.nabirds import PARTS as NABIRDS_PARTS
from salvit.data.records import DataSet
from salvit.data.splits import Problem, make_problem
from salvit.types import Record

SPECIES = ("dog", "cat", "sheep", "horse", "cow")


def write_image(path: Path, hw: tuple[int, int] = (60, 80), seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (*hw, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return path


@pytest.fixture(scope="session")
def real_animal_pose(shared_data: Path) -> DataSet:
    return read_dataset("animal_pose", shared_data / "animal_pose")


@pytest.fixture(scope="session")
def real_cub(shared_data: Path) -> DataSet:
    return read_dataset("cub", shared_data / "cub")


@pytest.fixture
def image_at() -> Callable[..., Path]:
    return write_image


@pytest.fixture
def animal_pose_values() -> dict:
    """Five species with 12 images each, then one image that shows a horse and a cow."""
    images, annotations = {}, []
    for number in range(61):
        name = f"{number:03d}.png"
        images[str(number)] = name
        rng = np.random.default_rng(number)
        shown = [number % 5] if number < 60 else [3, 4]
        for category in shown:
            triples = [[int(x), int(y), 1] for x, y in rng.uniform((10, 10), (69, 49), (20, 2))]
            if number % 4 == 0:
                triples[17] = [0, 0, 0]
            annotations.append(
                {
                    "image_id": number,
                    "bbox": [8, 8, 72, 52],
                    "keypoints": triples,
                    "num_keypoints": 20,
                    "category_id": category + 1,
                }
            )
    categories = [
        {"id": index, "name": name, "keypoints": list(ANIMAL_KEYPOINTS), "skeleton": [[0, 1]]}
        for index, name in enumerate(SPECIES, start=1)
    ]
    return {"images": images, "annotations": annotations, "categories": categories, "info": {}}


@pytest.fixture
def write_animal_pose(tmp_path: Path) -> Callable[[dict], Path]:
    def write(values: dict) -> Path:
        root = tmp_path / "animal_pose"
        for number, name in values["images"].items():
            write_image(root / "images" / name, seed=int(number))
        (root / "keypoints.json").write_text(json.dumps(values))
        return root

    return write


@pytest.fixture
def animal_pose_root(write_animal_pose, animal_pose_values) -> Path:
    return write_animal_pose(animal_pose_values)


@pytest.fixture
def cow_problem(animal_pose_root) -> Problem:
    from salvit.data.animal_pose import read_animal_pose

    return make_problem(read_animal_pose(animal_pose_root), "cow")


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """One record: left eye, right eye and nose on an image of 80×60."""
    path = write_image(tmp_path / "one.png")
    points = np.array([[50.0, 20.0], [30.0, 22.0], [40.0, 35.0]])
    names = ("left_eye", "right_eye", "nose")
    return Record(
        "one.png#0", path, "cow", names, points, np.array([2, 2, 2]), (20.0, 10.0, 60.0, 50.0), False, (60, 80)
    )


def write_birds(root: Path, rows: list[tuple[str, str, str]], parts: list[str], first: int, end: str = "\n") -> Path:
    """CUB's text files for rows of (image id, file, class id)."""
    lines: dict[str, list[str]] = {"images": [], "image_class_labels": [], "bounding_boxes": [], "parts/part_locs": []}
    for number, (image_id, file, class_id) in enumerate(rows):
        write_image(root / "images" / file, seed=number)
        lines["images"].append(f"{image_id} {file}")
        lines["image_class_labels"].append(f"{image_id} {class_id}")
        lines["bounding_boxes"].append(f"{image_id} 10.0 5.0 60.0 50.0")
        for part in range(len(parts)):
            visible = int(part != 2)
            lines["parts/part_locs"].append(f"{image_id} {part + first} {10 + part} {20 + part} {visible}")
    lines["parts/parts"] = [f"{index + first} {name}" for index, name in enumerate(parts)]
    (root / "parts").mkdir(parents=True, exist_ok=True)
    for name, content in lines.items():
        (root / f"{name}.txt").write_bytes((end.join(content) + end).encode())
    return root


@pytest.fixture
def write_cub(tmp_path: Path) -> Callable[..., Path]:
    def write(end: str = "\n", spaced: bool = False) -> Path:
        root = tmp_path / "CUB_200_2011"
        classes = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
        rows = [(str(i), f"{classes[i % 2]}/bird_{i}.jpg", str(i % 2 + 1)) for i in range(1, 7)]
        parts = [part.replace("_", " ") if spaced else part for part in CUB_PARTS]
        write_birds(root, rows, parts, 1, end)
        text = end.join(f"{index} {name}" for index, name in enumerate(classes, start=1)) + end
        (root / "classes.txt").write_bytes(text.encode())
        return root

    return write


@pytest.fixture
def nabirds_root(tmp_path: Path) -> Path:
    root = tmp_path / "nabirds"
    rows = [
        ("0000139e-21dc-4d0c-bfe1-4cae3c85c829", "0817/0000139e21dc4d0cbfe14cae3c85c829.jpg", "817"),
        ("0000d9fc-4e02-4c06-a0af-a55cfb16b12b", "0328/0000d9fc4e024c06a0afa55cfb16b12b.jpg", "328"),
    ]
    write_birds(root, rows, [part.replace("_", " ") for part in NABIRDS_PARTS], 0)
    classes = ["0 Birds", "1 Ducks, Geese, and Swans", "328 Blue-winged Teal  (Male)", "817 Mallard (Breeding male)"]
    (root / "classes.txt").write_text("\n".join(classes) + "\n")
    (root / "hierarchy.txt").write_text("1 0\n")
    return root


@pytest.fixture
def awa_animal() -> dict:
    """One animal as the pickles hold it: the nose at (30, 20), an absent eye, a box."""
    animal: dict = {name: [float(index), float(index) + 1] for index, name in enumerate(AWA_KEYPOINTS)}
    return {**animal, "nose": [30.0, 20.0], "right_eye": [-1, -1], "bbox": [5.5, 4.0, 70.25, 50.0]}


@pytest.fixture
def awa_root(tmp_path: Path, awa_animal: dict) -> Path:
    """Form (a): an image of two animals, the second without a box."""
    second = {key: value for key, value in awa_animal.items() if key != "bbox"}
    folder = tmp_path / "awa" / "Annotations" / "zebra"
    folder.mkdir(parents=True)
    (folder / "zebra_10001.pickle").write_bytes(pickle.dumps({"a1": awa_animal, "a2": second}))
    write_image(tmp_path / "awa" / "JPEGImages" / "zebra" / "zebra_10001.jpg")
    return tmp_path / "awa"


@pytest.fixture
def coco_values() -> dict:
    """AP-10K's form: two images, one annotation each."""
    triples = [[10 + i, 20 + i, 2] for i in range(17)]
    triples[1] = [0, 0, 0]
    flat = [value for triple in triples for value in triple]
    return {
        "info": {},
        "licenses": [],
        "images": [
            {"license": 1, "id": 7, "file_name": "000000000007.jpg", "width": 80, "height": 60, "background": 5},
            {"license": 1, "id": 9, "file_name": "000000000009.jpg", "width": 80, "height": 60, "background": 1},
        ],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 1, "bbox": [5, 6, 40, 30], "iscrowd": 0, "keypoints": flat},
            {"id": 2, "image_id": 9, "category_id": 2, "bbox": [5, 6, 40, 30], "iscrowd": 0, "keypoints": flat},
        ],
        "categories": [
            {"id": 1, "name": "antelope", "supercategory": "Bovidae", "keypoints": list(AP10K_KEYPOINTS)},
            {"id": 2, "name": "argali sheep", "supercategory": "Bovidae", "keypoints": list(AP10K_KEYPOINTS)},
        ],
    }


@pytest.fixture
def write_coco(tmp_path: Path) -> Callable[[dict], Path]:
    def write(values: dict) -> Path:
        for image in values["images"]:
            write_image(tmp_path / "coco" / "data" / image["file_name"])
        (tmp_path / "coco" / "all.json").write_text(json.dumps(values))
        return tmp_path / "coco"

    return write
