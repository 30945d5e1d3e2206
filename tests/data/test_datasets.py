import json

import numpy as np
import pytest

from salvit.data.datasets import read_dataset


def test_a_set_is_read_by_its_name(animal_pose_root, nabirds_root, awa_root, write_cub):
    for name, root in (
        ("animal_pose", animal_pose_root),
        ("nabirds", nabirds_root),
        ("awa_pose", awa_root),
        ("cub", write_cub()),
    ):
        assert read_dataset(name, root).name == name


def test_creatures_are_a_coco_file(write_coco, coco_values):
    assert read_dataset("creatures", write_coco(coco_values)).name == "creatures"


def test_an_unknown_name_or_folder_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="unknown data set 'cup'; known: animal_pose, cub"):
        read_dataset("cup", tmp_path)
    with pytest.raises(ValueError, match="does not exist; expected the folder of cub"):
        read_dataset("cub", tmp_path / "none")


JUNK = (None, [], {}, "x", -1, 1e400, float("nan"), [1, 2], {"a": 1}, True, "../x", [[]], 10**30, "")


def places(values, path=()):
    """Every place in nested values, the first three of a list."""
    for key in list(values) if isinstance(values, dict) else range(min(3, len(values))):
        yield (*path, key)
        if isinstance(values[key], dict | list):
            yield from places(values[key], (*path, key))


@pytest.mark.parametrize("name", ["animal_pose", "coco", "ap10k", "deepfashion2"])
def test_junk_anywhere_in_a_json_file_is_counted_or_a_clear_error(
    name, animal_pose_values, write_animal_pose, coco_values, write_coco, tmp_path
):
    if name == "animal_pose":
        values = {**animal_pose_values, "annotations": animal_pose_values["annotations"][:2]}
        root = write_animal_pose(values)
        file = root / "keypoints.json"
    elif name == "deepfashion2":
        annotation = {**coco_values["annotations"][0], "category_id": 9, "keypoints": [5, 6, 2] * 294}
        values = {**coco_values, "annotations": [annotation], "categories": []}
        root = write_coco(values)
        file = root / "all.json"
    else:
        values, root = coco_values, write_coco(coco_values)
        file = root / "all.json"
    rng = np.random.default_rng(0)
    for path in places(values):
        broken = json.loads(json.dumps(values))
        inner = broken
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = JUNK[rng.integers(len(JUNK))]
        file.write_text(json.dumps(broken))
        try:
            assert read_dataset(name, root, keep_missing=True).records
        except ValueError as problem:
            assert str(file.parent) in str(problem), path  # ours, with the place, not one of Python's own
