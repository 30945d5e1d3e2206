"""SIGKILL of a real server: nothing that was saved is gone, the job goes on."""

from __future__ import annotations

import json
import signal
import time

import pytest

pytestmark = pytest.mark.slow
MARKS = {"nose": (60.0, 80.0), "tail": (250.0, 150.0), "paw": (120.0, 200.0)}


def mark(server, image, name, x, y):
    keypoints = {point["name"]: point["id"] for point in server.call("GET", "/api/project")["keypoints"]}
    number = keypoints.get(name) or server.call("POST", "/api/keypoints", {"name": name})["id"]
    thing = server.call("GET", f"/api/pictures/{image}")["objects"][0]["id"]
    change = {"object": thing, "keypoint": number, "kind": "placed", "x": x, "y": y}
    server.call("PUT", "/api/marks", {"changes": [change]})


def test_what_was_saved_before_a_kill_is_there_and_the_job_goes_on(start_server, folder, picture):
    for seed in range(5, 25):
        picture(seed).save(folder / f"{seed}.png")
    server = start_server(folder)
    for name, place in MARKS.items():
        mark(server, 1, name, *place)
    number = server.call("POST", "/api/jobs", {"kind": "detect"})["id"]
    end = time.monotonic() + 120
    while server.call("GET", f"/api/jobs/{number}")["done"] == 0 and time.monotonic() < end:
        time.sleep(0.02)
    before = server.call("GET", "/api/pictures?limit=1000")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()

    again = start_server(folder)
    after = {one["id"]: one for one in again.call("GET", "/api/pictures?limit=1000")}
    for one in before:
        for thing in one["objects"]:
            points = {p["keypoint"]: p for p in after[one["id"]]["objects"][0]["points"]}
            for point in thing["points"]:
                assert points[point["keypoint"]] == point
    job = again.wait_for_job(number)
    assert job["state"] == "done"
    found = again.call("GET", "/api/pictures?limit=1000")
    assert len(found) == 25 and all(len(one["objects"][0]["points"]) == 3 for one in found)


def test_every_mark_that_was_answered_survives_a_kill_in_the_middle_of_marking(start_server, folder):
    server = start_server(folder)
    for number in range(12):
        mark(server, 1 + number % 5, f"point {number}", 10.0 + number, 20.0)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    again = start_server(folder)
    marks = [point for one in again.call("GET", "/api/pictures") for point in one["objects"][0]["points"]]
    assert sorted(point["x"] for point in marks) == [10.0 + number for number in range(12)]


def test_a_project_is_served_once(start_server, folder):
    start_server(folder)
    second = start_server(folder, wait=False)
    assert second.process.wait(timeout=120) == 1
    assert "open in another" in second.errors.read_text()


def test_listening_beyond_this_machine_without_a_token_is_refused(start_server, folder):
    server = start_server(folder, "--host", "0.0.0.0", wait=False)
    assert server.process.wait(timeout=120) == 1
    assert "a token is needed" in server.errors.read_text()


def test_pictures_elsewhere_stay_there_and_are_served(start_server, tmp_path, picture):
    (tmp_path / "photos").mkdir()
    picture(3).save(tmp_path / "photos" / "far.png")
    server = start_server(tmp_path / "new project", "--add", str(tmp_path / "photos"))
    (one,) = server.call("GET", "/api/pictures")
    assert one["path"] == str(tmp_path / "photos" / "far.png")
    assert not list((tmp_path / "new project").glob("**/*.png"))
    assert json.dumps(one["objects"][0]["points"]) == "[]"
