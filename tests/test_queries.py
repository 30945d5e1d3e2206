import json

import pytest

from salvit.queries import Query, find_queries, read_boxes


@pytest.fixture
def boxes(marked_folder):
    lines = ["queries/1.png,0,0,100,100", "queries/1.png,100,50,200,200", "queries/2.png,5,5,50,50"]
    (marked_folder / "boxes.csv").write_text("\n".join(["image,x1,y1,x2,y2", *lines]) + "\n")
    return marked_folder / "boxes.csv"


def test_pictures_of_a_box_file_are_searched_once_for_each_box(marked_folder, boxes):
    queries, failures = find_queries([], boxes)
    assert not failures
    assert [(query.path.name, query.box, query.index) for query in queries] == [
        ("1.png", (0, 0, 100, 100), 0),
        ("1.png", (100, 50, 200, 200), 1),
        ("2.png", (5, 5, 50, 50), 0),
    ]
    assert find_queries([str(boxes)]) == (queries, failures)  # as a query of its own


def test_pictures_without_a_box_are_searched_whole(marked_folder, boxes):
    queries, _ = find_queries([str(marked_folder / "queries")], boxes)
    assert [(query.path.name, query.box is None) for query in queries] == [
        *[("1.png", False)] * 2,
        ("2.png", False),
        ("3.png", True),
    ]
    (alone,) = find_queries([str(marked_folder / "queries" / "3.png")], boxes)[0]
    assert alone == Query(marked_folder / "queries" / "3.png")


def test_coco_boxes_need_no_keypoints(marked_folder):
    content = {
        "images": [{"id": 1, "file_name": "queries/1.png"}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 20, 30, 40]},
            {"id": 2, "image_id": 1, "category_id": 1, "bbox": [10, 20, 0, 40]},
            {"id": 3, "image_id": 9, "category_id": 1, "bbox": [10, 20, 1, 1]},
        ],
    }
    (marked_folder / "boxes.json").write_text(json.dumps(content))
    found, failures = read_boxes(marked_folder / "boxes.json")
    assert [query.box for query in found] == [(10, 20, 40, 60)]
    assert "annotation 2: no box" in failures[0].reason and "annotation 2: KeyError(9)" in failures[1].reason


def test_a_bad_line_is_named_and_the_rest_goes_on(marked_folder, boxes):
    boxes.write_text(boxes.read_text() + "a.png,1,2,x,4\na.png,9,9,3,3\n,1,1,2,2\na.png,nan,1,2,2\n")
    found, failures = read_boxes(boxes)
    assert len(found) == 3 and [failure.reason[:17] for failure in failures] == [
        f"boxes.csv, line {n}" for n in (5, 6, 7, 8)
    ]


def test_a_file_without_boxes_or_columns_is_an_error(marked_folder):
    (marked_folder / "other.csv").write_text("image,x1,y1\n")
    with pytest.raises(ValueError, match="missing: x2, y2"):
        read_boxes(marked_folder / "other.csv")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_boxes(marked_folder / "absent.json")
    content = json.loads((marked_folder / "support.json").read_text())
    del content["annotations"][0]["bbox"]
    (marked_folder / "support.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="holds no box"):
        read_boxes(marked_folder / "support.json")
