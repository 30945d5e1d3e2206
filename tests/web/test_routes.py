"""The REST API: the same calls as the page."""

import json

from salvit.data.support import read_support

MARKS = {"nose": (60.0, 80.0), "tail": (250.0, 150.0), "paw": (120.0, 200.0)}


def test_two_windows_that_move_one_point_do_not_destroy_each_other(client, mark):
    names = mark(1, nose=(10.0, 10.0))
    thing = client.get("/api/pictures/1").json()["objects"][0]
    (point,) = thing["points"]
    change = {"object": thing["id"], "keypoint": names["nose"], "kind": "placed", "revision": point["revision"]}
    first = client.put("/api/marks", json={"changes": [{**change, "x": 20, "y": 20}]})
    late = client.put("/api/marks", json={"changes": [{**change, "x": 30, "y": 30}]})
    assert first.status_code == 200 and late.status_code == 409
    assert "another window" in late.json()["detail"]
    assert client.get("/api/pictures/1").json()["objects"][0]["points"][0]["x"] == 20


def test_coco_is_exported_and_read_back(client, mark, finish, folder):
    mark(1, **MARKS)
    finish(client.post("/api/jobs", json={}).json()["id"])
    names = {point["name"]: point["id"] for point in client.get("/api/project").json()["keypoints"]}
    client.put("/api/links", json={"kind": "skeleton", "first": names["nose"], "second": names["tail"]})
    answer = client.get("/api/export/coco")
    assert "project.json" in answer.headers["content-disposition"]
    (folder / "export.json").write_bytes(answer.content)
    support = read_support(folder / "export.json")
    assert len(support.images) == 5 and support.skeleton == (("nose", "tail"),)
    assert support.images[0].points.tolist() == [list(place) for place in MARKS.values()]
    assert all(image.path.is_file() for image in support.images)


def test_only_marks_are_exported_where_that_is_asked(client, mark, finish):
    mark(1, **MARKS)
    finish(client.post("/api/jobs", json={}).json()["id"])
    content = client.get("/api/export/coco", params={"only_marks": True}).json()
    assert len(content["annotations"]) == 1 and content["annotations"][0]["num_keypoints"] == 3


def test_a_point_that_is_absent_or_unsure_is_not_exported(client, mark, finish):
    names = mark(1, **MARKS)
    mark(2, "absent", nose=(0.0, 0.0))
    finish(client.post("/api/jobs", json={}).json()["id"])
    client.patch("/api/settings", json={"threshold": 1.0})
    content = client.get("/api/export/coco").json()
    assert [row["num_keypoints"] for row in content["annotations"]] == [3, 0, 0, 0, 0]
    assert list(names) == content["categories"][0]["keypoints"]


def test_a_pack_is_exported_that_the_command_line_can_use(client, mark, match, folder, tmp_path):
    from salvit.packs import load_pack
    from salvit.predict import detect

    mark(1, **MARKS)
    (tmp_path / "pack.safetensors").write_bytes(client.get("/api/pack").content)
    pack = load_pack(tmp_path / "pack.safetensors")
    assert pack.names == tuple(MARKS)
    (found,) = detect(match, pack, [folder / "3.png"])
    assert abs(found.points[0] - MARKS["nose"]).max() < 12


def test_nothing_to_export_and_unknown_formats_are_said(client, mark):
    assert "no point" in client.get("/api/export/coco").json()["detail"]
    assert "mark at least one" in client.get("/api/pack").json()["detail"]
    mark(1, **MARKS)
    answer = client.get("/api/export/word")
    assert answer.status_code == 400 and "coco" in answer.json()["detail"]


def test_models_are_listed_and_one_that_is_not_here_is_refused(client):
    choices = client.get("/api/choices").json()
    assert "match" in [model["name"] for model in choices["models"]] and "learned" in choices["saliency"]
    answer = client.patch("/api/settings", json={"model": "../../etc/passwd"})
    assert answer.status_code == 400 and "not on this machine" in answer.json()["detail"]
    assert client.patch("/api/settings", json={"saliency": "magic"}).status_code == 400


