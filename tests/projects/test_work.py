"""What is still to be found."""

import pytest

from salvit.projects import Change, Found, Work, stamps_of


@pytest.fixture
def work(project):
    return Work(project)


@pytest.fixture
def marked(project, objects):
    nose, tail = project.add_keypoint("nose"), project.add_keypoint("tail")
    project.mark([Change(objects[0], nose, "placed", 10, 10), Change(objects[0], tail, "placed", 50, 50)])
    return nose, tail


def find_all(work, stamps):
    stale = work.stale(stamps, 100)
    found = [Found(t.object, k, 1, 1, 0.5, 0.5, (1, 0, 1)) for t in stale for k in t.keypoints]
    work.keep(found, stamps, {target.object: target.revision for target in stale})


def wanted(work, model="m"):
    return {target.image: set(target.keypoints) for target in work.stale(stamps_of(work.shots(), model), 100)}


def test_every_unmarked_point_is_wanted_and_no_marked_one(work, marked):
    assert wanted(work) == {2: set(marked), 3: set(marked)}


def test_after_a_correction_only_that_keypoint_is_wanted_again(project, work, objects, marked):
    nose, tail = marked
    find_all(work, stamps_of(work.shots(), "m"))
    assert wanted(work) == {}
    project.mark([Change(objects[1], nose, "confirmed", 11, 11)])
    assert wanted(work) == {3: {nose}}
    assert wanted(work, "another model") == {2: {tail}, 3: {nose, tail}}


def test_a_mark_that_says_absent_teaches_nothing(project, work, objects, marked):
    nose, _ = marked
    before = stamps_of(work.shots(), "m")
    project.mark([Change(objects[1], nose, "absent")])
    assert stamps_of(work.shots(), "m") == before and nose not in wanted(work)[2]


def test_the_picture_on_the_screen_comes_first(work, marked):
    stamps = stamps_of(work.shots(), "m")
    assert [target.image for target in work.stale(stamps, 1, first=3)] == [3]


def test_what_was_found_for_an_old_box_is_not_kept(project, work, objects, marked):
    stamps = stamps_of(work.shots(), "m")
    stale = work.stale(stamps, 100)
    revision = project.picture(2)["objects"][0]["revision"]
    project.change_object(objects[1], (5.0, 5.0, 90.0, 90.0), deleted=False, revision=revision)
    found = [Found(t.object, k, 1, 1, 0.5, 0.5, (1, 0, 1)) for t in stale for k in t.keypoints]
    work.keep(found, stamps, {target.object: target.revision for target in stale})
    assert wanted(work) == {2: set(marked)}


def test_points_of_a_keypoint_that_nobody_shows_any_more_vanish(project, work, objects, marked):
    nose, tail = marked
    find_all(work, stamps_of(work.shots(), "m"))
    revision = next(p["revision"] for p in project.picture(1)["objects"][0]["points"] if p["keypoint"] == nose)
    project.mark([Change(objects[0], nose, None, revision=revision)])
    assert [p["keypoint"] for p in project.picture(2)["objects"][0]["points"]] == [tail]


def test_points_that_come_after_their_last_mark_was_removed_are_not_kept(project, work, objects, marked):
    stamps = stamps_of(work.shots(), "m")
    stale = work.stale(stamps, 100)
    project.remove_image(1)
    found = [Found(t.object, k, 1, 1, 0.5, 0.5, (1, 0, 1)) for t in stale for k in t.keypoints]
    work.keep(found, stamps, {target.object: target.revision for target in stale})
    assert project.picture(2)["objects"][0]["points"] == []


def test_a_picture_that_cannot_be_read_is_not_tried_again(project, work, marked):
    work.refuse(2, "broken")
    assert set(wanted(work)) == {3} and project.picture(2)["problem"] == "broken"


def test_an_open_job_serves_further_requests_and_a_cancelled_one_stays_cancelled(work):
    number = work.add_job("detect")
    assert work.add_job("detect") == number and work.open_job()["id"] == number
    work.update_job(number, "cancelled")
    work.update_job(number, "running", done=1, total=2)
    assert work.job(number)["state"] == "cancelled" and work.open_job() is None
    assert work.add_job("detect") == number + 1
