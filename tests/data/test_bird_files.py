import pytest

from salvit.data.cub import PARTS, read_cub
from salvit.data.nabirds import read_nabirds


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("spaced", [False, True])
def test_cub_is_read_with_either_line_end_and_either_spelling_of_parts(write_cub, end, spaced):
    root = write_cub(end, spaced)
    dataset = read_cub(root)
    assert len(dataset.records) == dataset.num_images == 6
    first = dataset.records[0]
    assert first.id == "002.Laysan_Albatross/bird_1.jpg#0" and first.species == "002.Laysan_Albatross"
    assert first.names == PARTS and first.points[6].tolist() == [16.0, 26.0] and first.v.tolist()[:4] == [2, 2, 0, 2]
    assert first.box == (10.0, 5.0, 70.0, 55.0)


def test_the_folder_that_holds_the_set_will_do(write_cub):
    assert len(read_cub(write_cub().parent).records) == 6


def test_nabirds_has_dashed_ids_parts_from_0_and_class_names_with_spaces(nabirds_root):
    dataset = read_nabirds(nabirds_root)
    first, second = dataset.records
    assert first.species == "Mallard (Breeding male)" and second.species == "Blue-winged Teal (Male)"
    assert first.names[3] == "left_eye" and first.points[0].tolist() == [10.0, 20.0]


def test_broken_lines_are_counted(write_cub):
    root = write_cub()
    locations = root / "parts" / "part_locs.txt"
    locations.write_text(locations.read_text() + "1 99 5 5 1\n1 2 x 5 1\n1 2\n77 1 5 5 1\n")
    boxes = root / "bounding_boxes.txt"
    boxes.write_text(
        boxes.read_text().replace("2 10.0 5.0 60.0 50.0", "2 10.0 5.0 0.0 0.0").replace("3 10.0 5.0", "3 ?")
    )
    labels = root / "image_class_labels.txt"
    labels.write_text(labels.read_text().replace("4 1", "4 8"))
    with (root / "images.txt").open("a") as stream:
        stream.write("8 001.Black_footed_Albatross/gone.jpg\n")
    dataset = read_cub(root)
    assert len(dataset.records) == 5
    assert dataset.report.counts == {
        "part location that cannot be read": 3,
        "image id without an image": 1,
        "box of zero size": 1,
        "box that cannot be read": 1,
        "no box": 1,
        "image without a known class": 2,
    }


def test_unknown_missing_and_double_names_are_errors(write_cub):
    root = write_cub()
    parts = root / "parts" / "parts.txt"
    text = parts.read_text()
    parts.write_text(text.replace("beak", "snout"))
    with pytest.raises(ValueError, match="unknown part 'snout'"):
        read_cub(root)
    parts.write_text(text.replace("15 throat\n", ""))
    with pytest.raises(ValueError, match="missing: throat"):
        read_cub(root)
    parts.write_text(text + "15 throat\n")
    with pytest.raises(ValueError, match="the id 15 is there twice"):
        read_cub(root)
    parts.write_text("1\n")
    with pytest.raises(ValueError, match="line 1: expected an id, a space and a value"):
        read_cub(root)


def test_missing_files_are_errors_that_name_them(write_cub):
    root = write_cub()
    (root / "parts" / "part_locs.txt").unlink()
    with pytest.raises(ValueError, match=r"part_locs\.txt does not exist"):
        read_cub(root)
    (root / "classes.txt").unlink()
    with pytest.raises(ValueError, match=r"classes\.txt does not exist"):
        read_cub(root)


def test_the_real_cub_has_8830_images_of_150_species(real_cub):
    dataset = real_cub
    assert len(dataset.records) == dataset.num_images == 8830
    assert len({record.species for record in dataset.records}) == 150
    assert dataset.report.counts == {"keypoint outside the image": 1}
