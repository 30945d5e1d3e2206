import math
from dataclasses import replace

import pytest
import torch

from salvit.episode_tensors import EpisodeTensors
from salvit.learner import Learner, all_ways, flat, loss_terms, with_total
from salvit.model.build import build_model
from salvit.model.encoder import EncoderInput
from salvit.model.settings import preset
from salvit.recipes import TrainSettings

BOXES = torch.tensor([[20.0, 30.0, 80.0, 70.0]]).expand(4, 4)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    settings = replace(preset("salvit-lite0", "swift"), input_size=128, saliency="none")
    return build_model(settings, None)


@pytest.fixture
def episode(model):
    """Two supports, two queries, three keypoints of which the last is auxiliary; the second is missing at times."""
    torch.manual_seed(1)
    channels, side = model.backbone.channels, 8
    support, query = (EncoderInput(torch.randn(2, channels, side, side)) for _ in range(2))
    points = torch.rand(2, 2, 3, 2) * 127
    mask = torch.tensor([[True, True, True], [True, False, False]])
    valid = torch.tensor([[True, False, True], [True, True, False]])
    return EpisodeTensors(support, points[0], mask, query, points[1], valid, 2, BOXES)


def test_all_ways_count_every_pair_of_different_pictures_and_the_episodes_own(model, episode):
    _, pairs = all_ways(episode, episode.query, model)
    shown = torch.cat([episode.support_mask, episode.valid]).int()
    others = int(shown.sum(0).square().sum() - shown.sum())  # of each keypoint: pictures × other pictures
    by_others = int((shown.bool() & (shown.sum(0) > 1)).sum())  # each picture once with the mean of all others
    assert pairs.points.shape[1] == others + by_others + int(episode.valid.sum())
    assert bool(pairs.valid.all()) and int(pairs.tells_presence.sum()) == 3  # own, real


def test_the_episodes_own_way_says_the_same_as_the_plain_one(model, episode):
    # a keypoint of one support: several count in training as their mean prototype, and as their mean weights after it
    episode = replace(episode, support_mask=torch.tensor([[True, True, False], [False, False, True]]))
    output, pairs = all_ways(episode, episode.query, model)
    plain = model(episode.support, episode.support_points, episode.support_mask, episode.query, episode.valid)
    own = torch.zeros_like(pairs.valid)
    firsts = 0
    # own pairs of a query come before its other ones; pictures follow each other, supports first
    shown = torch.cat([episode.support_mask, episode.valid])
    wanted = []
    for picture, row in enumerate(shown):
        others = sum(int((row & shown[other]).sum()) for other in range(4) if other != picture)
        by_others = int((row & (shown.sum(0) > 1)).sum())
        mine = int(row.sum()) if picture >= 2 else 0
        wanted += list(range(firsts, firsts + mine))
        firsts += mine + others + by_others
    own[0, wanted] = True
    for one, two in zip(output.scales, plain.scales, strict=True):
        assert torch.allclose(one.logits[own], two.logits[0], atol=1e-4)


def test_absent_pairs_tell_of_presence_alone(model, episode):
    wanted = episode.valid.clone()
    wanted[0, 1] = True
    output, pairs = all_ways(replace(episode, wanted=wanted), episode.query, model)
    assert int((~pairs.valid).sum()) == 1 and bool(pairs.tells_presence[~pairs.valid].all())
    terms = loss_terms(output, pairs, model, TrainSettings())
    assert set(terms) == {"main", "auxiliary", "presence"}


def test_a_step_in_all_ways_gives_every_part_a_gradient(model, episode):
    learner = Learner(model, TrainSettings(all_ways=True)).train()
    learner(*flat(episode))["loss"].backward()
    parts = {name: value for name, value in model.named_parameters() if value.requires_grad}
    unused = {name for name, value in parts.items() if value.grad is None}
    assert all("morphology" in name or "encoder.embedding" in name for name in unused)  # there is no saliency to shape
    model.zero_grad(set_to_none=True)


