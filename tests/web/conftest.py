"""Sites and clients on a small project of painted pictures."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import time

import httpx
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


class Server:
    """A real ``salvit serve`` in a process of its own."""

    def __init__(self, folder, options, errors) -> None:
        self.errors = errors
        command = [sys.executable, "-m", "salvit", "serve", str(folder), "--port", "0", "--device", "cpu", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors.open("w"), text=True, env=environment
        )
        self.address = ""

    def wait(self) -> Server:
        """Until it listens."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, self.errors.read_text()
        self.address = found.group()
        return self

    def call(self, method, path, body=None):
        """A call that must go well."""
        answer = httpx.request(method, self.address + path, json=body, timeout=120)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def wait_for_job(self, number, seconds=240.0):
        """Until a job is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.call("GET", f"/api/jobs/{number}")
            if job["state"] not in ("queued", "running"):
                return job
            time.sleep(0.05)
        raise AssertionError(f"job {number} is not over after {seconds} s: {job}")


@pytest.fixture
def start_server(tmp_path):
    """Start servers; all of them are ended after the test."""
    started = []

    def start(folder, *options, wait=True):
        server = Server(folder, options, tmp_path / f"errors-{len(started)}.txt")
        started.append(server)
        return server.wait() if wait else server

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="session")
def browser():
    """A real Chromium. Where none is installed these tests are skipped, but not in CI (SALVIT_BROWSER=required)."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("SALVIT_BROWSER") == "required":
            pytest.fail("no Chromium is installed; `apt-get install chromium`")
        pytest.skip("no Chromium is installed: `apt-get install chromium`")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def live(site):
    """The address of a server of :func:`site`, in a thread."""
    import socket
    import threading

    import uvicorn

    from salvit.web.app import build_app

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = uvicorn.Config(build_app(site), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


class Tab:
    """A page of the project in a browser, with what a person does to it."""

    def __init__(self, page, address) -> None:
        self.page, self.address, self.problems = page, address, []
        page.set_default_timeout(180_000)
        page.on("pageerror", lambda problem: self.problems.append(str(problem)))
        page.goto(address)
        page.wait_for_selector("body[data-ready=yes]")

    def at(self, x, y):
        """Where a pixel of the picture is in the window."""
        script = "([x, y]) => import('/static/js/stage.js').then((stage) => stage.toScreen(x, y))"
        sx, sy = self.page.evaluate(script, [x, y])
        box = self.page.locator("#stage").bounding_box()
        return box["x"] + sx, box["y"] + sy

    def click(self, x, y):
        self.page.mouse.click(*self.at(x, y))

    def drag(self, start, end):
        self.page.mouse.move(*self.at(*start))
        self.page.mouse.down()
        x, y = self.at(*end)
        self.page.mouse.move(x - 5, y - 5, steps=4)
        self.page.mouse.move(x, y)
        self.page.mouse.up()

    def mark(self, name, x, y):
        """Click a place and name it."""
        self.click(x, y)
        self.page.fill("#name", name)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#namer", state="hidden")
        self.saved()

    def saved(self):
        """Until everything is on disk."""
        script = "() => import('/static/js/state.js').then(({ state }) => state.unsaved)"
        while self.page.evaluate(script):
            time.sleep(0.02)

    def find(self):
        """Press the one key, and wait until all is found."""
        with self.page.expect_response("**/api/jobs"):
            self.page.keyboard.press("d")
        self.idle()

    def idle(self):
        """Until no job is open on the server, and the tab knows; a correction opens one at once."""
        self.saved()
        end = time.monotonic() + 120
        while httpx.get(f"{self.address}/api/jobs").json()[0]["state"] in ("queued", "running"):
            assert time.monotonic() < end
            time.sleep(0.02)
        self.page.wait_for_timeout(150)
        self.page.wait_for_selector("body[data-job=idle]")

    def show(self, image):
        self.page.click(f"#picture-{image}")
        self.page.wait_for_selector(f"#picture-{image}[aria-selected=true]")

    def points(self, image):
        """What the server has of a picture, by name."""
        names = {point["id"]: point["name"] for point in httpx.get(f"{self.address}/api/project").json()["keypoints"]}
        picture = httpx.get(f"{self.address}/api/pictures/{image}").json()
        return {names[point["keypoint"]]: point for thing in picture["objects"] for point in thing["points"]}


@pytest.fixture
def open_tab(browser, live):
    """Open tabs; a script error in any of them fails the test."""
    tabs, contexts = [], []

    def start(prepare=None, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        if prepare is not None:
            prepare(page)
        tabs.append(Tab(page, live))
        return tabs[-1]

    yield start
    problems = [problem for tab in tabs for problem in tab.problems]
    for context in contexts:
        context.close()
    assert not problems, problems


@pytest.fixture(scope="session")
def foxes(tmp_path_factory):
    """The bundled foxes and four of them mirrored, and where five points of the first are."""
    from PIL import Image, ImageOps

    from salvit.data.support import read_support
    from salvit.demo import demo_queries, demo_support

    place = tmp_path_factory.mktemp("foxes")
    support = read_support(demo_support()).images[0]
    for number, path in enumerate([support.path, *demo_queries()], start=1):
        shutil.copyfile(path, place / f"fox-{number:02d}.jpg")
    for number, path in enumerate(demo_queries()[:4], start=8):
        ImageOps.mirror(Image.open(path)).save(place / f"fox-{number:02d}.jpg", quality=90)
    wanted = ("nose", "left_ear", "throat", "tail_base", "tail_tip")
    return place, {name: support.points[support.names.index(name)].tolist() for name in wanted}
