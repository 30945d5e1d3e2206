import numpy as np
import pytest

from salvit.data.records import MAX_EXAMPLES, ReadReport, RecordBuilder, hull_box

NAMES = ("a", "b", "c")


@pytest.fixture
def add(tmp_path, image_at):
    path = image_at(tmp_path / "x.png")  # 80 wide, 60 high

    def add_one(builder=None, **changes):
        builder = builder or RecordBuilder(NAMES)
        values = {"file": "x.png", "path": path, "species": "cow", "points": [[1, 2], [30, 40], [50, 20]]}
        builder.add(**{**values, "v": [2, 2, 2], "box": (0, 1, 60, 50), **changes})
        return builder

    return add_one


def test_a_point_outside_the_image_is_not_labelled_and_not_moved(add):
    builder = add(points=[[1, 2], [79.4, 59.4], [79.6, 10]])
    assert builder.records[0].v.tolist() == [2, 2, 0]
    assert builder.records[0].points[2].tolist() == [79.6, 10]
    assert builder.report.counts["keypoint outside the image"] == 1


def test_a_point_that_is_no_number_is_not_labelled(add):
    assert add(points=[[1, 2], [float("nan"), 3], [4, 5]]).records[0].v.tolist() == [2, 0, 2]


def test_without_a_box_the_hull_of_the_labelled_points_plus_a_tenth_is_taken_and_flagged(add):
    builder = add(points=[[10, 20], [29, 24], [0, 0]], v=[2, 1, 0], box=None)
    # pixels 10…29 and 20…24 cover 10…30 × 20…25; the longer side is 20, a tenth of it 2
    assert builder.records[0].box == (8.0, 18.0, 32.0, 27.0)
    assert builder.records[0].is_box_from_points
    assert builder.report.counts["no box"] == 1


def test_the_hull_of_one_point_is_its_pixel_and_is_cut_to_the_image():
    assert hull_box(np.array([[0.0, 3.0]]), (60, 80)) == (0.0, 2.9, 1.1, 4.1)


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        ((5, 5, 5, 9), "box of zero size"),
        ((80, 5, 90, 9), "box outside the image"),
        ((1, 2, 3), "box is not four numbers"),
        ((1, 2, float("nan"), 4), "box is not four numbers"),
        (("a", 2, 3, 4), "box is not four numbers"),
    ],
)
def test_a_bad_box_is_counted_and_replaced_by_the_hull(add, box, problem):
    builder = add(box=box)
    assert builder.report.counts[problem] == 1
    assert builder.records[0].is_box_from_points


def test_a_box_that_reaches_beyond_the_image_is_kept_as_it_is_stated(add):
    assert add(box=(-3, -2, 90, 40)).records[0].box == (-3.0, -2.0, 90.0, 40.0)


def test_a_missing_image_is_counted_once_and_its_records_left_out_or_kept_on_demand(add, tmp_path):
    builder = add(path=tmp_path / "no.png")
    add(builder, path=tmp_path / "no.png")
    assert builder.records == [] and builder.report.counts == {"image missing": 1}
    kept = add(RecordBuilder(NAMES, keep_missing=True), path=tmp_path / "no.png", stated_hw=(10, 10))
    assert kept.records[0].v.tolist() == [2, 0, 0] and kept.records[0].image_hw == (10, 10)


def test_a_broken_image_is_counted(add, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"not an image")
    assert add(path=tmp_path / "bad.jpg").report.counts == {"image unreadable": 1}


def test_ids_count_the_objects_of_a_file(add):
    builder = add(add())
    assert [record.id for record in builder.records] == ["x.png#0", "x.png#1"]
    assert builder.records[0].image_hw == (60, 80)


def test_a_wrong_number_of_keypoints_is_counted_and_skipped(add):
    builder = add(points=[[1, 2]])
    assert builder.records == [] and builder.report.counts == {"wrong number of keypoints": 1}


def test_unknown_visibility_and_a_size_that_differs_are_counted(add):
    counts = add(v=[3, 2, -1], stated_hw=(61, 80)).report.counts
    assert counts == {"visibility not 0, 1 or 2": 1, "image size differs from the annotation": 1}


def test_a_set_without_a_record_is_an_error_that_says_what_was_met(add, tmp_path):
    builder = add(path=tmp_path / "no.png")
    with pytest.raises(ValueError, match=r"no usable record of cub .*image missing: 1"):
        builder.finish("cub", tmp_path, 1)


def test_a_report_keeps_a_few_examples_and_goes_on_counting():
    report = ReadReport()
    for number in range(9):
        report.add("odd", str(number))
    assert report.to_mapping() == {"odd": {"count": 9, "examples": ["0", "1", "2", "3", "4"]}}
    assert MAX_EXAMPLES == 5
