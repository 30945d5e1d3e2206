from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from salvit.data.coco import read_coco
from salvit.data.creatures import (
    DEMO_KEYPOINTS,
    KEYPOINTS,
    PAIRS,
    SKELETON,
    SPECIES,
    draw_creature,
    write_creatures,
    write_demo,
)
from salvit.data.support import read_support
from salvit.demo import demo_queries, demo_support
from salvit.geometry import flip_points, is_inside

SMALL = (180, 240)
SWAPPED = [KEYPOINTS.index(dict([*PAIRS, *((b, a) for a, b in PAIRS)]).get(name, name)) for name in KEYPOINTS]


def drawings(occlusion: float = 0.0, seeds: int = 3):
    """Every species in a few poses."""
    for species in SPECIES:
        for seed in range(seeds):
            yield draw_creature(species, seed, size_hw=SMALL, occlusion=occlusion)


def is_near_mask(mask: np.ndarray, point: np.ndarray, reach: int = 2) -> bool:
    x, y = np.round(point).astype(int)
    return bool(mask[max(0, y - reach) : y + reach + 1, max(0, x - reach) : x + reach + 1].any())


def test_the_same_arguments_give_the_same_bytes_and_another_seed_does_not():
    first, second = (draw_creature("fox", 7, occlusion=0.5, size_hw=SMALL) for _ in range(2))
    assert first.image.tobytes() == second.image.tobytes()
    np.testing.assert_array_equal(first.points, second.points)
    np.testing.assert_array_equal(first.v, second.v)
    np.testing.assert_array_equal(first.mask, second.mask)
    other = draw_creature("fox", 8, occlusion=0.5, size_hw=SMALL)
    assert other.image.tobytes() != first.image.tobytes()
    assert not np.allclose(other.points, first.points)


@pytest.mark.parametrize("species", SPECIES)
@pytest.mark.parametrize("size_hw", [(480, 640), (48, 48), (97, 300)])
def test_every_species_draws_whole_at_any_size(species, size_hw):
    creature = draw_creature(species, 3, size_hw=size_hw)
    height, width = size_hw
    assert creature.image.size == (width, height) and creature.image.mode == "RGB"
    assert creature.mask.shape == size_hw and creature.mask.sum() > 0.02 * height * width
    assert (creature.v == 2).sum() >= 6
    assert not (creature.mask[0].any() or creature.mask[-1].any())  # nothing is cut off
    assert not (creature.mask[:, 0].any() or creature.mask[:, -1].any())


def test_visible_keypoints_lie_on_the_mask():
    for creature in [*drawings(), *drawings(occlusion=0.6)]:
        for name, point, v in zip(creature.names, creature.points, creature.v, strict=True):
            assert v < 2 or is_near_mask(creature.mask, point), (creature.species, creature.seed, name)


def test_a_point_off_the_animal_would_be_noticed():
    creature = draw_creature("fox", 1, size_hw=SMALL)
    assert not is_near_mask(creature.mask, np.array([2.0, 2.0]))


def test_hidden_keypoints_lie_inside_the_image_and_absent_ones_are_zero():
    for creature in drawings(occlusion=0.6):
        assert is_inside(creature.points, SMALL)[creature.v > 0].all()
        assert (creature.points[creature.v == 0] == 0).all()


def test_the_box_is_tight_around_the_mask():
    for creature in drawings(occlusion=0.4, seeds=1):
        x1, y1, x2, y2 = (int(side) for side in creature.box)
        inside = creature.mask[y1:y2, x1:x2]
        assert inside.sum() == creature.mask.sum()
        assert inside[0].any() and inside[-1].any() and inside[:, 0].any() and inside[:, -1].any()


@pytest.mark.parametrize("species", SPECIES)
def test_turning_round_mirrors_the_points_and_swaps_left_and_right(species):
    left = draw_creature(species, 5, size_hw=SMALL, facing="left")
    right = draw_creature(species, 5, size_hw=SMALL, facing="right")
    present = right.v > 0
    mirrored = flip_points(left.points[SWAPPED], SMALL[1])
    np.testing.assert_allclose(mirrored[present], right.points[present], atol=1e-9)
    assert (left.v[SWAPPED] == right.v).mean() >= 0.95  # a point on an edge may round to either side
    flipped = left.mask[:, ::-1]
    assert (flipped & right.mask).sum() > 0.99 * (flipped | right.mask).sum()


@pytest.mark.parametrize(("facing", "near", "far"), [("left", "left", "right"), ("right", "right", "left")])
def test_an_animal_that_faces_a_side_shows_the_flank_of_that_side(facing, near, far):
    for species in SPECIES:
        seen = {near: 0, far: 0}
        for seed in range(4):
            creature = draw_creature(species, seed, size_hw=SMALL, facing=facing)
            at = dict(zip(creature.names, creature.points, strict=True))
            ahead = at["nose"][0] - at["tail_base"][0]
            assert ahead < 0 if facing == "left" else ahead > 0
            assert creature.v[KEYPOINTS.index(f"{near}_eye")] == 2
            for side in seen:
                limbs = [i for i, name in enumerate(KEYPOINTS) if name.startswith(f"{side}_") and "_eye" not in name]
                seen[side] += int((creature.v[limbs] == 2).sum())
        assert seen[near] >= seen[far]
        assert seen[near] > seen[far] or species == "heron"  # its two thin legs seldom hide each other


