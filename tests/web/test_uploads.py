"""What is taken in, and what is not."""

import pytest

from salvit.web.limits import Limits


def upload(client, *files):
    return client.post("/api/pictures", files=[("files", file) for file in files])


def test_a_picture_is_copied_in_with_its_folder(client, folder, png):
    answer = upload(client, ("trip/new.png", png()))
    assert answer.status_code == 201, answer.text
    (picture,) = answer.json()["pictures"]
    assert picture["path"] == "pictures/trip/new.png" and (picture["width"], picture["height"]) == (64, 48)
    assert (folder / "pictures" / "trip" / "new.png").read_bytes() == png()
    shown = client.get(f"/api/pictures/{picture['id']}/file")
    assert shown.content == png() and shown.headers["content-type"] == "image/png"


def test_the_same_picture_twice_is_one_and_another_of_its_name_gets_a_number(client, png):
    first, again, other = (
        upload(client, ("new.png", content)).json()["pictures"][0] for content in (png(9), png(9), png(8))
    )
    assert first["id"] == again["id"] and other["path"] == "pictures/new-2.png"


@pytest.mark.parametrize("name", ["../out.png", "/etc/out.png", "a/../../out.png", "C:/out.png", "..\\out.png", ".x"])
def test_names_that_lead_elsewhere_are_refused(client, folder, png, name):
    answer = upload(client, (name, png()))
    assert answer.status_code == 415 and "name" in answer.json()["detail"]
    assert not list(folder.parent.glob("**/out.png"))


def test_a_folder_that_is_a_link_out_of_the_project_is_refused(client, folder, tmp_path, png):
    (tmp_path / "elsewhere").mkdir()
    (folder / "pictures").symlink_to(tmp_path / "elsewhere")
    answer = upload(client, ("new.png", png()))
    assert answer.status_code == 415 and "leads out" in answer.json()["detail"]
    assert not list((tmp_path / "elsewhere").iterdir())


def test_links_out_of_the_project_are_left_out_of_a_scan_and_never_served(client, site, folder, tmp_path, picture):
    picture(7).save(tmp_path / "secret.png")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    answer = client.post("/api/scan").json()
    assert answer["pictures"] == [] and "leads out" in answer["refused"][0]
    (folder / "0.png").unlink()
    (folder / "0.png").symlink_to(tmp_path / "secret.png")
    assert client.get("/api/pictures/1/file").status_code == 400
    assert client.get("/api/pictures/1/thumbnail").status_code == 400


def test_files_that_are_no_images_are_refused_and_named(client, png):
    answer = upload(client, ("text.png", b"no image"), ("cut.png", png()[:200]), ("fine.png", png()), ("x.exe", b"MZ"))
    assert answer.status_code == 201 and len(answer.json()["pictures"]) == 1
    text, cut, ending = answer.json()["refused"]
    assert text.startswith("text.png: not an image") and "cut.png" in cut and "by its ending" in ending
    assert upload(client, ("text.png", b"no image")).status_code == 415


class TestSmallLimits:
    @pytest.fixture
    def limits(self):
        return Limits(upload_files=3, file_bytes=20_000, pixels=100_000, pictures=8, upload_bytes=200_000)

    def test_too_many_files_at_once_are_refused(self, client, png):
        answer = upload(client, *[(f"{n}.png", png(n)) for n in range(4)])
        assert answer.status_code == 413 and "at most 3" in answer.json()["detail"]

    def test_too_many_pictures_in_a_project_are_refused(self, client, png):
        assert upload(client, *[(f"a{n}.png", png(n)) for n in range(3)]).status_code == 201
        answer = upload(client, ("more.png", png()))
        assert answer.status_code == 413 and "at most 8" in answer.json()["detail"]

    def test_a_file_of_too_many_bytes_is_refused(self, client, png):
        answer = upload(client, ("big.png", png(size=(300, 300))))
        assert answer.status_code == 415 and "limit of 0 MB" in answer.json()["detail"]

    def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(self, client, picture):
        import io

        from PIL import Image

        content = io.BytesIO()
        Image.new("L", (1000, 1000)).save(content, "PNG")
        answer = upload(client, ("bomb.png", content.getvalue()))
        assert answer.status_code == 415 and "megapixels" in answer.json()["detail"]

    def test_an_upload_of_too_many_bytes_is_refused(self, client):
        answer = upload(client, ("big.png", b"x" * 200_001))
        assert answer.status_code == 413 and "larger than the limit" in answer.json()["detail"]


def test_a_tiff_is_shown_as_jpeg(client, png):
    (picture,) = upload(client, ("scan.tif", png(format="TIFF"))).json()["pictures"]
    shown = client.get(f"/api/pictures/{picture['id']}/file")
    assert shown.headers["content-type"] == "image/jpeg" and shown.content[:2] == b"\xff\xd8"


def test_a_thumbnail_is_small(client):
    import io

    from PIL import Image

    content = client.get("/api/pictures/1/thumbnail").content
    assert max(Image.open(io.BytesIO(content)).size) <= 320
