from dataclasses import replace

import numpy as np
import pytest

from salvit.data.augment import AugmentSettings
from salvit.data.episodes import EpisodePool, EpisodeSettings, is_acceptable
from salvit.data.splits import LeastShared, file_of, make_problem
from salvit.data.views import select_keypoints

TRAIN = EpisodeSettings(augment=AugmentSettings(), auxiliary="default")


def pool(problem, role="report", kind="novel", settings=EpisodeSettings(queries=3), purpose="report", **more):  # noqa: B008
    return EpisodePool(problem, role, kind, settings, purpose=purpose, seed=5, **more)


def test_an_episode_shows_one_species_with_all_novel_or_all_base_keypoints(cow_problem):
    novel = pool(cow_problem).draw(0)
    assert novel.names == cow_problem.split.novel and novel.species == "cow"
    base = pool(cow_problem, "train", "base", TRAIN, "train").draw(0)
    assert base.names == cow_problem.split.base and base.species != "cow"
    assert {view.record.species for view in base.supports + base.queries} == {base.species}
    assert (len(base.supports), len(base.queries)) == (1, 5)


def test_a_share_of_training_episodes_is_of_several_species(cow_problem):
    drawing = pool(cow_problem, "train", "base", replace(TRAIN, mixed=0.5), "train")
    shown = [{view.record.species for view in e.supports + e.queries} for e in map(drawing.draw, range(60))]
    assert 15 < sum(len(species) > 1 for species in shown) < 45
    assert set.union(*shown) == {record.species for record in cow_problem.records["train"]}
    for index in range(20):
        episode = drawing.draw(index)
        assert len({file_of(view.record) for view in episode.supports + episode.queries}) == 6
    with pytest.raises(ValueError, match="0 to 1"):
        replace(TRAIN, mixed=1.5)


def test_species_whose_keypoints_differ_do_not_share_an_episode(cow_problem):
    species = sorted({record.species for record in cow_problem.records["train"]})
    own = {name: cow_problem.split.base[number:] for number, name in enumerate(species)}
    split = replace(cow_problem.split, keypoints_by_species=True)
    problem = replace(cow_problem, split=split, own_keypoints=own)
    with pytest.raises(ValueError, match="keypoints differ"):
        pool(problem, "train", "base", replace(TRAIN, mixed=0.5), "train")


def test_supports_and_queries_come_from_different_files(cow_problem):
    twins = tuple(replace(record, id=f"{file_of(record)}#7") for record in cow_problem.records["report"])
    problem = replace(
        cow_problem,
        records={**cow_problem.records, "report": cow_problem.records["report"] + twins},
        roles={**cow_problem.roles, **{record.id: "report" for record in twins}},
    )
    for index in range(50):
        episode = pool(problem, settings=EpisodeSettings(shots=4, queries=6)).draw(index)
        files = [file_of(view.record) for view in episode.supports + episode.queries]
        assert len(set(files)) == len(files) == 10


def test_the_same_seed_and_index_give_the_same_episode_in_any_order(cow_problem):
    one, two = pool(cow_problem), pool(cow_problem)
    first = [one.draw(index) for index in range(6)]
    again = [two.draw(index) for index in reversed(range(6))][::-1]
    ids = [[view.record.id for view in episode.supports + episode.queries] for episode in first]
    assert ids == [[view.record.id for view in episode.supports + episode.queries] for episode in again]
    assert [view.window for view in first[3].queries] == [view.window for view in again[3].queries]
    assert first[2].seed == again[2].seed and len({episode.seed for episode in first}) == 6


def test_another_seed_gives_other_episodes(cow_problem):
    other = EpisodePool(cow_problem, "report", "novel", EpisodeSettings(queries=3), purpose="report", seed=6)
    ids = [[[view.record.id for view in p.draw(i).queries] for i in range(5)] for p in (pool(cow_problem), other)]
    assert ids[0] != ids[1]


def test_the_rule_of_acceptance_is_the_authors():
    support = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0]], dtype=bool)  # 3 in the union
    enough, less = [1, 1, 1, 0, 0], [1, 1, 0, 1, 1]
    assert is_acceptable(support, np.array([enough, enough, less, less, less], dtype=bool), 3)  # 40 %
    assert not is_acceptable(support, np.array([enough, less, less, less, less], dtype=bool), 3)
    assert is_acceptable(support, np.array([less] * 5, dtype=bool), 2)
    assert not is_acceptable(support[:1], np.array([[1, 1, 1, 1, 1]] * 5, dtype=bool), 3)


def test_every_drawn_episode_is_acceptable(cow_problem):
    problem = _with_few_keypoints(cow_problem)
    for index in range(30):
        episode = pool(problem).draw(index)
        seen = [np.stack([select_keypoints(view.record, episode.names)[1] for view in views])
                for views in (episode.supports, episode.queries)]  # fmt: skip
        assert is_acceptable(*seen, 3)


