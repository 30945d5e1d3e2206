import json

import numpy as np
import pytest

from salvit.data.support import drop_outside, read_support


def rewrite(folder, change):
    path = folder / "support.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def test_json_and_csv_say_the_same(marked_folder):
    coco, rows = read_support(marked_folder / "support.json"), read_support(marked_folder / "support.csv")
    assert coco.images[0].names == rows.images[0].names == ("nose", "tail", "paw")
    assert np.array_equal(coco.images[0].points, rows.images[0].points)
    assert coco.images[0].path == marked_folder / "support.png"
    assert coco.images[0].box == (40, 60, 270, 220) and coco.skeleton == (("nose", "tail"),)
    assert not coco.problems and not rows.problems


def test_a_keypoint_may_be_missing_in_some_pictures(tmp_path):
    (tmp_path / "s.csv").write_text("image,keypoint,x,y\na.jpg,nose,1,2\nb.jpg,tail,3,4\n")
    first, second = read_support(tmp_path / "s.csv").images
    assert first.marked.tolist() == [True, False] and second.marked.tolist() == [False, True]


def test_a_support_without_keypoints_is_refused(marked_folder):
    def unmark(content):
        content["annotations"][0]["keypoints"] = [0] * 9

    with pytest.raises(ValueError, match="no keypoint is marked"):
        read_support(rewrite(marked_folder, unmark))
    (marked_folder / "none.csv").write_text("image,keypoint,x,y\n")
    with pytest.raises(ValueError, match="no keypoint is marked"):
        read_support(marked_folder / "none.csv")


def test_nan_is_taken_as_not_marked_and_reported(marked_folder):
    def spoil(content):
        content["annotations"][0]["keypoints"][0] = None

    support = read_support(rewrite(marked_folder, spoil))
    assert support.images[0].marked.tolist() == [False, True, True]
    assert "nose is not a number" in support.problems[0]
    (marked_folder / "nan.csv").write_text("image,keypoint,x,y\nsupport.png,nose,nan,2\nsupport.png,tail,5,6\n")
    assert "line 2: nose" in read_support(marked_folder / "nan.csv").problems[0]


def test_a_point_outside_its_picture_is_taken_as_not_marked(marked_folder):
    marked = read_support(marked_folder / "support.json").images[0]
    inside, problems = drop_outside(marked, (190, 320))
    assert inside.marked.tolist() == [True, True, False]
    assert "paw at (120, 200) lies outside the picture of 320×190 pixels" in problems[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,name,x,y\n", "missing: keypoint"),
        ("image,keypoint,x,y\na.jpg,nose,1,2\na.jpg,nose,3,4\n", r"line 3: 'nose' is marked twice in a\.jpg"),
    ],
)
def test_a_csv_that_cannot_be_meant_is_an_error(tmp_path, text, message):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_support(tmp_path / "s.csv")


def test_a_csv_may_have_crlf_a_byte_order_mark_and_spaces(tmp_path):
    (tmp_path / "s.csv").write_bytes("\ufeffimage,keypoint,x,y\r\nmy cat.jpg, left eye ,1,2\r\n".encode())
    marked = read_support(tmp_path / "s.csv").images[0]
    assert marked.path.name == "my cat.jpg" and marked.names == ("left eye",)


def test_json_that_is_cut_not_coco_or_has_a_name_twice_is_an_error(marked_folder):
    (marked_folder / "cut.json").write_text('{"images": [')
    with pytest.raises(ValueError, match="not valid JSON"):
        read_support(marked_folder / "cut.json")
    (marked_folder / "list.json").write_text("[]")
    with pytest.raises(ValueError, match="nor a COCO keypoints file"):
        read_support(marked_folder / "list.json")
    path = rewrite(marked_folder, lambda content: content["categories"][0].update(keypoints=["nose", "nose", "paw"]))
    with pytest.raises(ValueError, match="'nose' is given twice"):
        read_support(path)


def test_an_annotation_without_its_image_is_left_out_and_the_rest_goes_on(marked_folder):
    def add(content):
        content["annotations"].append({**content["annotations"][0], "id": 2, "image_id": 99})

    support = read_support(rewrite(marked_folder, add))
    assert len(support.images) == 1 and "annotation 2" in support.problems[0]


def test_other_endings_and_missing_files_are_errors(tmp_path):
    (tmp_path / "s.txt").write_text("x")
    with pytest.raises(ValueError, match=r"expected \.json"):
        read_support(tmp_path / "s.txt")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_support(tmp_path / "absent.json")
