import json

import pytest

from salvit.data.animal_pose import KEYPOINTS, read_animal_pose


def test_a_small_copy_is_read_with_v_1_as_visible(animal_pose_root):
    dataset = read_animal_pose(animal_pose_root)
    assert (dataset.num_images, len(dataset.records)) == (61, 62)
    first = dataset.records[0]
    assert (first.id, first.species, first.box) == ("000.png#0", "dog", (8.0, 8.0, 72.0, 52.0))
    assert first.names == KEYPOINTS and first.v[16] == 2 and first.v[17] == 0 and first.image_hw == (60, 80)
    assert [record.id for record in dataset.records[-2:]] == ["060.png#0", "060.png#1"]
    assert not dataset.report.counts


def test_truncated_json_is_an_error(animal_pose_root):
    file = animal_pose_root / "keypoints.json"
    file.write_text(file.read_text()[:500])
    with pytest.raises(ValueError, match=r"keypoints\.json is not complete JSON"):
        read_animal_pose(animal_pose_root)


def test_a_coco_conversion_and_a_file_without_its_keys_are_refused(animal_pose_root, animal_pose_values):
    file = animal_pose_root / "keypoints.json"
    file.write_text(json.dumps({**animal_pose_values, "images": []}))
    with pytest.raises(ValueError, match="data set name `coco`"):
        read_animal_pose(animal_pose_root)
    file.write_text("[]")
    with pytest.raises(ValueError, match="images, annotations, categories missing"):
        read_animal_pose(animal_pose_root)


def test_unknown_keypoint_names_are_an_error_that_names_them(animal_pose_root, animal_pose_values):
    animal_pose_values["categories"][0]["keypoints"][2] = "snout"
    (animal_pose_root / "keypoints.json").write_text(json.dumps(animal_pose_values))
    with pytest.raises(ValueError, match="unknown: snout"):
        read_animal_pose(animal_pose_root)


def test_every_broken_annotation_is_counted_and_skipped(animal_pose_root, animal_pose_values):
    good = animal_pose_values["annotations"][0]
    animal_pose_values["annotations"] = [
        good,
        {**good, "image_id": 999},
        {**good, "category_id": 9},
        {**good, "keypoints": [[1, 2, 1]]},
        {**good, "bbox": [8, 8, 8, 52]},
        {"image_id": 1},
        "text",
    ]
    animal_pose_values["images"]["7"] = "../outside.png"
    animal_pose_values["annotations"].append({**good, "image_id": 7})
    (animal_pose_root / "keypoints.json").write_text(json.dumps(animal_pose_values))
    dataset = read_animal_pose(animal_pose_root)
    assert len(dataset.records) == 2 and dataset.records[1].is_box_from_points
    assert dataset.report.counts == {
        "image id without an image": 1,
        "unknown category": 1,
        "wrong number of keypoints": 1,
        "box of zero size": 1,
        "annotation without image_id, category_id or keypoints": 1,
        "entry that is not an object": 1,
        "file name leaves the folder": 1,
    }


def test_the_real_set_has_4608_images_and_6117_instances(real_animal_pose):
    dataset = real_animal_pose
    assert (dataset.num_images, len(dataset.records)) == (4608, 6117)
    assert len({record.path for record in dataset.records}) == 4608
    outside = dataset.report.counts["keypoint outside the image"]
    assert sum(int(record.visible.sum()) for record in dataset.records) + outside == 71_294
    assert set(dataset.report.counts) == {"keypoint outside the image", "no keypoint"}
