import json
from dataclasses import replace

import pytest

from salvit.data.animal_pose import read_animal_pose
from salvit.data.deepfashion2 import CATEGORIES, landmark_names
from salvit.data.splits import (
    check_allowed,
    check_counts,
    is_dev_image,
    make_problem,
    open_problem,
    pairs_from_names,
    read_split,
)

ANIMALS = ("dog", "cat", "sheep", "horse", "cow")


def lists(name):
    species = read_split(name).species
    return species.train, species.val, species.test


def test_cub_has_100_50_and_50_species_none_twice():
    train, val, test = lists("cub")
    assert (len(train), len(val), len(test)) == (100, 50, 50)
    assert len({*train, *val, *test}) == 200
    # 0-based class i: i % 4 = 0 is validation, 2 is test, the others are training
    order = sorted({*train, *val, *test})
    assert list(val) == order[0::4] and list(test) == order[2::4]


def test_nabirds_has_333_111_and_111_species_none_twice_555_in_all():
    train, val, test = lists("nabirds")
    assert (len(train), len(val), len(test)) == (333, 111, 111)
    assert len({*train, *val, *test}) == 555
    assert read_split("nabirds").least_shared.novel == 2


def test_awa_has_25_and_10_species_of_35():
    train, val, test = lists("awa_pose")
    assert (len(train), len(val), len({*train, *test})) == (25, 0, 35)
    assert test == (
        "cow",
        "dalmatian",
        "giraffe",
        "grizzly+bear",
        "otter",
        "ox",
        "rhinoceros",
        "sheep",
        "wolf",
        "zebra",
    )
    assert list(test) == [name for index, name in enumerate(sorted({*train, *test})) if index % 7 in (5, 6)]


def test_deepfashion2_has_158_seen_and_136_unseen_landmarks():
    numbers = {name: category_id for category_id, (name, _) in CATEGORIES.items()}
    train, _, test = lists("deepfashion2")
    assert sum(len(landmark_names(numbers[name])) for name in train) == 158
    assert sum(len(landmark_names(numbers[name])) for name in test) == 136


@pytest.mark.parametrize(
    ("name", "base", "novel"),
    [
        ("animal_pose", 11, 6),
        ("cub", 10, 5),
        ("nabirds", 7, 4),
        ("awa_pose", 19, 6),
        ("ap10k", 11, 6),
        ("creatures", 12, 6),
    ],
)
def test_base_and_novel_keypoints_are_disjoint_and_paths_are_six_among_the_base(name, base, novel):
    split = read_split(name)
    assert (len(split.base), len(split.novel), len({*split.base, *split.novel})) == (base, novel, base + novel)
    assert len(split.paths) == 6 and {end for path in split.paths for end in path} <= set(split.base)
    assert all(right == left.replace("left", "right") for left, right in split.pairs)
    sided = {name for name in (*split.base, *split.novel) if "left" in name or "right" in name}
    assert sided <= {name for pair in split.pairs for name in pair}


def test_throat_withers_and_tail_of_animal_pose_are_in_neither_set():
    split = read_split("animal_pose")
    assert not {"throat", "withers", "tailbase"} & {*split.base, *split.novel}


@pytest.mark.parametrize("unseen", ANIMALS)
def test_animal_pose_gives_five_problems_that_share_no_file_between_parts(animal_pose_root, unseen):
    problem = open_problem("animal_pose", animal_pose_root, unseen)
    assert problem.label == unseen
    assert {record.species for record in problem.records["report"]} == {unseen}
    seen = {record.species for role in ("train", "dev") for record in problem.records[role]}
    assert seen == set(ANIMALS) - {unseen}
    files = {role: {record.path for record in problem.records[role]} for role in problem.records}
    assert not files["train"] & files["dev"] and not files["train"] & files["report"]


def test_an_image_that_shows_the_unseen_species_is_not_trained_on(cow_problem):
    assert cow_problem.roles["060.png#1"] == "report"
    assert "060.png#0" not in cow_problem.roles  # the horse beside the cow


def test_dev_is_a_tenth_of_the_images_by_their_names():
    share = sum(is_dev_image(f"{number:06d}.jpg") for number in range(5000)) / 5000
    assert 0.085 < share < 0.115
    assert is_dev_image("a/x.jpg") == is_dev_image("x.jpg")


def test_dev_species_leave_training_with_all_their_images(animal_pose_root):
    problem = open_problem("animal_pose", animal_pose_root, "dog", dev_species=["cow"])
    assert {record.species for record in problem.records["dev"]} == {"cow"}
    assert {record.species for record in problem.records["train"]} == {"cat", "sheep", "horse"}
    assert "060.png#0" not in problem.roles  # a horse beside a dev cow


@pytest.mark.parametrize("purpose", ["train", "tune", "calibrate"])
def test_a_report_species_is_refused_to_training_tuning_and_calibration(cow_problem, purpose):
    with pytest.raises(ValueError, match=f"'cow', a report species .* must not be used to {purpose}"):
        check_allowed(cow_problem, purpose, cow_problem.records["report"][:1])
    smuggled = replace(cow_problem.records["report"][0], id=cow_problem.records["train"][0].id)
    with pytest.raises(ValueError, match="report species"):
        check_allowed(cow_problem, purpose, [smuggled])


def test_dev_is_refused_to_training_and_allowed_to_tuning_and_calibration(cow_problem):
    dev, train = cow_problem.records["dev"], cow_problem.records["train"]
    with pytest.raises(ValueError, match=r"is a dev record .* to train, take records of train"):
        check_allowed(cow_problem, "train", dev)
    check_allowed(cow_problem, "tune", dev + train)
    check_allowed(cow_problem, "calibrate", dev + train)
    check_allowed(cow_problem, "train", train)
    check_allowed(cow_problem, "report", cow_problem.records["report"])


