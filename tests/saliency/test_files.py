from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from salvit.saliency.files import FileSaliency

PICTURE = np.zeros((4, 6, 3), dtype=np.uint8)


def test_a_map_beside_its_image_is_read_by_name(tmp_path):
    Image.fromarray(np.full((4, 6), 51, dtype=np.uint8)).save(tmp_path / "cat.saliency.png")
    assert FileSaliency()(PICTURE, tmp_path / "cat.jpg") == pytest.approx(np.full((4, 6), 0.2))


def test_a_mirror_folder_keeps_the_folders_of_the_images(tmp_path):
    (tmp_path / "maps" / "a").mkdir(parents=True)
    Image.fromarray(np.full((2, 3), 255, dtype=np.uint8)).save(tmp_path / "maps" / "a" / "cat.png")
    provider = FileSaliency(tmp_path / "maps", tmp_path / "images")
    assert (provider(PICTURE, tmp_path / "images" / "a" / "cat.jpg") == 1).all()  # and scaled to the picture
    assert FileSaliency(tmp_path / "maps" / "a").map_path(Path("x/cat.jpg")) == tmp_path / "maps" / "a" / "cat.png"


def test_16_bit_and_colour_maps_are_scaled_to_one(tmp_path):
    Image.fromarray(np.full((4, 6), 65535, dtype=np.uint16)).save(tmp_path / "a.saliency.png")
    Image.fromarray(np.full((4, 6, 3), 255, dtype=np.uint8)).save(tmp_path / "b.saliency.png")
    assert (FileSaliency()(PICTURE, tmp_path / "a.jpg") == 1).all()
    assert (FileSaliency()(PICTURE, tmp_path / "b.jpg") == 1).all()


def test_a_missing_map_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"dog\.saliency\.png"):
        FileSaliency()(PICTURE, tmp_path / "dog.jpg")


def test_a_broken_map_is_named(tmp_path):
    (tmp_path / "dog.saliency.png").write_text("no image")
    with pytest.raises(OSError, match=r"dog\.saliency\.png"):
        FileSaliency()(PICTURE, tmp_path / "dog.jpg")


def test_a_picture_without_a_file_is_refused():
    with pytest.raises(ValueError, match="came from none"):
        FileSaliency()(PICTURE)


def test_an_image_outside_the_mirrored_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="does not lie in"):
        FileSaliency(tmp_path / "maps", tmp_path / "images")(PICTURE, tmp_path / "elsewhere" / "cat.jpg")
