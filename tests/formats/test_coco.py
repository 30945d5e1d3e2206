import json

import numpy as np
import pytest

from salvit.formats import read, write


def rewrite(folder, change):
    path = folder / "support.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"keypoints": [1, 2, 2]}, "3 numbers in 'keypoints', expected 3 for each of 3 names"),
        ({"keypoints": ["a"] * 9}, "could not convert"),
        ({"keypoints": None}, "not iterable"),
        ({"category_id": 99}, "99 is missing or names nothing"),
    ],
)
def test_an_annotation_that_cannot_be_used_is_named_and_the_rest_goes_on(marked_folder, broken, message):
    path = rewrite(marked_folder, lambda c: c["annotations"].insert(0, {**c["annotations"][0], "id": 5, **broken}))
    support = read(path)
    assert len(support.images) == 1
    assert support.problems[0].startswith("support.json, annotation 5: ") and message in support.problems[0]


def test_an_annotation_that_is_no_object_is_named(marked_folder):
    support = read(rewrite(marked_folder, lambda content: content["annotations"].append("text")))
    assert len(support.images) == 1 and "annotation 1" in support.problems[0]


def test_boxes_sizes_and_skeleton_are_read(marked_folder):
    support = read(marked_folder / "support.json")
    (marked,) = support.images
    assert marked.box == (40, 60, 270, 220) and marked.image_hw == (240, 320)
    assert support.skeleton == (("nose", "tail"),)


def test_pycocotools_reads_what_is_written(marks, tmp_path):
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools comes with the extra 'train'").COCO
    write(marks, tmp_path / "out.json")
    opened = coco(str(tmp_path / "out.json"))
    (first, second) = opened.loadAnns(opened.getAnnIds())
    assert first["keypoints"][3:6] == [10.25, 20.75, 2] and second["keypoints"][3:6] == [0, 0, 0]
    assert second["num_keypoints"] == 2 and np.allclose(second["bbox"], [5, 4, 35, 62])
