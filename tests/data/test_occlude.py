import numpy as np
import pytest

from salvit.data.occlude import OCCLUDERS, Blocks, Occlusion, hide_boxes, hide_patches, sample_blocks, sample_patch_mask
from salvit.geometry import MEAN_COLOUR

PIXELS = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
BOX = np.array([[10.0, 20.0, 30.0, 40.0]])


def test_blocks_have_the_papers_area_and_aspect_and_sit_on_their_keypoints():
    points = np.full((2000, 2), 500.0)
    box = (100.0, 100.0, 900.0, 700.0)
    blocks = sample_blocks(points, np.ones(2000, dtype=bool), box, (1000, 1000), np.random.default_rng(0))
    width, height = (blocks.boxes[:, 2] - blocks.boxes[:, 0]), (blocks.boxes[:, 3] - blocks.boxes[:, 1])
    share, aspect = width * height / (800 * 600), width / height
    assert 0.01 <= share.min() < 0.0105 and 0.0395 < share.max() <= 0.04
    assert 0.7 <= aspect.min() < 0.71 and 1.39 < aspect.max() <= 1.4
    assert (blocks.boxes[:, :2] + blocks.boxes[:, 2:]) / 2 == pytest.approx(points + 0.5)


def test_a_block_is_cut_at_the_border():
    blocks = sample_blocks(
        np.zeros((1, 2)), np.array([True]), (0.0, 0.0, 50.0, 50.0), (60, 80), np.random.default_rng(0)
    )
    assert blocks.boxes[0, :2].tolist() == [0, 0] and (blocks.boxes[0, 2:] > 0).all()


def test_keypoints_are_hidden_with_probability_p_and_more_p_hides_more():
    points, visible = np.full((1000, 2), 30.0), np.arange(1000) >= 100
    blocks = sample_blocks(points, visible, (0.0, 0.0, 60.0, 60.0), (60, 80), np.random.default_rng(1))
    counts = [len(blocks.chosen(p)) for p in (0.0, 0.3, 0.7, 1.0)]
    assert counts[0] == 0 and counts[3] == 900 and 230 < counts[1] < 310 < 590 < counts[2] < 670
    assert {tuple(box) for box in blocks.chosen(0.3)} <= {tuple(box) for box in blocks.chosen(0.7)}
    with pytest.raises(ValueError, match=r"expected a number in \[0, 1\]"):
        blocks.chosen(30)


@pytest.mark.parametrize("occluder", OCCLUDERS)
def test_only_the_box_changes_and_saliency_is_zero_beneath_it(occluder):
    saliency = np.full((60, 80), 200, dtype=np.uint8)
    saliency[45:] = 10
    hidden, dimmed = hide_boxes(PIXELS, Occlusion(occluder, BOX, 3), saliency=saliency)
    inside = np.zeros((60, 80), dtype=bool)
    inside[20:40, 10:30] = True
    assert (hidden[~inside] == PIXELS[~inside]).all() and (hidden[inside] != PIXELS[inside]).any()
    assert (dimmed[inside] == 0).all() and (dimmed[~inside] == saliency[~inside]).all()
    assert saliency[30, 20] == 200  # what was given is not changed


def test_grey_is_the_mean_colour_and_average_is_the_boxs_own():
    grey, _ = hide_boxes(PIXELS, Occlusion("grey", BOX, 0))
    assert (grey[20:40, 10:30] == MEAN_COLOUR).all()
    average, _ = hide_boxes(PIXELS, Occlusion("average", BOX, 0))
    assert (average[20:40, 10:30] == np.rint(PIXELS[20:40, 10:30].reshape(-1, 3).mean(0))).all()


@pytest.mark.parametrize("by", ["saliency", "box"])
def test_background_comes_from_where_the_object_is_not(by):
    pixels = np.zeros((60, 80, 3), dtype=np.uint8)
    pixels[:, 50:] = 77  # the object is on the left, x < 50
    saliency = np.where(np.arange(80) < 62, 255, 0).astype(np.uint8)[None].repeat(60, 0)
    known = {"saliency": saliency} if by == "saliency" else {"object_box": (0.0, 0.0, 62.0, 60.0)}
    small = np.array([[10.0, 20.0, 20.0, 30.0]])
    for seed in range(20):
        hidden, _ = hide_boxes(pixels, Occlusion("background", small, seed), **known)
        assert (hidden[20:30, 10:20] == 77).all()


