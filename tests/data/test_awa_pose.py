import json
import os
import pickle

import pytest

from salvit.data.awa_pose import KEYPOINTS, read_awa_pickles, read_awa_pose, read_plain_pickle


class Evil:
    def __reduce__(self):
        return (os.system, ("true",))


def test_pickles_give_one_record_for_each_animal(awa_root):
    dataset = read_awa_pose(awa_root)
    first, second = dataset.records
    assert (first.id, second.id, first.species) == ("zebra_10001.jpg#0", "zebra_10001.jpg#1", "zebra")
    assert first.points[0].tolist() == [30.0, 20.0] and first.v[KEYPOINTS.index("right_eye")] == 0
    assert first.box == (5.5, 4.0, 70.25, 50.0) and not first.is_box_from_points and second.is_box_from_points
    assert dataset.report.counts == {"no box": 1}


def test_a_pickle_with_a_class_in_it_is_never_run(tmp_path):
    (tmp_path / "evil.pickle").write_bytes(pickle.dumps({"a1": Evil()}))
    with pytest.raises(ValueError, match=r"evil\.pickle was not read: it asks for posix\.system"):
        read_plain_pickle(tmp_path / "evil.pickle")


def test_unreadable_pickles_and_odd_keys_are_counted(awa_root, awa_animal):
    folder = awa_root / "Annotations" / "zebra"
    (folder / "zebra_10002.pickle").write_bytes(pickle.dumps({"a1": Evil()}))
    (folder / "zebra_10003.pickle").write_bytes(pickle.dumps({"a1": awa_animal})[:50])
    (folder / "zebra_10004.pickle").write_bytes(pickle.dumps({"a1": {**awa_animal, "tail_e": [1, 2]}}))
    (folder / "zebra_10005.pickle").write_bytes(pickle.dumps({"a1": 3, "a2": {**awa_animal, "nose": [1]}}))
    dataset = read_awa_pose(awa_root, keep_missing=True)
    assert dataset.report.counts == {
        "no box": 1,
        "pickle that cannot be read": 2,
        "unknown keypoint name": 1,
        "image missing": 1,
        "animal that is not an object": 1,
        "keypoints are not [x, y]": 1,
    }


@pytest.fixture
def joined() -> dict:
    flat = [value for index in range(39) for value in (index, index + 1, 2)]
    image = {"width": 80, "height": 60, "filename": "zebra_10001.jpg", "id": "zebra_10001"}
    annotation = {"bbox": [5, 4, 70, 50], "category_id": 1, "animal": "zebra", "image_id": "zebra_10001"}
    return {
        "images": [image],
        "annotations": [
            {**annotation, "keypoints": flat},
            {**annotation, "keypoints": flat, "image_id": "zebra_3"},
            {**annotation, "keypoints": flat[:-1]},
            None,
        ],
        "categories": [{"id": 1, "name": "quadruped animal", "keypoints": list(KEYPOINTS), "skeleton": []}],
    }


@pytest.mark.parametrize("suffix", ["json", "pickle"])
def test_the_authors_joined_file_is_read_first_in_either_wrapping(awa_root, joined, suffix):
    text = json.dumps(joined).encode() if suffix == "json" else pickle.dumps(joined)
    (awa_root / f"dataset.{suffix}").write_bytes(text)
    dataset = read_awa_pose(awa_root)
    assert [record.box for record in dataset.records] == [(5.0, 4.0, 70.0, 50.0)]
    assert dataset.report.counts == {
        "image id without an image": 1,
        "wrong number of keypoints": 1,
        "entry that is not an object": 1,
    }


def test_other_keypoints_in_the_joined_file_are_an_error(awa_root, joined):
    joined["categories"][0]["keypoints"][0] = "snout"
    (awa_root / "dataset.json").write_text(json.dumps(joined))
    with pytest.raises(ValueError, match="unknown: snout"):
        read_awa_pose(awa_root)


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"expected dataset\.json"):
        read_awa_pose(tmp_path)


def test_the_real_set_has_10052_annotations_of_35_species_none_unread(shared_data):
    dataset = read_awa_pose(shared_data / "awa_pose", keep_missing=True)
    assert len(dataset.records) == 10_052 and len({record.species for record in dataset.records}) == 35
    assert dataset.report.counts == {"image missing": 10_052}


def test_the_real_pickles_are_read_without_a_class(shared_data):
    dataset = read_awa_pickles(shared_data / "awa_pose", keep_missing=True)
    assert {record.species for record in dataset.records} == {"antelope", "cow", "zebra"}
    assert "pickle that cannot be read" not in dataset.report.counts
