import json

import pytest

from salvit.data.deepfashion2 import CATEGORIES, NUM_LANDMARKS, landmark_names, read_deepfashion2


def garment(category_id: int, shift: int = 0) -> dict:
    count = CATEGORIES[category_id][1]
    landmarks = [value for index in range(count) for value in (index + shift, 10 + index, 1 + index % 2)]
    return {"landmarks": landmarks, "bounding_box": [0, 5, 60, 55], "category_id": category_id, "style": 0}


@pytest.fixture
def root(tmp_path, image_at):
    for part in ("train", "validation"):
        image_at(tmp_path / part / "image" / "000001.jpg")
        (tmp_path / part / "annos").mkdir()
        items = {"item2": garment(8), "source": "user", "pair_id": 1, "item1": garment(1)}
        (tmp_path / part / "annos" / "000001.json").write_text(json.dumps(items))
    return tmp_path


def test_the_13_categories_have_294_landmarks():
    assert NUM_LANDMARKS == 294
    assert len({name for category_id in CATEGORIES for name in landmark_names(category_id)}) == 294


def test_there_is_one_record_for_each_garment_with_its_own_landmarks(root):
    dataset = read_deepfashion2(root)
    assert [record.id for record in dataset.records] == [
        "train/image/000001.jpg#0",
        "train/image/000001.jpg#1",
        "validation/image/000001.jpg#0",
        "validation/image/000001.jpg#1",
    ]
    top, trousers = dataset.records[:2]
    assert (top.species, len(top.names), trousers.species, len(trousers.names)) == (
        "short_sleeve_top",
        25,
        "trousers",
        14,
    )
    assert trousers.names[0] == "trousers_01" and trousers.v.tolist()[:3] == [1, 2, 1]
    assert trousers.box == (0.0, 5.0, 60.0, 55.0)


def test_broken_files_and_garments_are_counted(root):
    annos = root / "train" / "annos"
    (annos / "000002.json").write_text('{"item1": {')
    (annos / "000003.json").write_text(json.dumps({"source": "shop"}))
    bad = {"item1": {**garment(8), "category_id": 20}, "item2": {**garment(8), "landmarks": [1]}, "item3": 4}
    (annos / "000004.json").write_text(json.dumps(bad))
    dataset = read_deepfashion2(root)
    assert dataset.num_images == 5 and len(dataset.records) == 4
    assert dataset.report.counts == {
        "annotation file that cannot be read": 1,
        "annotation without a garment": 1,
        "unknown category": 1,
        "wrong number of keypoints": 1,
        "garment that is not an object": 1,
    }


def test_the_real_annotation_has_a_top_and_trousers(shared_data):
    dataset = read_deepfashion2(shared_data / "samples" / "deepfashion2", keep_missing=True)
    top, trousers = dataset.records
    assert (top.species, trousers.species) == ("short_sleeve_top", "trousers")
    assert trousers.points[0].tolist() == [251.0, 520.0] and trousers.v[0] == 1


def test_the_real_coco_conversion_gives_37_landmarks_of_a_dress(shared_data):
    dataset = read_deepfashion2(shared_data / "samples" / "mmpose" / "deepfasion2")
    assert [record.species for record in dataset.records] == ["long_sleeve_dress"] * 2
    assert dataset.records[0].points.shape == (37, 2) and dataset.records[0].visible.sum() == 28