def test_near_feet_stand_lower_in_the_picture_than_far_feet():
    # The viewer looks down a little, so on level ground what is nearer is lower; over a whole step lifts cancel.
    for facing, far in (("left", "right"), ("right", "left")):
        drop = []
        for seed in range(12):
            creature = draw_creature("bear", seed, size_hw=SMALL, facing=facing)
            at = dict(zip(creature.names, creature.points, strict=True))
            drop += [at[f"{facing}_{limb}_paw"][1] - at[f"{far}_{limb}_paw"][1] for limb in ("front", "back")]
        assert np.mean(drop) > 1


def test_occlusion_hides_points_and_the_mask_leaves_the_thing_in_front_out():
    hidden = {0.0: 0, 0.4: 0, 1.0: 0}
    for species in ("fox", "zebra", "fish", "lizard"):
        for seed in range(3):
            free = draw_creature(species, seed, size_hw=SMALL)
            for occlusion in hidden:
                creature = draw_creature(species, seed, size_hw=SMALL, occlusion=occlusion)
                hidden[occlusion] += int((creature.v == 1).sum())
                np.testing.assert_array_equal(creature.points, free.points)  # the same animal at the same place
                assert not (creature.mask & ~free.mask).any()
                # Where the mask says that the animal is still seen, its pixels are those without anything in front.
                change = np.abs(np.asarray(creature.image, dtype=int) - np.asarray(free.image, dtype=int)).max(-1)
                lost = free.mask & ~creature.mask
                assert occlusion == 0 or (lost.any() and np.median(change[lost]) > 10)
                assert (change[creature.mask] > 10).mean() < 0.06  # soft edges of the thing
    assert hidden[0.0] < hidden[0.4] < hidden[1.0]


def test_clutter_changes_the_background_only():
    bare, full = (draw_creature("deer", 2, size_hw=SMALL, clutter=clutter) for clutter in (0.0, 1.0))
    np.testing.assert_array_equal(bare.mask, full.mask)
    change = np.abs(np.asarray(bare.image, dtype=int) - np.asarray(full.image, dtype=int)).max(-1)
    assert (change[~bare.mask] > 12).mean() > 0.1
    assert (change[bare.mask] > 12).mean() < 0.15


def test_keypoints_links_and_pairs_fit_together():
    assert len(set(KEYPOINTS)) == len(KEYPOINTS) == 20
    assert len(PAIRS) == 8 and {name for pair in PAIRS for name in pair} <= set(KEYPOINTS)
    assert {name for link in SKELETON for name in link} == set(KEYPOINTS)
    assert len(SPECIES) >= 8


@pytest.mark.parametrize(
    ("species", "options", "message"),
    [
        ("unicorn", {}, "no species 'unicorn'; expected one of fox"),
        ("fox", {"size_hw": (20, 640)}, "too small"),
        ("fox", {"occlusion": 1.5}, "occlusion is 1.5"),
        ("fox", {"clutter": float("nan")}, "clutter is nan"),
        ("fox", {"facing": "up"}, "facing is 'up'"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(species, options, message):
    with pytest.raises(ValueError, match=message):
        draw_creature(species, 0, **options)


def test_written_creatures_read_back_and_nothing_is_overwritten(tmp_path: Path):
    file = write_creatures(tmp_path / "new", ["fox", "fish"], 2, 11, size_hw=SMALL, occlusion=0.3)
    records = read_coco(file).records
    assert [record.species for record in records] == ["fox", "fox", "fish", "fish"]
    assert len(read_support(file).images) == 4
    for record, seed in zip(records, (11, 12, 11, 12), strict=True):
        truth = draw_creature(record.species, seed, size_hw=SMALL, occlusion=0.3)
        assert record.names == KEYPOINTS
        np.testing.assert_array_equal(record.v, truth.v)
        np.testing.assert_allclose(record.points[truth.v > 0], truth.points[truth.v > 0], atol=5e-4)
        assert record.box == truth.box
        assert Image.open(record.path).size == (SMALL[1], SMALL[0])
    before = file.read_bytes()
    with pytest.raises(FileExistsError, match="not overwritten"):
        write_creatures(tmp_path / "new", ["fox"], 1, 99, size_hw=SMALL)
    assert file.read_bytes() == before and json.loads(before)["categories"][0]["skeleton"]
    with pytest.raises(ValueError, match="at least one"):
        write_creatures(tmp_path / "other", [], 1, 0)


def test_the_bundled_demo_is_what_the_generator_draws(tmp_path: Path):
    made = write_demo(tmp_path / "demo")
    bundled = demo_support().parent
    for name in ("support.json", "queries.json"):
        assert json.loads((made.parent / name).read_text()) == json.loads((bundled / name).read_text())
    pictures = [bundled / "support.jpg", *demo_queries()]
    assert sorted(path.name for path in pictures) == sorted(path.name for path in made.parent.glob("*.jpg"))
    for picture in pictures:
        ours, theirs = (np.asarray(Image.open(path), dtype=int) for path in (made.parent / picture.name, picture))
        assert ours.shape == theirs.shape == (480, 640, 3)
        assert np.abs(ours - theirs).mean() < 1.5  # another version of Pillow may draw and code a little differently
    with pytest.raises(FileExistsError, match="not overwritten"):
        write_demo(tmp_path / "demo")


def test_the_bundled_demo_is_small_and_its_marks_are_visible():
    pictures = [demo_support().parent / "support.jpg", *demo_queries()]
    assert len(pictures) == 7 and sum(path.stat().st_size for path in pictures) < 600_000
    (marked,) = read_support(demo_support()).images
    assert marked.names == DEMO_KEYPOINTS and marked.marked.all() and 8 <= len(marked.names) <= 12
    content = json.loads(demo_support().read_text())
    assert set(content["annotations"][0]["keypoints"][2::3]) == {2}
