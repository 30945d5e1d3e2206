import json

import pytest

from salvit.data.ap10k import KEYPOINTS, read_ap10k
from salvit.data.coco import read_coco


def test_boxes_are_xywh_and_names_come_from_the_category(write_coco, coco_values):
    dataset = read_coco(write_coco(coco_values))
    first = dataset.records[0]
    assert (first.id, first.species, first.box) == ("000000000007.jpg#0", "antelope", (5.0, 6.0, 45.0, 36.0))
    assert first.names == KEYPOINTS and first.v.tolist()[:3] == [2, 0, 2]
    assert not dataset.report.counts


def test_broken_annotations_are_counted(write_coco, coco_values):
    good = coco_values["annotations"][0]
    coco_values["images"].append({"id": 11})
    coco_values["annotations"] += [
        {**good, "image_id": 99},
        {**good, "category_id": 5},
        {**good, "keypoints": good["keypoints"][:-3]},
        {**good, "bbox": [1, 2, 0, 4]},
        {**good, "bbox": "box"},
        {"image_id": 7},
        {**good, "image_id": 11},
    ]
    root = write_coco({**coco_values, "images": coco_values["images"][:2]})
    (root / "all.json").write_text(json.dumps(coco_values))
    dataset = read_coco(root)
    assert len(dataset.records) == 4
    assert dataset.report.counts == {
        "image id without an image": 1,
        "unknown category": 1,
        "wrong number of keypoints": 1,
        "box of zero size": 1,
        "box is not four numbers": 1,
        "annotation without keypoints": 1,
        "image without a file name": 1,
    }


def test_a_folder_must_hold_exactly_one_file(write_coco, coco_values):
    root = write_coco(coco_values)
    (root / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"exactly one; found: all\.json, other\.json"):
        read_coco(root)
    assert len(read_coco(root / "all.json").records) == 2


def test_a_name_twice_and_the_official_animal_pose_file_are_refused(write_coco, coco_values):
    root = write_coco(coco_values)
    coco_values["categories"][0]["keypoints"][1] = "left_eye"
    (root / "all.json").write_text(json.dumps(coco_values))
    with pytest.raises(ValueError, match="named twice"):
        read_coco(root)
    (root / "all.json").write_text(json.dumps({**coco_values, "images": {}}))
    with pytest.raises(ValueError, match="`images` is not a list"):
        read_coco(root)


def test_ap10k_joins_the_three_files_of_split_1(tmp_path, write_coco, coco_values):
    root = write_coco(coco_values)
    (root / "annotations").mkdir()
    for part in ("train", "val"):
        (root / "annotations" / f"ap10k-{part}-split1.json").write_text(json.dumps(coco_values))
    (root / "annotations" / "ap10k-train-split2.json").write_text("broken")
    dataset = read_ap10k(root)
    assert len(dataset.records) == 4 and dataset.records[0].path == root / "data" / "000000000007.jpg"


def test_ap10k_with_other_keypoints_is_an_error(write_coco, coco_values):
    coco_values["categories"][1]["keypoints"][2] = "snout"
    with pytest.raises(ValueError, match=r"'argali sheep': other keypoints .*unknown: snout"):
        read_ap10k(write_coco(coco_values))


def test_the_real_samples_of_ap10k_and_of_mmpose_are_read(shared_data):
    dataset = read_ap10k(shared_data / "samples" / "mmpose" / "ap10k")
    assert len(dataset.records) == 2 and not dataset.report.counts
    assert dataset.records[0].box == (66.0, 192.0, 1158.0, 704.0)
    assert len(read_coco(shared_data / "samples" / "mmpose" / "animalpose").records) == 2
