import pytest

from salvit.formats import read, write


def test_a_bad_line_is_named_and_the_rest_goes_on(tmp_path):
    lines = ["image,keypoint,x,y", "a.jpg,nose,1,2", "a.jpg,tail,oops,3", ",ear,1,2", "a.jpg,ear", "a.jpg,paw,inf,1"]
    (tmp_path / "s.csv").write_text("\n".join(lines))
    support = read(tmp_path / "s.csv")
    (marked,) = support.images
    assert marked.names == ("nose",) and marked.points.tolist() == [[1, 2]]
    assert [problem.split(":")[0] for problem in support.problems] == [f"s.csv, line {n}" for n in (3, 4, 5, 6)]


def test_the_column_object_tells_two_of_one_picture_apart(tmp_path):
    (tmp_path / "s.csv").write_text("image,keypoint,x,y,object\na.jpg,nose,1,2,cat\na.jpg,nose,3,4,dog\n")
    assert [marked.points.tolist() for marked in read(tmp_path / "s.csv").images] == [[[1, 2]], [[3, 4]]]


def test_a_missing_column_is_an_error_that_names_it(tmp_path):
    (tmp_path / "s.csv").write_text("image,keypoint,x\na.jpg,nose,1\n")
    with pytest.raises(ValueError, match="missing: y"):
        read(tmp_path / "s.csv")


def test_plain_marks_are_four_columns_to_the_last_digit(marks, tmp_path):
    write(marks, tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[:3] == ["image,keypoint,x,y", "photos/a b.png,nose,0.0,0.0", "photos/a b.png,left_eye,10.25,20.75"]
    assert len(lines) == 6
