import json
from pathlib import Path

import numpy as np
import pytest
import torch

from salvit.data.support import read_support
from salvit.detections import SCHEMA, check_output, open_detections
from salvit.types import Detection, Pack


@pytest.fixture
def pack():
    return Pack(
        torch.zeros(1, 2, 3),
        torch.ones(1, 2, dtype=torch.bool),
        ("nose", "tail"),
        "match:lite0",
        "",
        (("nose", "tail"),),
    )


def found(path):
    return Detection(
        path=path,
        image_hw=(100, 200),
        names=("nose", "tail"),
        points=np.array([[10.5, 20.25], [30.0, 40.0]]),
        scores=np.array([0.9, 0.2]),
        presence=np.array([0.8, 0.1]),
        covariances=np.stack([np.eye(2), 4 * np.eye(2)]),
        located=np.array([True, False]),
    )


def test_the_file_is_coco_keypoints_with_scores_presence_and_covariances(pack, tmp_path):
    with open_detections(tmp_path / "sub" / "out.json", pack) as writer:
        writer.write(found(tmp_path / "a.jpg"))
    content = json.loads((tmp_path / "sub" / "out.json").read_text())
    assert content["info"]["schema"] == SCHEMA
    assert content["info"]["unknown"] == []
    assert content["categories"][0] == {"id": 1, "name": "object", "keypoints": ["nose", "tail"], "skeleton": [[1, 2]]}
    assert content["images"] == [{"id": 1, "file_name": "../a.jpg", "width": 200, "height": 100}]
    (annotation,) = content["annotations"]
    assert annotation["keypoints"] == [10.5, 20.25, 2, 0.0, 0.0, 0] and annotation["num_keypoints"] == 1
    assert annotation["keypoint_scores"] == [0.9, 0.0] and annotation["keypoint_presence"] == [0.8, 0.0]
    assert annotation["keypoint_covariances"] == [[[1, 0], [0, 1]], [[4, 0], [0, 4]]]
    assert [item.name for item in (tmp_path / "sub").iterdir()] == ["out.json"]


def test_pycocotools_reads_it(pack, tmp_path):
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools comes with the extra 'train'").COCO
    with open_detections(tmp_path / "out.json", pack) as writer:
        writer.write(found(tmp_path / "a.jpg"))
        writer.write(found(tmp_path / "b.jpg"))
    assert len(coco(str(tmp_path / "out.json")).getAnnIds()) == 2


def test_a_detection_file_is_a_support_file_too(pack, tmp_path):
    with open_detections(tmp_path / "out.json", pack) as writer:
        writer.write(found(tmp_path / "a.jpg"))
    marked = read_support(tmp_path / "out.json").images[0]
    assert marked.path == tmp_path / "a.jpg" and marked.marked.tolist() == [True, False]


def test_what_was_done_before_an_interruption_is_in_the_file(pack, tmp_path):
    with pytest.raises(KeyboardInterrupt), open_detections(tmp_path / "out.json", pack) as writer:
        writer.write(found(tmp_path / "a.jpg"))
        raise KeyboardInterrupt
    assert len(json.loads((tmp_path / "out.json").read_text())["annotations"]) == 1


def test_nothing_found_is_still_a_whole_file(pack, tmp_path):
    with open_detections(tmp_path / "out.json", pack):
        pass
    assert json.loads((tmp_path / "out.json").read_text())["images"] == []


def test_existing_files_and_folders_are_not_written_over(tmp_path):
    (tmp_path / "out.json").write_text("mine")
    with pytest.raises(FileExistsError, match="--overwrite"):
        check_output(tmp_path / "out.json", overwrite=False)
    check_output(tmp_path / "out.json", overwrite=True)
    with pytest.raises(ValueError, match="is a folder"):
        check_output(tmp_path, overwrite=False)


def test_a_place_that_cannot_be_written_is_an_error_before_any_work(tmp_path):
    with pytest.raises(PermissionError, match="cannot write"):
        check_output(Path("/proc/nowhere/out.json"), overwrite=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionError, match="not a folder"):
        check_output(tmp_path / "file" / "out.json", overwrite=False)


def test_two_objects_of_one_picture_share_its_entry(pack, tmp_path):
    from dataclasses import replace

    with open_detections(tmp_path / "out.json", pack) as writer:
        for index in (0, 1):
            writer.write(replace(found(tmp_path / "a.jpg"), index=index, warnings=("odd",) * index))
    content = json.loads((tmp_path / "out.json").read_text())
    assert len(content["images"]) == 1 and [row["image_id"] for row in content["annotations"]] == [1, 1]
    assert [row["id"] for row in content["annotations"]] == [1, 2]
    assert "warnings" not in content["annotations"][0] and content["annotations"][1]["warnings"] == ["odd"]


def test_lines_are_on_disk_as_soon_as_they_are_written(pack, tmp_path):
    lines = tmp_path / "out.json.partial.jsonl"
    with open_detections(tmp_path / "out.json", pack) as writer:
        writer.write(found(tmp_path / "a.jpg"))
        assert lines.read_text().count("\n") == 2
    assert not lines.exists()


def test_a_run_goes_on_from_its_lines(pack, tmp_path):
    with pytest.raises(RuntimeError), open_detections(tmp_path / "out.json", pack) as writer:
        writer.write(found(tmp_path / "a.jpg"))
        raise RuntimeError("the machine went away")
    with pytest.raises(FileExistsError, match="--resume goes on"), open_detections(tmp_path / "out.json", pack):
        pass
    with open_detections(tmp_path / "out.json", pack, resume=True) as writer:
        assert writer.has(tmp_path / "a.jpg") and not writer.has(tmp_path / "a.jpg", 1)
        assert not writer.has(tmp_path / "b.jpg")
        writer.write(found(tmp_path / "b.jpg"))
    names = [image["file_name"] for image in json.loads((tmp_path / "out.json").read_text())["images"]]
    assert names == ["a.jpg", "b.jpg"] and [item.name for item in tmp_path.iterdir()] == ["out.json"]
    with pytest.raises(FileExistsError, match="nothing to resume"):
        with open_detections(tmp_path / "out.json", pack, resume=True):
            pass


def test_lines_of_another_pack_or_other_settings_are_refused(pack, tmp_path):
    from dataclasses import replace

    path = tmp_path / "out.jsonl"
    with open_detections(path, pack, settings={"flip": False}) as writer:
        writer.write(found(tmp_path / "a.jpg"))
    for other, settings in ((replace(pack, vectors=pack.vectors + 1), {"flip": False}), (pack, {"flip": True})):
        with pytest.raises(ValueError, match="of another run"):
            with open_detections(path, other, resume=True, settings=settings):
                pass
    path.write_text(path.read_text().replace('"image"', "image"))
    with pytest.raises(ValueError, match="broken"), open_detections(path, pack, resume=True, settings={"flip": False}):
        pass
