"""Names and paths from outside."""

import pytest

from salvit.projects import check_name, resolve_inside

SUFFIXES = (".jpg", ".png")


def test_a_plain_name_and_one_in_folders_are_taken_as_their_parts():
    assert check_name("cat.jpg", SUFFIXES) == ("cat.jpg",)
    assert check_name("trip/day one/Katze ü.PNG", SUFFIXES) == ("trip", "day one", "Katze ü.PNG")


@pytest.mark.parametrize(
    "name",
    ["../cat.jpg", "a/../../cat.jpg", "a/./cat.jpg", "a//cat.jpg", "", "/etc/cat.jpg", "C:/cat.jpg", "c:cat.jpg",
     "..\\cat.jpg", "a\\b.jpg", "cat\x00.jpg", "cat\n.jpg", ".hidden.jpg", ".git/cat.jpg", "cat.txt", "cat",
     "x" * 200 + ".jpg", "/".join("abcdefghij") + ".jpg", "a:b.jpg"],
)  # fmt: skip
def test_names_that_could_lead_elsewhere_are_refused(name):
    with pytest.raises(ValueError):
        check_name(name, SUFFIXES)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_followed(tmp_path):
    inside, outside = tmp_path / "project", tmp_path / "elsewhere"
    inside.mkdir(), outside.mkdir()
    (outside / "secret.jpg").write_bytes(b"x"), (inside / "own.jpg").write_bytes(b"y")
    (inside / "out.jpg").symlink_to(outside / "secret.jpg")
    (inside / "folder").symlink_to(outside)
    (inside / "in.jpg").symlink_to(inside / "own.jpg")
    assert resolve_inside(inside, "in.jpg") == inside / "own.jpg"
    for path in ("out.jpg", "folder/secret.jpg", "../elsewhere/secret.jpg", "/etc/passwd"):
        with pytest.raises(ValueError, match="leads out"):
            resolve_inside(inside, path)
