"""What people do to a project."""

import sqlite3

import pytest

from salvit.projects import Change, Conflict, NotFound, Project


def points(project, image):
    return {point["keypoint"]: point for thing in project.picture(image)["objects"] for point in thing["points"]}


def test_a_project_is_reopened_as_it_was_left(tmp_path):
    project = Project(tmp_path)
    (image,) = project.add_images([("a.png", (10, 20))])
    nose, tail = project.add_keypoint("nose"), project.add_keypoint("tail")
    thing = project.picture(image)["objects"][0]["id"]
    project.mark([Change(thing, nose, "placed", 3.5, 4.0)])
    project.set_link("skeleton", nose, tail, present=True)
    project.change_settings({"threshold": 0.25})
    before = project.overview(), points(project, image)
    project.store.close()
    again = Project(tmp_path)
    assert (again.overview(), points(again, image)) == before
    assert before[1][nose]["x"] == 3.5 and before[0]["settings"]["threshold"] == 0.25


def test_what_was_committed_is_there_for_another_process_at_once(project, tmp_path):
    number = project.add_keypoint("nose")
    with sqlite3.connect(tmp_path / "project" / ".salvit" / "project.sqlite") as other:
        assert other.execute("SELECT name FROM keypoints WHERE id = ?", (number,)).fetchone() == ("nose",)


def test_a_mark_that_somebody_else_changed_is_not_overwritten(project, objects):
    nose = project.add_keypoint("nose")
    project.mark([Change(objects[0], nose, "placed", 10, 10)])
    seen = points(project, 1)[nose]["revision"]
    project.mark([Change(objects[0], nose, "placed", 20, 20, revision=seen)])
    for kind, revision in (("placed", seen), (None, seen), ("placed", 0)):
        late = Change(objects[0], nose, kind, 30, 30, revision=revision)
        with pytest.raises(Conflict, match="nose was changed in another window"):
            project.mark([late])
    assert points(project, 1)[nose]["x"] == 20


def test_changes_of_one_call_are_all_made_or_none(project, objects):
    nose, tail = project.add_keypoint("nose"), project.add_keypoint("tail")
    revision = project.store.revision
    with pytest.raises(ValueError, match="outside the picture"):
        project.mark([Change(objects[0], nose, "placed", 5, 5), Change(objects[0], tail, "placed", 5000, 5)])
    assert points(project, 1) == {} and project.store.revision == revision


def test_marks_of_different_keypoints_never_conflict(project, objects):
    nose, tail = project.add_keypoint("nose"), project.add_keypoint("tail")
    project.mark([Change(objects[0], nose, "placed", 5, 5)])
    project.mark([Change(objects[0], tail, "placed", 6, 6)])
    assert set(points(project, 1)) == {nose, tail}


def test_a_removed_keypoint_comes_back_with_its_marks(project, objects):
    nose = project.add_keypoint("nose")
    project.mark([Change(objects[0], nose, "placed", 5, 5)])
    revision = project.overview()["keypoints"][0]["revision"]
    project.change_keypoint(nose, "nose", deleted=True, revision=revision)
    assert project.overview()["keypoints"] == [] and points(project, 1) == {}
    project.change_keypoint(nose, "nose", deleted=False, revision=project.store.revision)
    assert points(project, 1)[nose]["x"] == 5


def test_two_keypoints_never_share_a_name(project):
    project.add_keypoint("left eye")
    other = project.add_keypoint("right eye")
    with pytest.raises(Conflict, match="left eye"):
        project.add_keypoint("  left   eye ")
    with pytest.raises(Conflict, match="left eye"):
        project.change_keypoint(other, "left eye", deleted=False, revision=project.store.revision)


def test_a_box_is_cut_to_the_picture_and_an_empty_one_is_refused(project, objects):
    revision = project.picture(1)["objects"][0]["revision"]
    project.change_object(objects[0], (-5.0, 10.0, 100.0, 900.0), deleted=False, revision=revision)
    assert project.picture(1)["objects"][0]["box"] == [0.0, 10.0, 100.0, 240.0]
    with pytest.raises(ValueError, match="holds nothing"):
        project.add_object(1, (400.0, 10.0, 500.0, 20.0))
    with pytest.raises(ValueError, match="at least one object"):
        project.change_object(objects[0], None, deleted=True, revision=project.store.revision)


def test_a_removed_picture_comes_back_with_everything(project, objects):
    nose = project.add_keypoint("nose")
    project.mark([Change(objects[1], nose, "placed", 7, 8)])
    project.remove_image(2)
    assert [picture["id"] for picture in project.pictures()] == [1, 3]
    with pytest.raises(NotFound):
        project.file(2)
    project.add_images([("2.png", (240, 320))])
    assert points(project, 2)[nose]["y"] == 8


def test_pictures_come_in_pages(project):
    assert [picture["id"] for picture in project.pictures(offset=1, limit=1)] == [2]
    assert [picture["id"] for picture in project.pictures([3, 1, 99])] == [1, 3]


def test_a_link_has_no_direction_and_no_double(project):
    nose, tail = project.add_keypoint("nose"), project.add_keypoint("tail")
    project.set_link("skeleton", nose, tail, present=True)
    project.set_link("skeleton", tail, nose, present=True)
    assert project.overview()["skeleton"] == [[tail, nose]]
    project.set_link("skeleton", nose, tail, present=False)
    assert project.overview()["skeleton"] == []
    with pytest.raises(ValueError, match="itself"):
        project.set_link("pair", nose, nose, present=True)


def test_a_file_that_is_no_project_is_refused_with_its_name(tmp_path):
    (tmp_path / ".salvit").mkdir()
    (tmp_path / ".salvit" / "project.sqlite").write_text("this is a diary, not a database, and it is quite long" * 50)
    with pytest.raises(OSError, match="not a project of salvit"):
        Project(tmp_path)


def test_a_project_of_a_newer_salvit_is_refused(tmp_path):
    Project(tmp_path).store.close()
    with sqlite3.connect(tmp_path / ".salvit" / "project.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="newer salvit"):
        Project(tmp_path)
