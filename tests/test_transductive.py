"""Transduction: the formulas by hand, then whole detectors on folders that could break it."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from salvit.data.creatures import draw_creature
from salvit.data.images import fit_image
from salvit.kept_features import KeptFeatures
from salvit.model.build import build_model
from salvit.model.locator import ScaleOutput, decode, decode_agreed
from salvit.recipes import recipe_from_table
from salvit.transductive import (
    Candidates,
    TransductiveSettings,
    Truth,
    assignment_probabilities,
    find_candidates,
    refine,
    refine_pack,
    select,
    top_cells,
)
from salvit.types import Encoded, Example

YES = torch.ones(2, dtype=torch.bool)


def test_the_refined_prototype_by_hand():
    # κ = 0.8, two shots that sum to (2, 0), pseudo labels of weight 0.5 in all that sum to (0, 1):
    # (0.8 · (2, 0) + 0.2 · (0, 1)) / (0.8 · 2 + 0.2 · 0.5) = (1.6, 0.2) / 1.7
    found = refine(
        torch.tensor([[2.0, 0.0]]), torch.tensor([2]), torch.tensor([[0.0, 1.0]]), torch.tensor([0.5]), kappa=0.8
    )
    torch.testing.assert_close(found, torch.tensor([[1.6 / 1.7, 0.2 / 1.7]]))


def test_kappa_one_keeps_the_mean_of_the_shots_and_kappa_zero_forgets_it():
    sums, pseudo = torch.tensor([[3.0, 6.0]]), torch.tensor([[1.0, 1.0]])
    assert refine(sums, torch.tensor([3]), pseudo, torch.tensor([0.25]), 1.0).tolist() == [[1.0, 2.0]]
    assert refine(sums, torch.tensor([3]), pseudo, torch.tensor([0.25]), 0.0).tolist() == [[4.0, 4.0]]


def test_the_simple_average_counts_pseudo_labels_as_shots():
    # one shot (1, 0), three pseudo labels that sum to (0, 3): (1, 3) / 4
    found = refine(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), torch.tensor([[0.0, 3.0]]), torch.tensor([3.0]), 0.5)
    assert found.tolist() == [[0.25, 0.75]]


def test_assignment_by_hand():
    # unit vectors: cos 0.6 and 0.8 with σ = 0.5: exponents −0.4 / 0.25 and −0.2 / 0.25
    vectors = torch.tensor([[3.0, 4.0]])
    prototypes = torch.tensor([[2.0, 0.0], [0.0, 7.0]])
    first, second = math.exp(-1.6), math.exp(-0.8)
    found = assignment_probabilities(vectors, prototypes, YES, sigma=0.5)
    torch.testing.assert_close(found, torch.tensor([[first, second]]) / (first + second))


def test_lengths_of_vectors_do_not_matter_and_unknown_keypoints_take_no_share():
    vectors, prototypes = torch.randn(5, 8), torch.randn(3, 8)
    known = torch.ones(3, dtype=torch.bool)
    one = assignment_probabilities(vectors, prototypes, known, 0.3)
    torch.testing.assert_close(assignment_probabilities(7 * vectors, 0.1 * prototypes, known, 0.3), one)
    known[1] = False
    fewer = assignment_probabilities(vectors, prototypes, known, 0.3)
    assert (fewer[:, 1] == 0).all()
    torch.testing.assert_close(fewer.sum(-1), torch.ones(5))


def candidates(scores, similarity=None):
    scores = torch.tensor(scores)
    points = torch.arange(scores.numel() * 2, dtype=torch.float32).view(*scores.shape, 2)
    return Candidates(points, scores, torch.zeros_like(scores) if similarity is None else torch.tensor(similarity))


ONE = torch.ones(1, dtype=torch.bool)


def test_the_best_scores_are_selected_for_each_keypoint():
    found = candidates([[[0.9, 0.1]], [[0.3, 0.2]], [[0.5, 0.4]]])  # 3 queries, 1 keypoint, 2 candidates
    chosen = select(found, ONE, TransductiveSettings(eta=3))
    assert chosen[:, 0].tolist() == [[True, False], [False, False], [True, True]]


def test_similarity_may_count_half():
    found = candidates([[[0.9]], [[0.5]]], [[[0.0]], [[0.6]]])  # ½ (0.9 + 0) = 0.45 < ½ (0.5 + 0.6) = 0.55
    assert select(found, ONE, TransductiveSettings(eta=1))[:, 0, 0].tolist() == [True, False]
    both = TransductiveSettings(eta=1, selection="score+similarity")
    assert select(found, ONE, both)[:, 0, 0].tolist() == [False, True]


def test_of_equal_candidates_the_earlier_query_is_taken_then_the_better_rank():
    found = candidates([[[0.5, 0.5]], [[0.5, 0.5]]])
    assert select(found, ONE, TransductiveSettings(eta=1))[:, 0].tolist() == [[True, False], [False, False]]
    assert select(found, ONE, TransductiveSettings(eta=3))[:, 0].tolist() == [[True, True], [True, False]]


def test_eta_is_a_third_of_the_queries_and_never_more_than_there_are():
    found = candidates([[[0.1 * z]] for z in range(7)])
    assert int(select(found, ONE, TransductiveSettings()).sum()) == 2
    assert int(select(found, ONE, TransductiveSettings(eta=100)).sum()) == 7
    assert int(select(found, ONE, TransductiveSettings(eta=0)).sum()) == 0


def test_unknown_keypoints_and_broken_scores_give_no_pseudo_label():
    found = candidates([[[0.9], [0.9]], [[float("nan")], [0.3]]])
    chosen = select(found, torch.tensor([True, False]), TransductiveSettings(eta=5))
    assert chosen[..., 0].tolist() == [[True, False], [False, False]]


def truth(points, visible, side=100.0):
    visible = torch.tensor(visible)
    return Truth(torch.tensor(points), visible, torch.full((len(visible),), side))


def test_the_oracle_takes_what_is_nearest_to_the_truth_and_never_what_is_wrong():
    found = candidates([[[0.9, 0.1]], [[0.8, 0.2]]])  # points (0, 1), (2, 3), (4, 5), (6, 7)
    real = truth([[[2.0, 4.0]], [[50.0, 50.0]]], [[True], [True]])
    oracle = TransductiveSettings(eta=1, assignment="oracle")
    assert select(found, ONE, oracle, real)[:, 0].tolist() == [[False, True], [False, False]]
    all_of_them = dataclasses.replace(oracle, eta=4)
    assert select(found, ONE, all_of_them, real)[:, 0].tolist() == [[True, True], [False, False]]


def test_the_authors_protocol_asks_who_shows_the_keypoint_and_gates_the_number():
    found = candidates([[[0.9 - 0.01 * z]] for z in range(9)])
    paper = TransductiveSettings(eta=4, protocol="paper")
    shown = [
        [z % 3 != 0] for z in range(9)
    ]  # 6 of 9 show it: ranks 0 and 1 need 3 and 6, rank 2 needs 9, rank 3 needs 8
    chosen = select(found, ONE, paper, truth([[[0.0, 0.0]]] * 9, shown))
    assert chosen[:, 0, 0].nonzero().flatten().tolist() == [1, 2]


def test_labels_are_refused_where_they_must_not_be_seen(match):
    pack, encoded, real = None, None, truth([[[0.0, 0.0]]], [[True]])
    with pytest.raises(ValueError, match="nothing else may see it"):
        refine_pack(match, pack, [encoded], TransductiveSettings(), truth=real)
    with pytest.raises(ValueError, match="need the truth"):
        refine_pack(match, pack, [encoded], TransductiveSettings(assignment="oracle"))


def test_the_defaults_are_the_papers():
    settings = TransductiveSettings()
    assert (settings.candidates, settings.kappa, settings.sigma) == (2, 0.8, 0.05)
    assert (settings.selection, settings.assignment, settings.protocol) == ("score", "soft", "label-free")


@pytest.mark.parametrize("wrong", [{"candidates": 0}, {"rounds": 0}, {"kappa": 1.5}, {"sigma": 0.0}, {"eta": -1}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError):
        TransductiveSettings(**wrong)


def scale(size, cell, probability=0.9, offset=(0.0, 0.0)):
    """A scale that is sure of one cell, for one query and one keypoint."""
    rest = (1 - probability) / (size**2 - 1)
    logits = torch.full((1, 1, size**2), math.log(rest))
    logits[..., cell] = math.log(probability)
    offsets = torch.tensor(offset).expand(1, 1, size**2, 2).clone()
    return ScaleOutput(logits, offsets, torch.eye(2).expand(1, 1, size**2, 2, 2).clone())


def test_where_the_scales_agree_the_first_candidate_is_the_usual_prediction():
    scales = (scale(2, 3, offset=(0.2, 0.1)), scale(3, 8, offset=(-0.4, 0.0)), scale(4, 15, offset=(0.0, 0.3)))
    points, scores = top_cells(scales, 96, 2)
    usual = decode(scales, 96)
    torch.testing.assert_close(points[:, :, 0], usual.points_input)
    torch.testing.assert_close(scores[:, :, 0], usual.scores)


def test_where_the_scales_disagree_the_candidates_are_places_that_some_scale_means():
    scales = (scale(2, 0, 0.8), scale(4, 15, 0.9))
    points, _ = top_cells(scales, 64, 1)
    assert points[0, 0, 0].min() > 40  # the corner of the surer scale; the mean of the winners would be the middle
    assert decode(scales, 64).points_input.max() < 40


def test_the_first_candidate_is_where_the_scales_agree_and_the_others_are_other_cells():
    torch.manual_seed(0)
    scales = tuple(
        ScaleOutput(torch.randn(2, 3, s * s), torch.rand(2, 3, s * s, 2) - 0.5, torch.randn(2, 3, s * s, 2, 3))
        for s in (2, 3, 4)
    )
    points, scores = top_cells(scales, 96, 5)
    agreed = decode_agreed(scales, 96)
    assert torch.equal(points[:, :, 0], agreed.points_input) and torch.equal(scores[:, :, 0], agreed.scores)
    apart = (points[:, :, :, None] - points[:, :, None]).abs().sum(-1) + torch.eye(5)
    assert (apart > 0).all()


def test_the_candidates_of_a_flat_map_are_its_first_cells():
    flat = ScaleOutput(torch.zeros(1, 1, 16), torch.zeros(1, 1, 16, 2), torch.ones(1, 1, 16, 2, 2))
    points, scores = top_cells((flat,), 64, 3)
    assert points[0, 0].tolist() == [[7.5, 7.5], [23.5, 7.5], [39.5, 7.5]] and scores.unique().tolist() == [1 / 16]


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(0)
    settings = {"preset": "salvit-lite0", "width": "narrow", "saliency": "none", "input_size": 96}
    return build_model(recipe_from_table({"model": settings}).model, backbone_weights=None)


def episode(detector, queries=7):
    """A pack of one drawn fox and the encoded pictures of others, with their truth."""
    creatures = [draw_creature("fox", seed, size_hw=(120, 160)) for seed in range(1 + queries)]
    images = [fit_image(creature.image, detector.input_size) for creature in creatures]
    points = [image.fit.to_input(creature.points) for image, creature in zip(images, creatures, strict=True)]
    visible = np.stack([creature.v == 2 for creature in creatures])
    pack = detector.learn([Example(images[0], creatures[0].names, points[0], visible[0])])
    real = Truth(
        torch.tensor(np.stack(points[1:]), dtype=torch.float32),
        torch.tensor(visible[1:]),
        torch.full((queries,), detector.input_size * 0.7),
    )
    return pack, detector.encode(images[1:]), real


@pytest.fixture(params=["match", "tiny"])
def detector(request, match, tiny):
    return match if request.param == "match" else tiny


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("points", "scores", "covariances", "known")
    )


def test_kappa_one_gives_the_inductive_result_exactly(detector):
    pack, encoded, _ = episode(detector)
    refined = refine_pack(detector, pack, [encoded], TransductiveSettings(kappa=1.0, rounds=2))
    assert same(detector.locate(refined, encoded), detector.locate(pack, encoded))


@pytest.mark.parametrize("assignment", ["soft", "average"])
def test_refining_moves_known_prototypes_and_no_others(detector, assignment):
    pack, encoded, _ = episode(detector)
    mask = pack.mask.clone()
    mask[0, 0] = False
    pack = dataclasses.replace(pack, mask=mask)
    refined = refine_pack(detector, pack, [encoded], TransductiveSettings(assignment=assignment))
    assert refined.vectors.shape[0] == 1 and torch.equal(refined.known, pack.known)
    moved = (refined.vectors[0] - pack.vectors[0]).norm(dim=-1) > 0
    assert bool(moved[1:][pack.known[1:]].any()) and torch.isfinite(refined.vectors).all()
    assert not bool(detector.locate(refined, encoded).known[0])


@pytest.mark.parametrize("assignment", ["soft", "average"])
def test_every_example_moves_by_the_same_and_what_is_not_selected_stays(detector, assignment, monkeypatch):
    import salvit.transductive as module

    pack, encoded, _ = episode(detector)
    other = pack.vectors + 0.1 * torch.randn(pack.vectors.shape, generator=torch.Generator().manual_seed(0))
    mask = torch.cat([pack.mask, pack.mask])
    mask[1, 1] = False
    two = dataclasses.replace(pack, vectors=torch.cat([pack.vectors, other]) * mask[..., None], mask=mask)
    first = int(pack.known.nonzero()[0])
    chosen = module.select
    monkeypatch.setattr(
        module, "select", lambda *given: chosen(*given) & (torch.arange(len(pack.names)) == first)[:, None]
    )
    refined = refine_pack(detector, two, [encoded], TransductiveSettings(assignment=assignment, sigma=5.0))
    shift = refined.vectors - two.vectors
    assert shift[0, first].norm() > 0 and torch.allclose(shift[0, first], shift[1, first], atol=1e-6)
    rest = torch.arange(len(pack.names)) != first
    assert torch.equal(refined.vectors[:, rest], two.vectors[:, rest])


def test_the_average_is_the_mean_over_shots_and_pseudo_labels(match):
    pack, encoded, _ = episode(match)
    settings = TransductiveSettings(assignment="average", eta=2, candidates=1)
    found = find_candidates(match, pack, [encoded], 1)
    n = int(pack.known.nonzero()[0])
    rows = found.scores[:, n, 0].argsort(descending=True)[:2]
    from salvit.baselines.match import sample_features

    stride = match.input_size // encoded.features.shape[-1]
    vectors = [sample_features(encoded.features[z], found.points_input[z, n], stride)[0] for z in rows]
    unit = [vector / vector.norm() for vector in vectors]
    expected = (pack.vectors[0, n] + unit[0] + unit[1]) / 3
    refined = refine_pack(match, pack, [encoded], settings)
    torch.testing.assert_close(refined.vectors[0, n], expected)


def test_batches_and_files_change_nothing_but_rounding(detector):
    pack, encoded, _ = episode(detector)
    whole = refine_pack(detector, pack, [encoded])
    parts = [encoded.select([0, 1, 2]), encoded.select([3, 4, 5, 6])]
    torch.testing.assert_close(refine_pack(detector, pack, parts).vectors, whole.vectors, rtol=1e-4, atol=1e-5)
    with KeptFeatures() as kept:
        for part in parts:
            kept.append(part)
        assert len(kept) == 7
        again = refine_pack(detector, pack, kept)
        assert [len(batch.fits) for batch in kept] == [3, 4]
    torch.testing.assert_close(again.vectors, whole.vectors, rtol=0.1, atol=0.05)


def test_candidates_that_were_found_before_need_not_be_found_again(detector):
    pack, encoded, _ = episode(detector)
    first = find_candidates(detector, pack, [encoded], 2)
    assert torch.equal(
        refine_pack(detector, pack, [encoded], first=first).vectors, refine_pack(detector, pack, [encoded]).vectors
    )


def test_one_query_gives_the_inductive_result_exactly(detector):
    pack, encoded, _ = episode(detector, queries=1)
    assert same(detector.locate(refine_pack(detector, pack, [encoded]), encoded), detector.locate(pack, encoded))


def test_equal_queries_stay_equal_and_no_query_at_all_is_an_error(detector):
    pack, encoded, _ = episode(detector, queries=1)
    equal = encoded.select([0] * 6)
    found = detector.locate(refine_pack(detector, pack, [equal], TransductiveSettings(rounds=3)), equal)
    assert np.allclose(found.points, found.points[:1]) and np.isfinite(found.points).all()
    with pytest.raises(ValueError, match="no query"):
        refine_pack(detector, pack, [])


def test_pictures_without_any_object_are_no_error(detector):
    pack, encoded, _ = episode(detector, queries=6)
    blank = Encoded(torch.zeros_like(encoded.features), encoded.fits)
    found = detector.locate(refine_pack(detector, pack, [blank], TransductiveSettings(rounds=2)), blank)
    assert np.isfinite(found.points).all() and np.isfinite(found.covariances).all()


def mean_error(detector, pack, encoded, real):
    found = detector.locate(pack, encoded)
    points = torch.tensor(np.stack([fit.to_input(row) for fit, row in zip(encoded.fits, found.points, strict=True)]))
    valid = real.visible & pack.known
    distance = (points - real.points_input).norm(dim=-1) / real.box_sides[:, None]
    return float((distance <= 0.1)[valid].float().mean())


def test_the_oracle_is_not_below_the_others_on_drawn_creatures(match):
    pack, encoded, real = episode(match, queries=24)
    shares = {"inductive": mean_error(match, pack, encoded, real)}
    for assignment in ("soft", "average", "oracle"):
        settings = TransductiveSettings(assignment=assignment)
        refined = refine_pack(match, pack, [encoded], settings, truth=real if assignment == "oracle" else None)
        shares[assignment] = mean_error(match, refined, encoded, real)
    assert shares["oracle"] >= max(shares.values()) > 0, shares
