import numpy as np
import pytest
import yaml

from salvit.formats import read, write


def data(tmp_path, label, **changes):
    from PIL import Image

    for part in ("images", "labels"):
        (tmp_path / "train" / part).mkdir(parents=True)
    Image.new("RGB", (100, 50)).save(tmp_path / "train" / "images" / "a.jpg")
    (tmp_path / "train" / "labels" / "a.txt").write_text(label)
    content = {"train": "train/images", "names": ["cat"], "kpt_shape": [2, 3], **changes}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "data.yaml"


def test_shares_of_the_picture_become_pixels_whose_centres_are_integers(tmp_path):
    support = read(data(tmp_path, "0 0.5 0.5 0.2 0.4 0.005 0.01 2 0.5 0.5 0\n"))
    (marked,) = support.images
    assert marked.points[0] == pytest.approx([0, 0]) and marked.marked.tolist() == [True, False]
    assert marked.box == pytest.approx((40, 15, 60, 35)) and marked.names == ("keypoint_0", "keypoint_1")


def test_two_numbers_for_a_keypoint_mean_that_zeros_are_not_marked(tmp_path):
    (marked,) = read(data(tmp_path, "0 0.5 0.5 0.2 0.4 0.505 0.51 0 0\n", kpt_shape=[2, 2])).images
    assert marked.marked.tolist() == [True, False] and marked.points[0] == pytest.approx([50, 25])


def test_names_and_mirrored_keypoints_are_read_from_the_yaml(tmp_path):
    line = "0 0.5 0.5 0.2 0.4 0.1 0.1 2 0.2 0.2 2\n"
    support = read(data(tmp_path, line, kpt_names={0: ["left", "right"]}, flip_idx=[1, 0]))
    assert support.names == ("left", "right") and support.pairs == (("left", "right"),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0.5 0.5 0.2", "4 numbers, expected 5 \\+ 2 × 3"),
        ("0 a b c d 1 1 2 1 1 2", "not a number"),
        ("0 nan 0.5 0.2 0.4 0.1 0.1 2 0.2 0.2 2", "box is not of numbers"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_goes_on(tmp_path, line, message):
    support = read(data(tmp_path, f"{line}\n0 0.5 0.5 0.2 0.4 0.1 0.1 2 nan 0.2 2\n"))
    (marked,) = support.images
    assert marked.marked.tolist() == [True, False]
    assert support.problems[0].startswith("a.txt, line 1: ")
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(support.problems[0])


def test_a_folder_that_is_not_there_is_named_and_a_broken_picture_too(tmp_path):
    path = data(tmp_path, "0 0.5 0.5 0.2 0.4 0.1 0.1 2 0.2 0.2 2\n", val="absent", path="/of/another/machine")
    (tmp_path / "train" / "images" / "b.jpg").write_bytes(b"no picture")
    (tmp_path / "train" / "labels" / "b.txt").write_text("0 0.5 0.5 0.2 0.4 0.1 0.1 2 0.2 0.2 2\n")
    support = read(path)
    assert len(support.images) == 1
    assert "b.jpg: not an image" in support.problems[0] and "val is absent" in support.problems[1]


@pytest.mark.parametrize("change", [{"kpt_shape": [2, 4]}, {"kpt_shape": "two"}, {"kpt_names": ["one"]}])
def test_a_yaml_that_cannot_be_meant_is_an_error(tmp_path, change):
    with pytest.raises(ValueError, match=r"data\.yaml"):
        read(data(tmp_path, "", **change))


def test_a_yaml_of_something_else_is_an_error(tmp_path):
    (tmp_path / "data.yaml").write_text("names: [cat]\n")
    with pytest.raises(ValueError, match="kpt_shape"):
        read(tmp_path / "data.yaml")


def test_what_is_written_is_what_ultralytics_asks_for(marks, tmp_path):
    write(marks, tmp_path / "out" / "data.yaml")
    content = yaml.safe_load((tmp_path / "out" / "data.yaml").read_text())
    assert content["kpt_shape"] == [3, 3] and content["flip_idx"] == [0, 2, 1] and content["names"] == {0: "object"}
    line = (tmp_path / "out" / "labels" / "train" / "c.txt").read_text().split()
    assert len(line) == 5 + 3 * 3 and line[8:11] == ["0", "0", "0"]
    values = np.array([float(cell) for cell in line])
    assert values[1:5] == pytest.approx([22.5 / 50, 35 / 70, 35 / 50, 62 / 70])
    assert values[5:7] == pytest.approx([12.6 / 50, 61.2 / 70])
    assert (tmp_path / "out" / "images" / "train" / "c.png").is_file()