def _with_few_keypoints(problem):
    """Each cow keeps a random half of its keypoints."""
    rng = np.random.default_rng(0)
    records = tuple(replace(r, v=np.where(rng.random(20) < 0.5, r.v, 0)) for r in problem.records["report"])
    return replace(problem, records={**problem.records, "report": records})


def test_data_that_never_give_an_episode_are_an_error(cow_problem):
    problem = replace(cow_problem, split=replace(cow_problem.split, least_shared=LeastShared(base=3, novel=7)))
    with pytest.raises(ValueError, match="no acceptable episode in 1000 draws from animal_pose/cow"):
        pool(problem).draw(0)


def test_too_few_images_are_an_error_that_says_what_to_do(cow_problem):
    with pytest.raises(ValueError, match=r"no species of `report` has 21 images .* take fewer shots or queries"):
        pool(cow_problem, settings=EpisodeSettings(queries=20))


def test_all_queries_that_are_left_may_be_taken_instead_of_too_many(cow_problem):
    settings = EpisodeSettings(queries=1000, is_up_to=True)
    assert settings.least_files == 6 and EpisodeSettings(queries=3, is_up_to=True).least_files == 4
    episode = pool(cow_problem, settings=settings).draw(0)
    files = [file_of(view.record) for view in episode.supports + episode.queries]
    assert 5 <= len(episode.queries) < 1000 and len(set(files)) == len(files)


@pytest.mark.parametrize("purpose", ["train", "tune", "calibrate"])
def test_report_episodes_cannot_be_drawn_for_anything_but_a_report(cow_problem, purpose):
    with pytest.raises(ValueError, match=r"report species|novel keypoints must not"):
        pool(cow_problem, "report", "base", purpose=purpose)


def test_novel_keypoints_are_not_trained_on(cow_problem):
    with pytest.raises(ValueError, match="novel keypoints must not be trained on"):
        pool(cow_problem, "train", "novel", purpose="train")


def test_shots_may_be_drawn_from_a_range(cow_problem):
    drawing = pool(cow_problem, settings=EpisodeSettings(shots=(1, 5), queries=3))
    assert {len(drawing.draw(index).supports) for index in range(60)} == {1, 2, 3, 4, 5}
    with pytest.raises(ValueError, match="at least one support"):
        EpisodeSettings(shots=(3, 2))


def test_species_are_drawn_alike_or_by_their_images(cow_problem):
    few = [record for record in cow_problem.records["train"] if record.species != "dog"]
    dogs = [record for record in cow_problem.records["train"] if record.species == "dog"][:6]
    problem = replace(cow_problem, records={**cow_problem.records, "train": (*dogs, *few)})
    settings = EpisodeSettings(queries=3)
    uniform = pool(problem, "train", "base", settings, "train")
    assert uniform.weights.tolist() == [0.25] * 4
    by_images = replace(problem, split=replace(problem.split, species_draw="images"))
    weights = pool(by_images, "train", "base", settings, "train").weights
    assert weights[1] == 6 / (6 + len(few)) and weights.sum() == pytest.approx(1)


def test_auxiliary_paths_are_the_default_ones_or_six_random_ones(cow_problem):
    assert len(pool(cow_problem, "train", "base", TRAIN, "train").draw(0).paths) == 6
    random = pool(cow_problem, "train", "base", EpisodeSettings(auxiliary="random"), "train")
    assert len(random.draw(0).paths) == 6 and random.draw(0).paths != random.draw(1).paths
    assert pool(cow_problem, "train", "base", EpisodeSettings(), "train").draw(0).paths == ()


def test_a_salient_crop_asks_for_the_map_of_each_record(cow_problem):
    def saliency_of(record):
        saliency = np.zeros((60, 80), dtype=np.float32)
        saliency[20:40, 30:50] = 1
        return saliency

    settings = EpisodeSettings(queries=3, crop="saliency")
    episode = pool(cow_problem, settings=settings, saliency_of=saliency_of).draw(0)
    assert episode.queries[0].window == (28.0, 18.0, 52.0, 42.0)
    with pytest.raises(ValueError, match="needs a saliency map"):
        pool(cow_problem, settings=settings).draw(0)


def test_real_episodes_are_drawn_from_all_five_problems_and_from_cub(real_animal_pose, real_cub):
    for unseen in ("dog", "cat", "sheep", "horse", "cow"):
        problem = make_problem(real_animal_pose, unseen)
        for kind in ("novel", "base"):
            assert pool(problem, kind=kind, settings=EpisodeSettings(shots=5)).draw(0).species == unseen
    assert pool(make_problem(real_cub), settings=EpisodeSettings(shots=5)).draw(0).kind == "novel"
