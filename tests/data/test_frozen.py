import json
from dataclasses import replace

import numpy as np
import pytest

from salvit.data.augment import AugmentSettings
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, list_hash, read_frozen, write_frozen
from salvit.data.loading import LoadSettings, iterate_episodes, load_episode
from salvit.data.splits import make_problem

SETTINGS = EpisodeSettings(shots=2, queries=3)


@pytest.fixture
def values(cow_problem):
    return freeze(cow_problem, SETTINGS, episodes=4, seed=9)


@pytest.fixture
def file(values, tmp_path):
    write_frozen(values, tmp_path / "lists" / "cow.json")
    return tmp_path / "lists" / "cow.json"


def test_freezing_twice_gives_the_same_hash_and_another_seed_another(cow_problem, values):
    assert freeze(cow_problem, SETTINGS, episodes=4, seed=9) == values
    assert freeze(cow_problem, SETTINGS, episodes=4, seed=10)["hash"] != values["hash"]


def test_more_episodes_go_on_where_fewer_stop(cow_problem, values):
    longer = freeze(cow_problem, SETTINGS, episodes=6, seed=9)
    assert longer["episodes"][:8] == values["episodes"]
    assert all(longer["records"][key] == entry for key, entry in values["records"].items())


def test_novel_and_base_episodes_take_turns(values):
    assert [episode["kind"] for episode in values["episodes"]] == ["novel", "base"] * 4
    assert len(values["keypoint_sets"]["novel"]) == 6 and len(values["keypoint_sets"]["base"]) == 11


def test_each_record_has_one_window_that_holds_its_box(values, cow_problem):
    records = {record.id: record for record in cow_problem.records["report"]}
    for key, entry in values["records"].items():
        x1, y1, x2, y2 = entry["window"]
        box = records[key].box
        assert 0 <= x1 <= box[0] and 0 <= y1 <= box[1] and box[2] <= x2 <= 80 and box[3] <= y2 <= 60
        assert set(entry["blocks"]) == {
            name for name, seen in zip(records[key].names, records[key].visible, strict=True) if seen
        }


def test_a_list_that_is_read_gives_its_episodes(file, values, cow_problem):
    frozen = read_frozen(file, cow_problem, purpose="report")
    assert len(frozen) == 8 and frozen.hash == values["hash"]
    episode = frozen.draw(1)
    assert [view.record.id for view in episode.queries] == values["episodes"][1]["queries"]
    assert episode.names == cow_problem.split.base and episode.occlusions == ()
    assert list(episode.supports[0].window) == values["records"][episode.supports[0].record.id]["window"]
    assert load_episode(episode, LoadSettings(size=64)).query.pixels.shape == (3, 64, 64, 3)


def test_occluders_hide_more_query_keypoints_with_more_probability_and_never_supports(file, cow_problem):
    numbers = []
    for probability in (0.0, 0.5, 1.0):
        frozen = read_frozen(file, cow_problem, purpose="report", occluder="grey", probability=probability)
        numbers.append([len(occlusion.boxes) for occlusion in frozen.draw(0).occlusions])
    assert numbers[0] == [0, 0, 0] and numbers[2] == [6, 6, 6] and 0 < sum(numbers[1]) < 18
    clear = load_episode(read_frozen(file, cow_problem, purpose="report").draw(0), LoadSettings(size=64))
    hidden = load_episode(frozen.draw(0), LoadSettings(size=64))
    assert (clear.support.pixels == hidden.support.pixels).all() and (clear.query.pixels != hidden.query.pixels).any()


def test_workers_load_a_frozen_list_alike(file, cow_problem):
    frozen = read_frozen(file, cow_problem, purpose="report", occluder="background", probability=0.7)
    runs = [
        [e.query.pixels for e in iterate_episodes(frozen, LoadSettings(size=64), workers=w, stop=3)] for w in (0, 1)
    ]
    assert all((one == two).all() for one, two in zip(*runs, strict=True))


@pytest.mark.parametrize("purpose", ["train", "tune", "calibrate"])
def test_a_report_list_is_refused_for_anything_else(file, cow_problem, purpose):
    with pytest.raises(ValueError, match=f"must not be used to {purpose}"):
        read_frozen(file, cow_problem, purpose=purpose)


def test_a_dev_list_may_be_tuned_on(animal_pose_root, tmp_path):
    from salvit.data.animal_pose import read_animal_pose

    problem = make_problem(read_animal_pose(animal_pose_root), "cow", dev_species=["dog"])
    write_frozen(freeze(problem, SETTINGS, episodes=1, seed=0, role="dev"), tmp_path / "dev.json")
    assert read_frozen(tmp_path / "dev.json", problem, purpose="tune").draw(0).species == "dog"


def test_a_changed_broken_or_foreign_list_is_refused(file, values, cow_problem, tmp_path):
    def check(match, **changes):
        other = {**values, **changes}
        if "hash" not in changes:
            other["hash"] = list_hash(other)
        (tmp_path / "bad.json").write_text(json.dumps(other))
        with pytest.raises(ValueError, match=match):
            read_frozen(tmp_path / "bad.json", cow_problem, purpose="report")

    check("hash does not fit", seed=8, hash=values["hash"])
    check("schema is 'x/9'", schema="x/9")
    check("a list of cub/cow, not of animal_pose/cow", data="cub")
    check(r"record gone\.jpg#0 is not among the data", records={"gone.jpg#0": {}})
    key = next(iter(values["records"]))
    entry = {**values["records"][key], "image_hw": [600, 800]}
    check("belongs to one copy of the images", records={**values["records"], key: entry})
    (tmp_path / "cut.json").write_text(file.read_text()[:300])
    with pytest.raises(ValueError, match="not complete JSON"):
        read_frozen(tmp_path / "cut.json", cow_problem, purpose="report")


def test_a_file_is_not_overwritten_unasked(file, values):
    with pytest.raises(ValueError, match="exists; choose another name"):
        write_frozen(values, file)
    write_frozen(values, file, overwrite=True)


def test_augmentation_and_drawn_shots_do_not_belong_in_a_list(cow_problem):
    for settings in (EpisodeSettings(augment=AugmentSettings()), EpisodeSettings(shots=(1, 5))):
        with pytest.raises(ValueError, match="one number of shots and no augmentation"):
            freeze(cow_problem, settings, episodes=1, seed=0)


def test_species_with_keypoints_of_their_own_have_a_set_each(cow_problem):
    garments = {"cow": "skirt"}
    from salvit.data.deepfashion2 import landmark_names

    names = landmark_names(9)
    records = tuple(
        replace(r, species=garments["cow"], names=names, points=r.points[:8], v=np.full(8, 2))
        for r in cow_problem.records["report"]
    )
    split = replace(cow_problem.split, keypoints_by_species=True)
    problem = replace(
        cow_problem,
        split=split,
        records={**cow_problem.records, "report": records},
        report_species=frozenset({"skirt"}),
        own_keypoints={"skirt": names},
    )
    values = freeze(problem, SETTINGS, episodes=2, seed=0)
    assert values["keypoint_sets"] == {"novel:skirt": list(names)} and len(values["episodes"]) == 2
