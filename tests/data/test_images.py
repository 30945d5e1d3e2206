import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from salvit.data.images import fit_image, image_hw, read_and_fit, read_image
from salvit.geometry import MEAN_COLOUR


def gradient(height, width):
    x = np.linspace(0, 255, width)[None].repeat(height, 0)
    return Image.fromarray(np.stack([x, x, x], -1).astype(np.uint8))


@pytest.mark.parametrize("mode", ["L", "P", "1", "CMYK", "RGBA", "LA", "YCbCr", "HSV", "LAB", "F", "I"])
def test_every_mode_becomes_rgb(mode, tmp_path):
    image = gradient(8, 9)
    image = (
        image.convert("RGBA").convert(mode)
        if mode == "LA"
        else image.convert("RGB").convert(mode)
        if mode
        not in (
            "F",
            "I",
        )
        else image.convert("L").convert(mode)
    )
    path = tmp_path / ("picture.tif" if mode not in ("HSV",) else "picture.png")
    (image.convert("RGB") if mode == "HSV" else image).save(path)
    read = read_image(path)
    assert (read.mode, read.size) == ("RGB", (9, 8))


def test_sixteen_bits_are_scaled_down_not_cut(tmp_path):
    values = np.array([[0, 32768, 65535]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    assert np.asarray(read_image(tmp_path / "deep.png"))[0, :, 0].tolist() == [0, 128, 255]


def test_transparency_is_laid_on_white(tmp_path):
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert np.asarray(read_image(tmp_path / "clear.png")).min() == 255


def test_an_animation_gives_its_first_frame(tmp_path):
    frames = [Image.new("RGB", (6, 6), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert read_image(tmp_path / "moving.gif").getpixel((0, 0))[0] > 200


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_honoured(orientation, tmp_path):
    shown = gradient(20, 30)  # bright on the right, as a person should see it
    inverse = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    stored = shown if orientation == 1 else shown.transpose(Image.Transpose(inverse[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "turned.png", exif=exif)
    read = read_image(tmp_path / "turned.png")
    assert read.size == (30, 20)
    assert np.abs(np.asarray(read).astype(int) - np.asarray(shown).astype(int)).max() <= 2
    assert image_hw(tmp_path / "turned.png") == (20, 30)


def test_points_are_in_the_turned_frame(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20)).save(tmp_path / "turned.jpg", exif=exif)
    fitted = read_and_fit(tmp_path / "turned.jpg", 32)
    assert fitted.fit.window == (0, 0, 20, 40) and fitted.image_hw == (40, 20)


def test_a_large_image_is_refused_before_it_is_decoded(tmp_path):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 20000, 20000, 8, 2, 0, 0, 0)
    path = tmp_path / "huge.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    with pytest.raises(
        ValueError, match=r"20000×20000 pixels are more than the limit of 100 megapixels.*--max-megapixels"
    ):
        read_image(path)
    with pytest.raises(OSError, match="broken"):  # allowed, so it is decoded, and there is nothing in it
        read_image(path, max_pixels=500_000_000)


def test_not_an_image_truncated_empty_missing_and_video_each_say_what_is_wrong(tmp_path):
    (tmp_path / "text.jpg").write_text("hello")
    gradient(200, 200).save(tmp_path / "whole.jpg", quality=95)
    content = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "film.mp4").write_bytes(b"film")
    for name, message in {
        "text.jpg": "not an image",
        "cut.jpg": "broken or cut short",
        "empty.jpg": "empty",
        "absent.jpg": "does not exist",
        "film.mp4": "ffmpeg",
    }.items():
        with pytest.raises((OSError, ValueError), match=message):
            read_image(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="is a folder"):
        read_image(tmp_path)


def test_one_pixel_can_be_fitted(tmp_path):
    Image.new("RGB", (1, 1), "red").save(tmp_path / "dot.png")
    fitted = read_and_fit(tmp_path / "dot.png", 32)
    assert fitted.pixels.shape == (32, 32, 3) and fitted.fit.to_image([[15.5, 15.5]]).tolist() == [[0, 0]]


def test_padding_has_the_mean_colour_and_the_picture_is_centred():
    fitted = fit_image(Image.new("RGB", (100, 50), "white"), 64)
    assert tuple(fitted.pixels[0, 0]) == MEAN_COLOUR and tuple(fitted.pixels[32, 32]) == (255, 255, 255)
    assert tuple(fitted.pixels[15, 5]) == MEAN_COLOUR and tuple(fitted.pixels[16, 5]) == (255, 255, 255)


def test_a_bright_spot_lands_where_the_fit_says():
    pixels = np.zeros((300, 500, 3), dtype=np.uint8)
    pixels[200:203, 401:404] = 255  # centred on the point (402, 201)
    for window in (None, (350.25, 100.5, 480.0, 290.0)):
        fitted = fit_image(Image.fromarray(pixels), 320, window)
        bright = fitted.pixels[..., 0].astype(float)
        bright[fitted.pixels[..., 0] == MEAN_COLOUR[0]] = 0
        y, x = np.mgrid[:320, :320]
        centre = [(bright * x).sum() / bright.sum(), (bright * y).sum() / bright.sum()]
        assert np.allclose(centre, fitted.fit.to_input([402, 201]), atol=0.15)


def test_a_jpeg_that_is_decoded_small_is_fitted_as_one_that_is_not(tmp_path):
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)).resize(
        (1280, 960), Image.Resampling.BICUBIC
    )
    noise.save(tmp_path / "large.jpg", quality=97)
    small = read_and_fit(tmp_path / "large.jpg", 320)
    full = fit_image(read_image(tmp_path / "large.jpg"), 320)
    assert small.fit == full.fit
    assert np.abs(small.pixels.astype(int) - full.pixels.astype(int)).mean() < 1.0
