import pytest

from salvit.data.annotation_files import (
    check_names,
    is_safe_name,
    key_of,
    names_of,
    objects_by_id,
    objects_of,
    read_json,
    size_of,
    to_triples,
    xywh_to_xyxy,
)
from salvit.data.records import ReadReport


def test_triples_and_boxes_are_read_from_any_nesting_and_refused_otherwise():
    assert to_triples([1, 2, 2, 3, 4, 0], 2).tolist() == [[1, 2, 2], [3, 4, 0]]
    assert to_triples([[1, 2, 2], [3, 4, 0]], 2).tolist() == [[1, 2, 2], [3, 4, 0]]
    assert to_triples([1, 2, 2], 2) is None and to_triples(None, 1) is None and to_triples(["x"] * 3, 1) is None
    assert xywh_to_xyxy([1, 2, 3, 4]) == (1, 2, 4, 6) and xywh_to_xyxy(None) is None and xywh_to_xyxy([1]) == ()


def test_truncated_json_is_an_error_that_names_the_file_and_the_place(tmp_path):
    (tmp_path / "cut.json").write_text('{"images": {"1": "a.jp')
    with pytest.raises(ValueError, match=r"cut\.json is not complete JSON .*line 1 column"):
        read_json(tmp_path / "cut.json")
    with pytest.raises(ValueError, match="does not exist"):
        read_json(tmp_path / "none.json")


def test_ids_are_matched_as_numbers_or_text_and_nothing_else_breaks():
    assert key_of(3) == key_of(3.0) == 3 and key_of("3") == "3" and key_of([3]) == "[3]" and key_of(None) == "None"


def test_entries_that_are_no_objects_or_have_no_id_are_counted_and_no_list_is_an_error():
    report = ReadReport()
    assert objects_by_id([{"id": 1, "a": 2}, {"a": 3}, "x", None], "images", report) == {1: {"id": 1, "a": 2}}
    assert report.counts == {"entry that is not an object": 2, "entry without an id": 1}
    with pytest.raises(ValueError, match="images: expected a list, got int"):
        objects_of(3, "images", report)


def test_keypoint_names_are_different_words():
    assert names_of({"keypoints": ["a", "b"]}, "x") == ("a", "b")
    for wrong in ("ab", ["a", 2]):
        with pytest.raises(ValueError, match="expected a list of keypoint names"):
            names_of({"keypoints": wrong}, "x")
    with pytest.raises(ValueError, match="named twice"):
        names_of({"keypoints": ["a", "a"]}, "x")
    with pytest.raises(ValueError, match="keypoints missing"):
        names_of({}, "x")
    with pytest.raises(ValueError, match="another number or order"):
        check_names(("b", "a"), ("a", "b"), "x")


def test_sizes_are_whole_and_positive_or_not_stated():
    assert size_of({"height": 3, "width": 4}) == (3, 4)
    assert size_of({"height": 3}) is None and size_of({"height": "3", "width": 4}) is None
    assert size_of({"height": 0, "width": 4}) is None


@pytest.mark.parametrize(
    ("name", "is_safe"), [("a/b.jpg", True), ("../a.jpg", False), ("/a.jpg", False), ("", False), (3, False)]
)
def test_a_file_name_must_stay_in_the_folder(name, is_safe):
    assert is_safe_name(name) == is_safe
