"""Sites and clients on a small project of painted pictures."""

from __future__ import annotations

import io
import time

import pytest

HOST = "127.0.0.1:8700"
MARKS = {"nose": (60.0, 80.0), "tail": (250.0, 150.0), "paw": (120.0, 200.0)}


@pytest.fixture
def folder(tmp_path, picture):
    """Five pictures of the same three marks at other noise."""
    place = tmp_path / "project"
    place.mkdir()
    for seed in range(5):
        picture(seed).save(place / f"{seed}.png")
    return place


@pytest.fixture
def limits():
    from salvit.web.limits import Limits

    return Limits()


@pytest.fixture
def site(folder, limits, match, monkeypatch):
    """The project of :func:`folder`; its model is loaded once for all tests."""
    from salvit.projects import Project
    from salvit.web import engine
    from salvit.web.site import build_site
    from salvit.web.uploads import scan_folder

    monkeypatch.setattr(engine, "load", lambda name, device: match)
    project = Project(folder)
    scan_folder(project, limits)
    yield build_site(project, limits, device="cpu")
    project.store.close()


@pytest.fixture
def client(site):
    from fastapi.testclient import TestClient

    from salvit.web.app import build_app

    with TestClient(build_app(site), base_url=f"http://{HOST}") as opened:
        yield opened


@pytest.fixture
def mark(client):
    """Mark keypoints (by name) in a picture; returns their numbers."""

    def mark_points(image: int = 1, kind: str = "placed", **points):
        known = {point["name"]: point["id"] for point in client.get("/api/project").json()["keypoints"]}
        thing = client.get(f"/api/pictures/{image}").json()["objects"][0]
        seen = {point["keypoint"]: point["revision"] for point in thing["points"]}
        for name in points:
            if name not in known:
                known[name] = client.post("/api/keypoints", json={"name": name}).json()["id"]
        changes = [
            {"object": thing["id"], "keypoint": known[name], "kind": kind, "x": x, "y": y,
             "revision": seen.get(known[name], 0)}
            for name, (x, y) in points.items()
        ]  # fmt: skip
        answer = client.put("/api/marks", json={"changes": changes})
        assert answer.status_code == 200, answer.text
        return known

    return mark_points


@pytest.fixture
def finish(client):
    """Wait for a job to be over."""

    def wait(number: int, seconds: float = 60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = client.get(f"/api/jobs/{number}").json()
            if job["state"] not in ("queued", "running"):
                return job
            time.sleep(0.02)
        raise AssertionError(f"job {number} is not over after {seconds} s: {job}")

    return wait


@pytest.fixture
def png(picture):
    """The bytes of a painted picture."""

    def make(seed: int = 9, size=(64, 48), format: str = "PNG") -> bytes:
        content = io.BytesIO()
        picture(seed).resize(size).save(content, format)
        return content.getvalue()

    return make
