"""The page in a real Chromium, as a person uses it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from salvit.data.support import read_support

MARKS = {"nose": (60.0, 80.0), "tail": (250.0, 150.0), "paw": (120.0, 200.0)}


@pytest.fixture
def tab(open_tab):
    return open_tab()


@pytest.fixture
def marked(tab):
    """A tab with three points marked in the first picture."""
    for name, place in MARKS.items():
        tab.mark(name, *place)
    return tab


class TestFoxes:
    @pytest.fixture
    def folder(self, tmp_path, foxes):
        return Path(shutil.copytree(foxes[0], tmp_path / "project"))

    def test_five_points_are_marked_found_in_ten_corrected_and_exported(self, tab, foxes, folder):
        truth = foxes[1]
        for name, place in truth.items():
            tab.mark(name.replace("_", " "), *place)
        tab.find()
        assert all(len(tab.points(image)) == 5 for image in range(1, 12))
        tab.page.wait_for_selector("#pictures li[data-state=found] >> nth=9")
        before = {image: tab.points(image) for image in range(2, 12)}

        tab.show(3)
        tab.page.keyboard.press("1")
        start = before[3]["nose"]
        tab.drag((start["x"], start["y"]), (40, 30))
        tab.idle()
        after = {image: tab.points(image) for image in range(2, 12)}
        assert after[3]["nose"]["kind"] == "placed" and abs(after[3]["nose"]["x"] - 40) < 2
        moved = [image for image in after if image != 3 and after[image]["nose"] != before[image]["nose"]]
        assert moved, "the corrected point is a further shot, so it is found again in the others"
        assert all(after[image][name] == before[image][name] for image in after for name in ("throat", "tail tip"))

        tab.page.click("#export")
        with tab.page.expect_download() as started:
            tab.page.click("#export-menu button:first-child")
        started.value.save_as(folder / "export.json")
        support = read_support(folder / "export.json")
        assert len(support.images) == 11 and support.names == tuple(name.replace("_", " ") for name in truth)
        first = next(image for image in support.images if image.path.name == "fox-01.jpg")
        assert abs(first.points - list(truth.values())).max() < 1


def test_undo_and_redo_take_back_and_bring_back(marked):
    x, y = MARKS["tail"]
    marked.drag((x, y), (150, 100))
    marked.saved()
    assert abs(marked.points(1)["tail"]["x"] - 150) < 2
    marked.page.keyboard.press("Control+z")
    marked.saved()
    assert abs(marked.points(1)["tail"]["x"] - x) < 1
    marked.page.keyboard.press("Control+Shift+z")
    marked.saved()
    assert abs(marked.points(1)["tail"]["x"] - 150) < 2
    for _ in range(4):
        marked.page.click("#undo")
        marked.saved()
    assert marked.points(1) == {} and marked.page.locator("#undo").is_disabled()
    for _ in range(4):
        marked.page.click("#redo")
        marked.saved()
    assert set(marked.points(1)) == set(MARKS)


def test_a_reload_loses_nothing(marked):
    marked.find()
    marked.show(2)
    before = [marked.points(image) for image in range(1, 6)]
    shown = marked.page.locator("#keypoints").inner_text()
    marked.page.reload()
    marked.page.wait_for_selector("body[data-ready=yes]")
    assert [marked.points(image) for image in range(1, 6)] == before
    marked.page.wait_for_selector("#picture-2[aria-selected=true]")
    assert marked.page.locator("#keypoints").inner_text() == shown


def test_two_tabs_see_each_other_and_keep_each_other_s_work(marked, open_tab):
    other = open_tab()
    other.page.wait_for_selector("#keypoints li >> nth=2")
    marked.drag(MARKS["nose"], (100, 40))
    other.drag(MARKS["paw"], (200, 60))
    marked.saved(), other.saved()
    points = marked.points(1)
    assert abs(points["nose"]["x"] - 100) < 2 and abs(points["paw"]["x"] - 200) < 2


def test_a_tab_that_missed_a_change_does_not_overwrite_it(marked, open_tab):
    late = open_tab(prepare=lambda page: page.route("**/api/events", lambda route: route.abort()))
    marked.drag(MARKS["nose"], (100, 40))
    marked.saved()
    late.drag(MARKS["nose"], (30, 200))
    late.page.wait_for_selector(".toast.bad:has-text('another window')")
    assert abs(late.points(1)["nose"]["x"] - 100) < 2
    late.drag((100, 40), (30, 200))
    late.saved()
    assert abs(late.points(1)["nose"]["x"] - 30) < 2, "what is shown now is the newer one, and that may be moved"


def test_everything_goes_by_keyboard(tab):
    page = tab.page
    page.keyboard.press("Tab")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    page.locator("#stage").focus()
    for name, steps in (("beak", 3), ("wing", 12)):
        for _ in range(steps):
            page.keyboard.press("Shift+ArrowLeft")
        page.keyboard.press("Enter")
        page.wait_for_selector("#namer", state="visible")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        page.wait_for_selector("#namer", state="hidden")
        tab.saved()
    points = tab.points(1)
    assert set(points) == {"beak", "wing"} and points["beak"]["x"] > points["wing"]["x"]
    page.keyboard.press("1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(500)
    tab.saved()
    assert tab.points(1)["beak"]["y"] == points["beak"]["y"] + 2
    page.keyboard.press("l")
    page.keyboard.press("]")
    page.keyboard.press("l")
    tab.saved()
    tab.find()
    page.wait_for_selector("#picture-2[data-state=found]")
    page.keyboard.press(".")
    page.wait_for_selector("#picture-2[aria-selected=true]")
    page.keyboard.press("1")
    page.keyboard.press("c")
    page.keyboard.press("2")
    page.keyboard.press("x")
    tab.saved()
    kinds = {name: point["kind"] for name, point in tab.points(2).items()}
    assert kinds == {"beak": "confirmed", "wing": "absent"}
    page.keyboard.press("Delete")
    page.keyboard.press("Control+z")
    tab.saved()
    assert tab.points(2)["wing"]["kind"] == "absent"
    page.keyboard.press("w")
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    page.keyboard.press("Escape")
    page.locator("#stage").focus()
    page.keyboard.press("e")
    assert page.evaluate("document.activeElement.closest('#export-menu') !== null")


def test_fingers_mark_move_and_zoom(open_tab):
    tab = open_tab(has_touch=True)
    tab.page.touchscreen.tap(*tab.at(60, 80))
    tab.page.fill("#name", "nose")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#namer", state="hidden")
    tab.saved()
    assert abs(tab.points(1)["nose"]["x"] - 60) < 1
    before = tab.page.locator("#zoom").inner_text()
    (ax, ay), (bx, by) = tab.at(100, 100), tab.at(200, 100)
    tab.page.evaluate(
        """([ax, ay, bx, by]) => {
          const stage = document.getElementById("stage");
          const send = (type, id, x, y) => stage.dispatchEvent(new PointerEvent(type,
            { pointerId: id, pointerType: "touch", clientX: x, clientY: y, bubbles: true, button: 0 }));
          send("pointerdown", 11, ax, ay); send("pointerdown", 12, bx, by);
          send("pointermove", 11, ax - 60, ay); send("pointermove", 12, bx + 60, by);
          send("pointerup", 11, ax - 60, ay); send("pointerup", 12, bx + 60, by);
        }""",
        [ax, ay, bx, by],
    )
    tab.page.wait_for_timeout(200)
    assert tab.page.locator("#zoom").inner_text() != before


def test_boxes_give_a_picture_several_animals(marked):
    marked.show(2)
    marked.page.keyboard.press("b")
    marked.drag((5, 20), (150, 230))
    marked.saved()
    marked.drag((160, 30), (310, 230))
    marked.saved()
    picture = json.loads(marked.page.evaluate("fetch('/api/pictures/2').then((answer) => answer.text())"))
    assert [thing["box"] is not None for thing in picture["objects"]] == [True, True]
    marked.page.wait_for_selector("#objects button:has-text('Animal 2')")
    marked.page.keyboard.press("Control+z")
    marked.page.keyboard.press("Control+z")
    marked.saved()
    picture = json.loads(marked.page.evaluate("fetch('/api/pictures/2').then((answer) => answer.text())"))
    assert [thing["box"] for thing in picture["objects"]] == [None]


def test_left_and_right_are_proposed_as_a_pair(tab):
    tab.mark("left eye", 60, 80)
    tab.click(120, 200)
    assert tab.page.input_value("#name") == "right eye"
    tab.page.keyboard.press("Enter")
    tab.page.click("#pair-proposal button")
    tab.page.wait_for_selector("#pair-proposal button", state="detached")
    pairs = json.loads(tab.page.evaluate("fetch('/api/project').then((answer) => answer.text())"))["pairs"]
    assert len(pairs) == 1


def test_maps_are_laid_over_the_picture(marked):
    marked.show(2)
    marked.page.select_option("#view", "similarity")
    marked.page.keyboard.press("Escape")
    marked.page.click("#keypoints li >> nth=0")
    marked.page.wait_for_selector("#legend:has-text('nose')")
    marked.page.select_option("#view", "at:alike")
    marked.click(60, 80)
    marked.page.wait_for_selector("#legend:has-text('Looks like')")
    assert marked.points(2) == {}, "a click that asks does not mark"


def test_dropped_pictures_are_taken_and_others_named(tab, tmp_path, png):
    (tmp_path / "new.png").write_bytes(png())
    (tmp_path / "broken.png").write_bytes(b"no image")
    tab.page.set_input_files("#files", [tmp_path / "new.png", tmp_path / "broken.png"])
    tab.page.wait_for_selector(".toast.bad:has-text('broken.png')")
    tab.page.wait_for_selector("#picture-6")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_tab, scheme):
    from axe_playwright_python.sync_playwright import Axe

    tab = open_tab(color_scheme=scheme)
    for name, place in MARKS.items():
        tab.mark(name, *place)
    tab.find()
    tab.show(2)
    tab.page.click("#export")
    found = Axe().run(tab.page).response["violations"]
    tab.page.keyboard.press("Escape")
    tab.page.click("#help")
    found += Axe().run(tab.page).response["violations"]
    tab.page.goto(f"{tab.address}/docs")
    tab.page.wait_for_selector("body[data-ready=yes]")
    found += Axe().run(tab.page).response["violations"]
    serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, serious


class TestTour:
    """The tour of docs/web.md; with SALVIT_SCREENSHOTS=FOLDER its pictures are written there."""

    @pytest.fixture
    def folder(self, tmp_path):
        from salvit.data.creatures import draw_creature

        place = tmp_path / "foxes"
        place.mkdir()
        for number, seed in enumerate((22, 2, 7, 14, 18, 21, 23, 30)):
            draw_creature("fox", seed).image.save(place / f"fox-{number + 1:02d}.jpg", quality=92)
        return place

    @pytest.fixture
    def match(self):
        """The model that a project begins with, in place of the one that the other tests share."""
        from salvit.predict import load

        return load("lite", device="cpu")

    @pytest.mark.slow
    def test_the_tour_of_the_docs_works(self, open_tab, tmp_path):
        from salvit.data.creatures import draw_creature

        folder = Path(os.environ.get("SALVIT_SCREENSHOTS") or tmp_path)
        fox = draw_creature("fox", 22)
        names = ("nose", "left_ear", "throat", "left_front_paw", "left_back_paw", "tail_base", "tail_tip")
        tab = open_tab(color_scheme="light")
        tab.page.set_viewport_size({"width": 1440, "height": 860})
        for name in names:
            tab.mark(name.replace("_", " "), *fox.points[fox.names.index(name)])
        tab.page.click("[data-tool=link]")
        for first, second in ((0, 1), (0, 2), (2, 3), (2, 5), (5, 4), (5, 6)):
            for number in (first, second):
                tab.click(*fox.points[fox.names.index(names[number])])
            tab.saved()
        tab.page.click("[data-tool=mark]")
        tab.page.locator("#stage").focus()
        tab.find()
        tab.show(4)
        tab.page.wait_for_timeout(400)
        shoot(tab, folder / "page-light.jpg")
        tab.page.select_option("#view", "similarity")  # a network shows its finest grid instead
        tab.page.locator("#stage").focus()
        tab.page.keyboard.press("1")
        tab.page.wait_for_selector("#legend:has-text('nose')")
        tab.page.wait_for_timeout(300)
        shoot(tab, folder / "page-why.jpg")
        tab.page.select_option("#view", "none")
        tab.page.click("#theme")
        tab.show(6)
        tab.page.wait_for_timeout(400)
        shoot(tab, folder / "page-dark.jpg")
        assert all((folder / f"page-{name}.jpg").stat().st_size > 20_000 for name in ("light", "why", "dark"))


def shoot(tab, path):
    """A screenshot that is small enough for the repository."""
    import io

    from PIL import Image

    Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB").save(path, quality=84, optimize=True, subsampling=0)