def test_the_total_has_the_papers_weights_and_those_of_what_is_ours():
    terms = {"main": 2.0, "regulariser": 3.0, "alignment": 5.0, "auxiliary": 7.0, "presence": 11.0, "joint": 13.0}
    settings = TrainSettings(auxiliary_weight=0.5, presence_weight=0.1)
    whole = with_total({name: torch.tensor(value) for name, value in terms.items()}, settings)
    assert whole["loss"].item() == pytest.approx((1 + 1.5 + 0.5) + 3.5 + 1.1 + 13)
    assert with_total({"main": torch.tensor(2.0)}, settings)["loss"].item() == pytest.approx(1.0)


def test_a_trained_backbone_is_trained_and_its_prior_beside_it():
    torch.manual_seed(0)
    settings = preset("salvit-lite0", "swift")
    backbone = replace(settings.backbone, trained_blocks=5, bn="frozen")
    model = build_model(replace(settings, input_size=128, saliency="learned", backbone=backbone), None).train()
    points, images, saliency = torch.rand(2, 2, 3, 2) * 127, torch.rand(2, 3, 128, 128), torch.rand(2, 128, 128)
    pictures = [EncoderInput(model.prepare(images).raw, images, saliency) for _ in range(2)]
    seen = torch.ones(2, 3, dtype=torch.bool)
    parts = (pictures[0], points[0], seen, pictures[1], points[1], seen, 3, BOXES)
    terms = Learner(model, TrainSettings(all_ways=True))(*flat(EpisodeTensors(*parts)))
    terms["prior"].backward(retain_graph=True)
    assert model.prior.out.weight.grad is not None
    trained = [weight for weight in model.backbone.parameters() if weight.requires_grad]
    assert all(weight.grad is None for weight in trained)
    terms["loss"].backward()
    assert any(weight.grad is not None and weight.grad.any() for weight in trained)


def test_a_finder_learns_beside_the_model_from_the_boxes_of_all_pictures_and_changes_nothing_else(model, episode):
    torch.manual_seed(0)
    finding = build_model(replace(model.settings, finder=True), None)
    plain, more = (Learner(one, TrainSettings())(*flat(episode)) for one in (model, finding))
    assert "finder" not in plain and set(more) == {*plain, "finder"}
    raw = torch.cat([episode.support.raw, episode.query.raw])
    expected = finding.finder.loss(raw, episode.boxes, 128)
    torch.testing.assert_close(more["finder"], expected)
    more["finder"].backward()
    assert {name.split(".")[0] for name, value in finding.named_parameters() if value.grad is not None} == {"finder"}
    others = {name: term for name, term in more.items() if name not in ("finder", "loss")}
    torch.testing.assert_close(more["loss"], with_total(others, TrainSettings())["loss"] + more["finder"])


@pytest.mark.parametrize("is_all_ways", [True, False])
def test_the_bodys_parts_are_taught_by_the_real_keypoints_of_all_pictures(episode, is_all_ways):
    torch.manual_seed(0)
    settings = replace(preset("salvit-lite0", "swift"), input_size=128, saliency="none")
    settings = replace(settings, encoder=replace(settings.encoder, body=3))
    model = build_model(settings, None)
    learner = Learner(model, TrainSettings(all_ways=is_all_ways)).train()
    terms = learner(*flat(replace(episode, num_named=2)))
    assert terms["body"].item() == pytest.approx(math.log(64), rel=0.2)  # untrained maps of 8 × 8 cells are about even
    terms["body"].backward()
    taught = model.encoder.body.maps.weight.grad
    assert bool((taught[:2] != 0).any()) and bool((taught[2] == 0).all())
    without = Learner(build_model(replace(settings, encoder=replace(settings.encoder, body=0)), None), TrainSettings())
    assert "body" not in without.train()(*flat(episode))
