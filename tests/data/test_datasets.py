import pytest

from salvit.data.datasets import read_dataset


def test_a_set_is_read_by_its_name(animal_pose_root, nabirds_root, awa_root, write_cub):
    for name, root in (
        ("animal_pose", animal_pose_root),
        ("nabirds", nabirds_root),
        ("awa_pose", awa_root),
        ("cub", write_cub()),
    ):
        assert read_dataset(name, root).name == name


def test_creatures_are_a_coco_file(write_coco, coco_values):
    assert read_dataset("creatures", write_coco(coco_values)).name == "creatures"


def test_an_unknown_name_or_folder_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="unknown data set 'cup'; known: animal_pose, cub"):
        read_dataset("cup", tmp_path)
    with pytest.raises(ValueError, match="does not exist; expected the folder of cub"):
        read_dataset("cub", tmp_path / "none")
