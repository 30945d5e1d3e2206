import json

import numpy as np

from salvit.data.animal_pose import read_animal_pose
from salvit.data.coco import read_coco
from salvit.data.export import to_coco
from salvit.data.splits import read_split


def test_what_is_written_is_read_back(animal_pose_root, tmp_path):
    records = read_animal_pose(animal_pose_root).records
    out = tmp_path / "elsewhere" / "coco.json"
    out.parent.mkdir()
    values = to_coco(records, out.parent, read_split("animal_pose").skeleton)
    out.write_text(json.dumps(values))
    assert (len(values["images"]), len(values["annotations"]), len(values["categories"])) == (61, 62, 5)
    again = read_coco(out).records
    for one, two in zip(records, again, strict=True):
        assert (one.species, one.names, one.box, one.image_hw) == (two.species, two.names, two.box, two.image_hw)
        assert two.path.samefile(one.path)
        assert (one.v == two.v).all() and (one.points[one.visible] == two.points[two.visible]).all()


def test_boxes_are_xywh_ids_and_the_skeleton_count_from_1_and_missing_points_are_zero(record, tmp_path):
    from dataclasses import replace

    changed = replace(record, v=np.array([2, 0, 1]))
    values = to_coco([changed], tmp_path, (("nose", "left_eye"), ("nose", "tail")))
    annotation = values["annotations"][0]
    assert annotation["bbox"] == [20.0, 10.0, 40.0, 40.0] and annotation["area"] == 1600.0 and annotation["id"] == 1
    assert annotation["keypoints"] == [50.0, 20.0, 2, 0.0, 0.0, 0, 40.0, 35.0, 1] and annotation["num_keypoints"] == 2
    assert values["categories"][0]["skeleton"] == [[3, 1]] and values["images"][0]["file_name"] == "one.png"


def test_a_record_without_a_box_is_written_without_one(record, tmp_path):
    from dataclasses import replace

    assert "bbox" not in to_coco([replace(record, box=None)], tmp_path)["annotations"][0]
