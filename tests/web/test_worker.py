"""Detection as a job: on the screen first, only what changed, through crashes."""

import time

import pytest

from salvit.projects import Work, stamps_of
from salvit.web.site import build_site

MARKS = {"nose": (60.0, 80.0), "tail": (250.0, 150.0), "paw": (120.0, 200.0)}


def found(client, image):
    (thing,) = client.get(f"/api/pictures/{image}").json()["objects"]
    return {point["keypoint"]: point for point in thing["points"]}


def test_marked_points_are_found_in_all_other_pictures(client, mark, finish):
    names = mark(1, **MARKS)
    job = finish(client.post("/api/jobs", json={"kind": "detect"}).json()["id"])
    assert job["state"] == "done" and job["done"] == job["total"] == 4
    for image in (2, 3, 4, 5):
        points = found(client, image)
        for name, (x, y) in MARKS.items():
            point = points[names[name]]
            assert point["kind"] == "found" and abs(point["x"] - x) < 12 and abs(point["y"] - y) < 12
            assert len(point["covariance"]) == 3


def test_the_page_finds_what_the_command_line_finds(client, mark, finish, match, folder):
    import numpy as np

    from salvit.data.support import MarkedImage, Support
    from salvit.predict import detect, learn

    names = mark(1, **MARKS)
    finish(client.post("/api/jobs", json={}).json()["id"])
    marked = MarkedImage(folder / "0.png", tuple(MARKS), np.array(list(MARKS.values())), np.ones(3, dtype=bool))
    (there,) = detect(match, learn(match, Support((marked,))), [folder / "3.png"])
    points = found(client, 4)
    for n, name in enumerate(there.names):
        assert abs(points[names[name]]["x"] - there.points[n, 0]) < 0.1
        assert abs(points[names[name]]["score"] - there.scores[n]) < 1e-3


def test_a_correction_runs_only_that_keypoint_and_encodes_nothing(client, site, mark, finish, monkeypatch):
    names = mark(1, **MARKS)
    finish(client.post("/api/jobs", json={}).json()["id"])
    before, asked = found(client, 3), []
    locate = site.engine.locate
    monkeypatch.setattr(site.engine, "locate", lambda pack, targets: asked.append(pack.names) or locate(pack, targets))
    monkeypatch.setattr(site.engine.detector, "encode", lambda images: pytest.fail("nothing is to be encoded"))
    mark(2, "placed", nose=(240.0, 160.0))
    finish(client.get("/api/jobs").json()[0]["id"])
    after = found(client, 3)
    assert set(asked) == {(str(names["nose"]),)}
    assert after[names["tail"]] == before[names["tail"]] and after[names["nose"]] != before[names["nose"]]


def test_a_trained_network_looks_with_all_marked_keypoints_and_keeps_the_stale_ones(
    client, site, mark, finish, monkeypatch
):
    from salvit.predict import load
    from salvit.web import engine

    lite = load("lite", device="cpu")
    monkeypatch.setattr(engine, "load", lambda name, device: lite)
    names = mark(1, **MARKS)
    finish(client.post("/api/jobs", json={}).json()["id"])
    before, asked = found(client, 3), []
    locate = site.engine.locate
    monkeypatch.setattr(site.engine, "locate", lambda pack, targets: asked.append(pack.names) or locate(pack, targets))
    mark(2, "placed", nose=(240.0, 160.0))
    finish(client.get("/api/jobs").json()[0]["id"])
    after = found(client, 3)
    assert asked and all(set(pack) == {str(number) for number in names.values()} for pack in asked)
    assert after[names["tail"]] == before[names["tail"]] and after[names["nose"]] != before[names["nose"]]


def test_points_of_another_decoding_are_found_again(client, site, mark, finish):
    from salvit.predict import load

    mark(1, **MARKS)
    prepared = site.engine.prepare()
    wanted, _, provider, name = site.engine._loaded
    stamps = []
    for decoding in ("agreed", "gathered"):
        site.engine._loaded = (wanted, load("lite", device="cpu").decoded_by(decoding), provider, name)
        stamps.append(site.engine.prepare())
    assert len({prepared, *stamps}) == 3


def test_predictions_never_teach(client, site, mark, finish):
    mark(1, **MARKS)
    finish(client.post("/api/jobs", json={}).json()["id"])
    assert {shot.target.image for shot in site.engine.work.shots()} == {1}


def test_the_picture_on_the_screen_is_found_first(client, site, mark, finish, monkeypatch):
    mark(1, **MARKS)
    client.post("/api/look", json={"picture": 4})
    told = []
    publish = site.hub.publish
    monkeypatch.setattr(site.worker, "_publish", lambda kind, data: told.append((kind, data)) or publish(kind, data))
    finish(client.post("/api/jobs", json={}).json()["id"])
    first = next(data for kind, data in told if kind == "pictures")
    assert [picture["id"] for picture in first] == [4]


def test_a_job_without_marks_is_over_at_once_and_says_why(client, finish):
    job = finish(client.post("/api/jobs", json={}).json()["id"])
    assert job["state"] == "done" and "mark at least one" in job["message"]


def test_a_broken_picture_does_not_stop_the_others(client, folder, mark, finish):
    mark(1, **MARKS)
    (folder / "2.png").write_bytes(b"broken")
    job = finish(client.post("/api/jobs", json={}).json()["id"])
    assert job["state"] == "done" and len(found(client, 5)) == 3
    picture = client.get("/api/pictures/3").json()
    assert "not an image" in picture["problem"] and picture["objects"][0]["points"] == []


def test_a_job_that_was_open_when_the_server_died_goes_on(site, folder, limits):
    from salvit.projects import Change

    project, work = site.project, Work(site.project)
    nose = project.add_keypoint("nose")
    project.mark([Change(project.picture(1)["objects"][0]["id"], nose, "placed", *MARKS["nose"])])
    work.update_job(work.add_job("detect"), "running", done=1, total=4)
    again = build_site(project, limits, device="cpu")
    again.worker.start()
    end = time.monotonic() + 60
    while work.open_job() is not None and time.monotonic() < end:
        time.sleep(0.02)
    again.worker.stop()
    assert work.job(1)["state"] == "done"
    assert work.stale(stamps_of(work.shots(), again.engine.prepare()), 10) == []


def test_a_cancelled_job_stops_and_points_are_not_found_again_by_themselves(client, mark, finish):
    mark(1, **MARKS)
    number = client.post("/api/jobs", json={}).json()["id"]
    client.delete(f"/api/jobs/{number}")
    assert finish(number)["state"] in ("cancelled", "done")
    mark(2, "placed", nose=(60.0, 80.0))
    assert client.get("/api/jobs").json()[0]["id"] == number


def test_a_box_is_searched_alone(client, mark, finish):
    mark(1, **MARKS)
    thing = client.get("/api/pictures/3").json()["objects"][0]
    change = {"box": [150, 60, 320, 240], "revision": thing["revision"]}
    assert client.put(f"/api/objects/{thing['id']}", json=change).status_code == 200
    assert client.post("/api/pictures/3/objects", json={"box": [0, 0, 150, 240]}).status_code == 201
    finish(client.post("/api/jobs", json={}).json()["id"])
    right, left = client.get("/api/pictures/3").json()["objects"]
    assert all(point["x"] > 120 for point in right["points"]) and len(right["points"]) == 3
    assert all(point["x"] < 180 for point in left["points"]) and len(left["points"]) == 3