def test_where_nothing_is_background_the_border_is_taken():
    hidden, _ = hide_boxes(PIXELS, Occlusion("background", BOX, 0), object_box=(0.0, 0.0, 80.0, 60.0))
    assert hidden.shape == PIXELS.shape


def test_boxes_beyond_the_border_are_cut_and_empty_ones_hide_nothing():
    boxes = np.array([[-5.0, -5.0, 4.0, 3.0], [78.0, 58.0, 99.0, 99.0], [5.0, 5.0, 5.2, 9.0], [90.0, 90.0, 95.0, 95.0]])
    hidden, _ = hide_boxes(PIXELS, Occlusion("grey", boxes, 0))
    changed = (hidden != PIXELS).any(-1)
    assert changed[:3, :4].all() and changed[58:, 78:].all() and changed.sum() == 12 + 4


def test_an_unknown_occluder_is_refused():
    with pytest.raises(ValueError, match="unknown occluder 'black'"):
        hide_boxes(PIXELS, Occlusion("black", BOX, 0))


def test_a_mask_hides_2_to_12_foreground_patches_of_half_the_images():
    saliency = np.zeros((384, 384), dtype=np.uint8)
    saliency[64:256, 96:320] = 255  # 6 × 7 patches
    rng = np.random.default_rng(0)
    masks = [sample_patch_mask(saliency, rng, patch=32) for _ in range(400)]
    numbers = [int(mask.sum()) for mask in masks]
    assert masks[0].shape == (12, 12)
    assert 160 < numbers.count(0) < 240 and set(numbers) == {0, *range(2, 13)}
    assert not any(mask[:2].any() or mask[8:].any() or mask[:, :3].any() or mask[:, 10:].any() for mask in masks)


def test_a_patch_is_foreground_from_a_tenth_of_its_pixels_at_two_fifths():
    saliency = np.zeros((64, 64), dtype=np.uint8)
    saliency[:32, :32].flat[:103] = 102  # 103 / 1024 > 10 %, 102 = 0.4 · 255
    saliency[:32, 32:].flat[:103] = 101
    saliency[32:, :32].flat[:102] = 255
    saliency[32:, 32:] = 255
    rng = np.random.default_rng(0)
    union = np.any([sample_patch_mask(saliency, rng, patch=32, probability=1.0) for _ in range(200)], 0)
    assert union.tolist() == [[True, False], [False, True]]


def test_too_little_foreground_is_never_hidden_whole():
    saliency = np.zeros((64, 64), dtype=np.uint8)
    saliency[:32, :32] = 255
    rng = np.random.default_rng(0)
    assert not any(sample_patch_mask(saliency, rng, patch=32, probability=1.0).any() for _ in range(50))


def test_a_masked_image_is_grey_and_not_salient_in_its_patches():
    pixels, saliency = np.ones((64, 64, 3), dtype=np.uint8), np.full((64, 64), 9, dtype=np.uint8)
    hidden, dimmed = hide_patches(pixels, saliency, np.array([[False, True], [False, False]]))
    assert (hidden[:32, 32:] == MEAN_COLOUR).all() and (dimmed[:32, 32:] == 0).all()
    assert (hidden == 1).all(-1).sum() == 3 * 32 * 32 and (dimmed == 9).sum() == 3 * 32 * 32
    assert hide_patches(pixels, None, np.zeros((2, 2), dtype=bool))[1] is None


def test_a_map_that_is_no_square_of_patches_is_refused():
    with pytest.raises(ValueError, match="whole patches of 32"):
        sample_patch_mask(np.zeros((60, 60), dtype=np.uint8), np.random.default_rng(0), patch=32)


def test_blocks_of_absent_keypoints_are_never_chosen():
    assert len(Blocks(np.zeros((2, 4)), np.array([1.0, 0.5])).chosen(1.0)) == 1