def test_a_seen_animal_beside_an_unseen_one_is_refused(cow_problem, animal_pose_root):
    horse = next(record for record in read_animal_pose(animal_pose_root).records if record.id == "060.png#0")
    with pytest.raises(ValueError, match="is in no part"):
        check_allowed(cow_problem, "train", [horse])


def test_a_wrong_unseen_species_is_an_error_that_lists_the_right_ones(animal_pose_root):
    with pytest.raises(ValueError, match="the unseen species is None; expected one of dog, cat"):
        open_problem("animal_pose", animal_pose_root)
    with pytest.raises(ValueError, match="'lion' is not a seen species"):
        open_problem("animal_pose", animal_pose_root, "cow", dev_species=["lion"])


def test_lists_divide_cub_and_a_missing_list_is_a_sentence_not_a_crash(write_cub):
    problem = open_problem("cub", write_cub())
    assert problem.unseen == "val" and problem.label == "all"
    assert {record.species for record in problem.records["report"]} == {"001.Black_footed_Albatross"}
    assert {record.species for record in problem.records["train"]} == {"002.Laysan_Albatross"}
    assert "6 images; the full data set has 11,788" in problem.notes
    assert any(note.startswith("50 of 50 species of the list `test` have no record: 003.") for note in problem.notes)
    with pytest.raises(ValueError, match="no record of the unseen species"):
        open_problem("cub", write_cub(), "test")
    with pytest.raises(ValueError, match="'train' is no list to report on"):
        open_problem("cub", write_cub(), "train")


def test_species_in_no_list_are_told_and_used_by_no_one(write_cub):
    root = write_cub()
    text = (root / "classes.txt").read_text()
    (root / "classes.txt").write_text(text.replace("002.Laysan_Albatross", "999.Dodo"))
    problem = open_problem("cub", root)
    assert any(note == "1 species are in no list and are not used: 999.Dodo" for note in problem.notes)
    assert not problem.records["train"] and "999.Dodo" in problem.report_species


def test_a_garment_has_its_own_keypoints_base_if_seen_and_novel_if_not(tmp_path, image_at):
    from salvit.data.deepfashion2 import read_deepfashion2

    image_at(tmp_path / "image" / "1.jpg")
    (tmp_path / "annos").mkdir()
    items = {
        f"item{i}": {"landmarks": [5, 5, 2] * CATEGORIES[i][1], "bounding_box": [0, 0, 9, 9], "category_id": i}
        for i in (1, 9)
    }
    (tmp_path / "annos" / "1.json").write_text(json.dumps(items))
    problem = make_problem(read_deepfashion2(tmp_path))
    assert len(problem.keypoints("novel", "skirt")) == 8 and problem.keypoints("base", "skirt") == ()
    assert len(problem.keypoints("base", "short_sleeve_top")) == 25
    assert problem.keypoints("novel", "short_sleeve_top") == ()


def test_any_coco_file_is_a_problem_in_which_everything_is_seen(tmp_path):
    from salvit.data.creatures import write_creatures

    write_creatures(tmp_path / "mine", ("fox", "deer"), 12, 0, size_hw=(60, 80))
    problem = open_problem("coco", tmp_path / "mine")
    assert not problem.records["report"] and len(problem.records["train"]) + len(problem.records["dev"]) == 24
    assert problem.keypoints("base", "fox") == problem.records["train"][0].names and not problem.keypoints(
        "novel", "fox"
    )
    assert ("left_eye", "right_eye") in problem.split.pairs and len(problem.split.pairs) == 8
    held_out = open_problem("coco", tmp_path / "mine", "deer")
    assert {record.species for record in held_out.records["report"]} == {"deer"}
    assert held_out.keypoints("novel", "deer") and not held_out.keypoints("base", "deer")
    with pytest.raises(ValueError, match="expected one of deer, fox"):
        open_problem("coco", tmp_path / "mine", "cat")


def test_left_and_right_are_told_by_names():
    names = ("L-paw", "R-paw", "eye_l", "eye_r", "LeftEar", "RightEar", "tail", "collar", "corner", "left_horn")
    assert pairs_from_names(names) == (("L-paw", "R-paw"), ("eye_l", "eye_r"), ("LeftEar", "RightEar"))


def test_the_real_cub_is_86_14_and_50_species(real_cub):
    problem = make_problem(real_cub)
    numbers = {role: len({record.species for record in records}) for role, records in problem.records.items()}
    assert numbers == {"train": 86, "dev": 14, "report": 50}
    assert sum(len(records) for records in problem.records.values()) == 8830


def test_the_real_animal_pose_is_complete(real_animal_pose):
    assert check_counts(real_animal_pose) == ()
    for unseen in ANIMALS:
        problem = make_problem(real_animal_pose, unseen)
        train = {record.path for record in problem.records["train"]}
        assert not train & {record.path for record in problem.records["report"]}


def test_nabirds_reports_on_test_species_and_keeps_validation_species_as_dev(nabirds_root):
    problem = open_problem("nabirds", nabirds_root)
    assert {record.species for record in problem.records["train"]} == {"Blue-winged Teal (Male)"}
    assert {record.species for record in problem.records["report"]} == {"Mallard (Breeding male)"}
    with pytest.raises(ValueError, match="'val' is no list to report on; expected 'test'"):
        open_problem("nabirds", nabirds_root, "val")
