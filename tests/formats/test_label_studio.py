import json

import pytest

from salvit.formats import read, write


def region(name, x, y, **more):
    value = {"x": x, "y": y, "width": 0.4, "keypointlabels": [name]}
    return {"original_width": 200, "original_height": 100, "type": "keypointlabels", "value": value, **more}


def save(tmp_path, *tasks):
    (tmp_path / "tasks.json").write_text(json.dumps(list(tasks)))
    return tmp_path / "tasks.json"


def task(*regions, image="/data/upload/1/0123abcd-my%20cat.jpg", **more):
    return {"id": 3, "data": {"image": image}, "annotations": [{"result": list(regions)}], **more}


def test_percent_become_pixels_whose_centres_are_integers(tmp_path):
    (marked,) = read(save(tmp_path, task(region("nose", 0.25, 0.5), region("tail", 50, 50)))).images
    assert marked.points.tolist() == [[0, 0], [99.5, 49.5]] and marked.image_hw == (100, 200)
    assert marked.path == tmp_path / "my cat.jpg"


def test_keypoints_belong_to_the_rectangle_that_is_their_parent(tmp_path):
    box = {"x": 10, "y": 20, "width": 30, "height": 40, "rectanglelabels": ["cat"]}
    rectangle = {"id": "r", "original_width": 200, "original_height": 100, "type": "rectanglelabels", "value": box}
    support = read(save(tmp_path, task(region("nose", 1, 1, parentID="r"), rectangle, region("nose", 9, 9))))
    inside, outside = support.images
    assert inside.box == pytest.approx((20, 20, 80, 60)) and outside.box is None


def test_the_small_export_is_read(tmp_path):
    mark = {"x": 50, "y": 50, "width": 0.4, "keypointlabels": ["nose"], "original_width": 200, "original_height": 100}
    (marked,) = read(save(tmp_path, {"id": 1, "image": "/data/local-files/?d=photos/a.jpg", "kp": [mark]})).images
    assert marked.path == tmp_path / "photos" / "a.jpg" and marked.points.tolist() == [[99.5, 49.5]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (task(region("nose", 1, 1), image="../secret.jpg"), "leads out of the folder"),
        (task(region("nose", 1, 1), image="/data/local-files/?d=../secret.jpg"), "leads out of the folder"),
        (task(region("nose", 1, 1), image="https://example.org/a.jpg"), "lies on a server"),
        (task(region("nose", 1, 1, image_rotation=90)), "turned"),
        (task(region("nose", "much", 1)), "could not convert"),
        (task({"value": {"x": 1, "y": 1, "keypointlabels": ["nose"]}}), "original_height"),
        ({"data": {}, "annotations": []}, "no picture is named"),
        (task(region("nose", float("nan"), 1)), "not a number"),
    ],
)
def test_a_task_that_cannot_be_used_is_named_and_the_rest_goes_on(tmp_path, bad, message):
    support = read(save(tmp_path, bad, task(region("tail", 2, 2), image="b.jpg")))
    assert [marked.path.name for marked in support.images] == ["b.jpg"]
    assert message in support.problems[0] and support.problems[0].startswith("tasks.json, task")


def test_a_skipped_annotation_does_not_count(tmp_path):
    skipped = {"was_cancelled": True, "result": [region("nose", 1, 1)]}
    both = {**task(), "annotations": [skipped, {"result": [region("nose", 50, 50)]}]}
    (marked,) = read(save(tmp_path, both)).images
    assert marked.points.tolist() == [[99.5, 49.5]]


def test_marks_are_written_as_annotations_and_detections_as_predictions(marks, scored, tmp_path):
    write(marks, tmp_path / "marks.json", "label-studio")
    write(scored, tmp_path / "found.json", "label-studio")
    first = json.loads((tmp_path / "marks.json").read_text())[0]
    found = json.loads((tmp_path / "found.json").read_text())[0]
    assert "predictions" not in first and "annotations" not in found
    assert first["data"]["image"] == "/data/local-files/?d=photos/a%20b.png"
    assert found["predictions"][0]["score"] == pytest.approx(0.55)
    nose = first["annotations"][0]["result"][1]
    assert nose["value"]["x"] == pytest.approx(100 * 0.5 / 64) and nose["parentID"] == "box-1-0"
