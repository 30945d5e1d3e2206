import builtins
import sys

import numpy as np
import pytest

from salvit.formats import FORMATS, guess_format, read, write

FILES = {
    "coco": "out.json",
    "csv": "out.csv",
    "deeplabcut": "CollectedData_me.csv",
    "sleap": "out.slp",
    "ultralytics": "data.yaml",
    "label-studio": "tasks.json",
}
WITHOUT_BOXES = ("csv", "deeplabcut", "sleap")


@pytest.mark.parametrize("format", FORMATS)
def test_reading_back_gives_the_same_points(format, marks, tmp_path, assert_same):
    path = tmp_path / "out" / FILES[format]
    assert write(marks, path, format) == []
    assert guess_format(path) == format
    assert_same(marks, read(path), has_boxes=format not in WITHOUT_BOXES)


@pytest.mark.parametrize("format", FORMATS)
def test_several_objects_in_one_picture_come_back_as_several(format, herd, tmp_path, assert_same):
    path = tmp_path / "out" / FILES[format]
    assert write(herd, path, format) == []
    again = read(path)
    assert len(again.images) == 3
    assert_same(herd, again, has_boxes=format not in WITHOUT_BOXES)


@pytest.mark.parametrize("format", ["coco", "csv", "sleap", "label-studio"])
def test_scores_come_back_where_the_format_keeps_them(format, scored, tmp_path):
    path = tmp_path / "out" / FILES[format]
    write(scored, path, format)
    for one, other in zip(scored.images, read(path).images, strict=True):
        order = [other.names.index(name) for name in one.names]
        assert np.allclose(one.scores[one.marked], other.scores[order][one.marked])


@pytest.mark.parametrize("format", ["coco", "sleap", "ultralytics"])
def test_left_right_pairs_come_back_where_the_format_keeps_them(format, marks, tmp_path):
    path = tmp_path / "out" / FILES[format]
    write(marks, path, format)
    assert read(path).pairs == (("left_eye", "right_eye"),)


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_is_written_over_unless_asked(format, marks, tmp_path):
    path = tmp_path / "out" / FILES[format]
    write(marks, path, format)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="--overwrite"):
        write(marks, path, format)
    assert path.read_bytes() == before
    assert write(marks, path, format, overwrite=True) == []
    assert not list(path.parent.glob(".*"))


@pytest.mark.parametrize("format", ["deeplabcut", "ultralytics", "label-studio"])
def test_a_picture_that_is_gone_is_named_and_the_rest_goes_on(format, marks, tmp_path):
    marks.images[0].path.unlink()
    path = tmp_path / "out" / FILES[format]
    (problem,) = write(marks, path, format)
    assert "a b.png does not exist" in problem
    assert [marked.path.name for marked in read(path).images] == ["c.png"]


@pytest.mark.parametrize("format", ["deeplabcut", "ultralytics", "label-studio"])
def test_two_pictures_of_one_name_both_find_a_place(format, marks, tmp_path, assert_same):
    from dataclasses import replace

    (tmp_path / "other").mkdir()
    twin = replace(marks.images[1], path=tmp_path / "other" / "a b.png")
    twin.path.write_bytes(marks.images[1].path.read_bytes())
    path = tmp_path / "out" / FILES[format]
    assert write(replace(marks, images=(marks.images[0], twin)), path, format) == []
    again = read(path)
    assert sorted(marked.path.name for marked in again.images) == ["a b-2.png", "a b.png"]
    assert {marked.path.read_bytes() for marked in again.images} == {m.path.read_bytes() for m in marks.images}


@pytest.mark.parametrize("name", ["broken.json", "broken.slp", "broken.h5", "broken.yaml", "broken.csv"])
def test_a_broken_file_is_an_error_that_names_it(name, tmp_path):
    (tmp_path / name).write_bytes(b"\x89\x00nonsense\xff: [")
    with pytest.raises(ValueError, match=name):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match="is empty"):
        read(tmp_path / name)


def test_other_endings_missing_files_and_unknown_formats_are_errors(tmp_path, marks):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read(tmp_path / "absent.json")
    (tmp_path / "s.txt").write_text("x")
    with pytest.raises(ValueError, match=r"expected \.json"):
        read(tmp_path / "s.txt")
    with pytest.raises(ValueError, match="known: coco"):
        read(tmp_path / "s.txt", "labelme")
    with pytest.raises(ValueError, match="tells no format"):
        write(marks, tmp_path / "out.xyz")
    with pytest.raises(ValueError, match="folder without"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("format", "module"), [("sleap", "sleap_io"), ("deeplabcut", "pandas"), ("deeplabcut", "tables")]
)
def test_a_missing_extra_is_an_error_that_says_what_to_install(format, module, marks, tmp_path, monkeypatch):
    real = builtins.__import__
    monkeypatch.setattr(
        "importlib.import_module",
        lambda name, *rest: (_ for _ in ()).throw(ImportError(name)) if name == module else real(name, fromlist=["x"]),
    )
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ValueError, match=r"pip install 'salvit\[formats\]'"):
        write(marks, tmp_path / "out" / FILES[format], format)


def test_reading_coco_and_csv_imports_no_extra(marked_folder):
    import subprocess

    code = f"""
import sys, salvit
for name in ("support.json", "support.csv"):
    salvit.read_support({str(marked_folder)!r} + "/" + name)
print(sorted(set(sys.modules) & {{"pandas", "tables", "sleap_io", "supervision", "yaml"}}))"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
