from dataclasses import replace

import pytest
import torch

from salvit.flip import learn_both_ways
from salvit.model import corrections
from salvit.model.corrections import CORRECTIONS, correct
from salvit.model.filters import join_extra
from salvit.model.settings import HeadSettings, ModelSettings
from salvit.predict import conclusions_of

NAMES = ("left_eye", "right_eye")
RIDGE = 0.5


def problem(pictures=2, keypoints=3, cells=9, channels=4):
    """Maps, logits, cells of marks and shares of a made-up scale."""
    rng = torch.Generator().manual_seed(0)
    seen = torch.randn(pictures, cells, channels, generator=rng, dtype=torch.float64)
    logits = torch.randn(pictures, keypoints, cells, generator=rng, dtype=torch.float64)
    marks = torch.randint(cells, (pictures, keypoints), generator=rng)
    return seen, logits, marks, torch.full((pictures, keypoints), 1 / pictures, dtype=torch.float64)


def cost(delta, seen, logits, marks, shares):
    """What a correction makes smallest, of all keypoints together."""
    chances = (logits + torch.einsum("kcm,nm->knc", seen, delta)).log_softmax(-1)
    missed = -chances.gather(-1, marks[..., None])[..., 0]
    return (shares * missed).sum() + RIDGE / 2 * delta.square().sum()


def test_a_step_is_newtons(monkeypatch):
    monkeypatch.setattr(corrections, "STEPS", 1)
    parts = problem(keypoints=1)
    start = torch.zeros(1, 4, dtype=torch.float64)
    slope = torch.func.grad(cost)(start, *parts).flatten()
    bend = torch.func.hessian(cost)(start, *parts).view(4, 4)
    expected = -torch.linalg.solve(bend, slope)
    assert torch.allclose(correct(*parts, RIDGE)[0], expected, atol=1e-10)


def test_two_steps_come_close_to_the_best_correction():
    parts = problem()
    delta = correct(*parts, RIDGE)
    at_first = torch.func.grad(cost)(torch.zeros_like(delta), *parts).norm()
    assert torch.func.grad(cost)(delta, *parts).norm() < 0.01 * at_first
    assert cost(delta, *parts) < cost(torch.zeros_like(delta), *parts)


def test_a_large_ridge_holds_the_weights_back_and_an_unmarked_keypoint_stays():
    seen, logits, marks, shares = problem()
    assert correct(seen, logits, marks, shares, 1e6).abs().max() < 1e-5
    delta = correct(seen, logits, marks, shares * torch.tensor([1.0, 0.0, 1.0]), RIDGE)
    assert torch.equal(delta[1], torch.zeros(4, dtype=torch.float64)) and delta[0].abs().max() > 0.1


# --- in a detector --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(model_with):
    return model_with(correction=0.05)


def chances_at_marks(model, picture, example):
    """What the finest scale of a model gives the cells of the marks in the marked picture itself."""
    pack, encoded = model.learn([example(0)]), model.encode([picture(0)])
    with torch.no_grad():
        finest = model.search(model.asked(pack), encoded.features)[-1]
    points = torch.from_numpy(example(0).points_input)
    cells = torch.floor((points + 0.5) * finest.size / 96).long()
    return finest.probabilities[0].gather(1, (cells[:, 1] * finest.size + cells[:, 0])[:, None])


def test_marks_become_likelier_in_the_picture_that_they_are_in(model, model_with, picture, example):
    assert bool(
        (
            chances_at_marks(model, picture, example)
            > 2 * chances_at_marks(model_with(correction=0.0), picture, example)
        ).all()
    )


def test_without_a_ridge_nothing_is_kept_and_the_two_models_conclude_otherwise(model, model_with, example):
    plain = model_with(correction=0.0)
    assert not plain.learn([example(0)]).extra
    assert conclusions_of(plain) != conclusions_of(model)


def test_corrections_of_parts_add_up_by_the_examples_that_they_are_from(model, example):
    parts = [model.learn([example(0)]).extra, model.learn([example(1, (True, False))]).extra]
    joined = join_extra(parts)[CORRECTIONS]
    assert joined.shape == (1, 2, 3, model.descriptor.channels + 1)
    assert joined[0, :, 0, -1].tolist() == [2.0, 1.0]
    assert torch.allclose(joined[0, 1], parts[0][CORRECTIONS][0, 1])


def test_both_ways_correct_together(model, example):
    pack = learn_both_ways(model, [example(0)], (NAMES,))
    assert pack.extra[CORRECTIONS][0, :, 0, -1].tolist() == [2.0, 2.0]


def test_what_was_kept_in_half_precision_teaches_the_same(model, picture, example):
    encoded = model.look(model.encode([picture(0)]))
    halved = replace(encoded, looked=encoded.looked.half())
    whole, half = (model.learn([example(0)], one).extra[CORRECTIONS] for one in (encoded, halved))
    assert torch.allclose(whole, half, atol=0.05 * float(whole.abs().max()))


def test_a_pack_without_corrections_is_refused(model, picture, example):
    pack = replace(model.learn([example(0)]), extra={})
    with pytest.raises(ValueError, match="had all that it looks with; learn it again"):
        model.detect(pack, [picture(1)])


def test_corrections_are_for_the_dynamic_head_of_salvit():
    with pytest.raises(ValueError, match=r"head\.kind = 'dynamic', correction too"):
        HeadSettings(correction=1.0)
    with pytest.raises(ValueError, match="correction too"):
        HeadSettings(kind="dynamic", correction=-1.0)
    with pytest.raises(ValueError, match="correction are for salvit"):
        ModelSettings(method="protonet", head=HeadSettings(kind="dynamic", correction=1.0))
