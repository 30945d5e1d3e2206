from salvit.data.check import check_dataset
from salvit.data.datasets import read_dataset


def no_progress(items, total, what):
    return iter(items)


def test_everything_is_counted(animal_pose_root):
    found = check_dataset(read_dataset("animal_pose", animal_pose_root, keep_missing=True), no_progress)
    assert (found["images"], found["images_present"], found["records"], found["boxes"]) == (61, 61, 62, 62)
    assert found["species"] == {"cat": 12, "cow": 13, "dog": 12, "horse": 13, "sheep": 12}
    assert found["problems"] == {}
    assert found["differences"] == [
        "61 images; the full data set has 4,608",
        "62 records; the full data set has 6,117",
    ]


def test_missing_and_corrupt_images_are_told(write_cub):
    root = write_cub()
    files = sorted((root / "images").glob("*/*.jpg"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:400])  # its head is whole, its pixels are not
    found = check_dataset(read_dataset("cub", root, keep_missing=True), no_progress)
    assert found["images_present"] == 5 and found["records"] == 6
    assert found["problems"]["image missing"]["count"] == 1
    assert found["problems"]["image that cannot be decoded"]["count"] == 1
    assert found["species_in_lists"] == {"train": 1, "val": 1}


def test_a_set_without_a_split_is_checked_too(write_coco, coco_values):
    found = check_dataset(read_dataset("coco", write_coco(coco_values)), no_progress)
    assert found["records"] == 2 and found["differences"] == []