def test_maps_explain_an_object(client, mark):
    import base64

    names = mark(1, **MARKS)
    views = client.get("/api/objects/2/views").json()
    assert views["keypoints"] == sorted(names.values()) and set(views["views"]) == {"similarity", "saliency"}
    similarity = views["views"]["similarity"]
    count, height, width = similarity["shape"]
    values = base64.b64decode(similarity["values"])
    assert count == 3 and len(values) == count * height * width and max(values) == 255
    x1, y1, x2, y2 = views["window"]
    assert (x1, x2) == (0, 320) and y2 - y1 == x2 - x1


def test_a_clicked_place_is_most_like_itself(client):
    import base64

    answer = client.get("/api/objects/1/views/at", params={"x": 60, "y": 80}).json()
    _, _, width = answer["views"]["alike"]["shape"]
    values = base64.b64decode(answer["views"]["alike"]["values"])
    row, column = divmod(values.index(255), width)
    x1, y1, x2, _ = answer["window"]
    cell = (x2 - x1) / width
    assert abs((column + 0.5) * cell + x1 - 60.5) <= cell and abs((row + 0.5) * cell + y1 - 80.5) <= cell
    assert client.get("/api/objects/1/views/at", params={"x": 9000, "y": 80}).status_code == 400


def test_what_is_not_there_is_404_and_nonsense_is_422(client):
    for path in ("/api/pictures/99", "/api/pictures/99/file", "/api/jobs/99", "/api/objects/99/views"):
        assert client.get(path).status_code == 404, path
    assert client.get("/api/pictures/0").status_code == 422
    change = {"object": 1, "keypoint": 1, "kind": "placed", "x": "NaN"}
    assert client.put("/api/marks", json={"changes": [change]}).status_code == 422
    raw = '{"changes": [{"object": 1, "keypoint": 1, "kind": "placed", "x": Infinity}]}'
    headers = {"content-type": "application/json"}
    assert client.put("/api/marks", content=raw, headers=headers).status_code == 422


def test_the_api_is_documented_without_the_internet(client):
    paths = client.get("/api/openapi.json").json()["paths"]
    assert {"/api/jobs", "/api/marks", "/api/pack", "/api/pictures"} <= set(paths)
    assert "http://" not in json.dumps(client.get("/docs").text)


def test_every_format_of_the_command_line_is_exported_and_read_back(client, mark, finish, folder, tmp_path):
    import io
    import zipfile

    from salvit.formats import FORMATS, read

    mark(1, **MARKS)
    finish(client.post("/api/jobs", json={}).json()["id"])
    formats = client.get("/api/choices").json()["formats"]
    assert {"coco", "csv", "label-studio"} <= set(formats) <= set(FORMATS)
    for format in formats:
        answer = client.get(f"/api/export/{format}")
        assert answer.status_code == 200, answer.text
        name = answer.headers["content-disposition"].partition('filename="')[2].rstrip('"')
        target = folder / name
        target.write_bytes(answer.content)
        if target.suffix == ".zip":
            zipfile.ZipFile(io.BytesIO(answer.content)).extractall(tmp_path / format)
            target = tmp_path / format / "project"
        support = read(target, None if target.is_dir() else format)
        assert len(support.images) == 5 and set(support.names) == set(MARKS), format
        first = next(image for image in support.images if image.path.name == "0.png")
        assert abs(first.points[first.names.index("nose")] - MARKS["nose"]).max() < 0.5, format
    assert not list(folder.glob(".export*")) and not list((folder / ".salvit").glob("export-*"))


def test_the_pictures_refine_what_was_taught(client, mark, finish):
    names = mark(1, **MARKS)
    finish(client.post("/api/jobs", json={"kind": "detect"}).json()["id"])
    before = client.get("/api/pictures/3").json()["objects"][0]["points"]
    job = finish(client.post("/api/jobs", json={"kind": "transductive"}).json()["id"])
    after = client.get("/api/pictures/3").json()["objects"][0]["points"]
    assert job["state"] == "done" and [point["keypoint"] for point in after] == sorted(names.values())
    assert [point["score"] for point in after] != [point["score"] for point in before]
    marked = client.get("/api/pictures/1").json()["objects"][0]["points"]
    assert all(point["kind"] == "placed" for point in marked)
