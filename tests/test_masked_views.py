"""Masked queries: what is hidden, what is not, and that the same draw gives the same mask."""

import numpy as np
import pytest
import torch

from salvit.data.augment import AugmentSettings
from salvit.data.creatures import write_creatures
from salvit.data.splits import open_problem
from salvit.features import ViewSettings, open_cache
from salvit.masked_views import (
    CachedMasker,
    FreshMasker,
    cells_of_patch,
    check_masking,
    hide,
    open_masked_tokens,
)
from salvit.model.build import build_model
from salvit.model.encoder import EncoderInput
from salvit.recipes import MaskingSettings, recipe_from_table

VIEWS = ViewSettings(crop="gt-random", views=2, seed=0, augment=AugmentSettings())


def track(items, total, what):
    return items


def saliency_of(record):
    """Everything inside the box stands out."""
    height, width = record.image_hw
    plane = np.zeros((height, width), dtype=np.float32)
    x1, y1, x2, y2 = (int(side) for side in record.box)
    plane[y1:y2, x1:x2] = 1.0
    return plane


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    write_creatures(folder / "data", ("fox", "leopard", "giraffe"), 8, 0, size_hw=(120, 160))
    return open_problem("creatures", folder / "data", "giraffe")


def build(saliency):
    table = {"model": {"preset": "salvit-lite0", "width": "narrow", "saliency": saliency, "input_size": 96}}
    return build_model(recipe_from_table(table).model)


@pytest.fixture(scope="module")
def model():
    return build("rbd")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path))


@pytest.mark.parametrize(("grid", "cells"), [(12, 1), (24, 2), (20, 2), (10, 1), (6, 1), (27, 3)])
def test_a_patch_is_about_a_twelfth_of_the_input(grid, cells):
    assert cells_of_patch(grid) == cells


def query():
    generator = torch.Generator().manual_seed(0)
    return EncoderInput(
        torch.rand(1, 5, 2, 2, generator=generator) + 1,
        torch.rand(1, 3, 4, 4, generator=generator),
        torch.full((1, 4, 4), 0.8),
    )


HIDDEN = torch.tensor([[[True, False], [False, False]]])


@pytest.mark.parametrize("what", ["rgb", "saliency", "features"])
def test_what_is_named_is_hidden_and_nothing_else(what):
    clean = query()
    masked = hide(clean, HIDDEN, MaskingSettings(**{what: True}), clean.raw)
    images, saliency, raw = masked.query.images, masked.query.saliency, masked.query.raw
    assert torch.equal(images[..., 2:], clean.images[..., 2:]) and torch.equal(raw[..., 1], clean.raw[..., 1])
    corner = (slice(None), slice(None), slice(0, 2), slice(0, 2))
    assert torch.equal(images[corner], clean.images[corner]) == (what != "rgb")
    assert bool((saliency[:, :2, :2] == 0).all()) == (what == "saliency") and float(saliency[0, 3, 3]) > 0
    assert bool((raw[..., 0, 0] == 0).all()) == (what == "features")
    if what == "rgb":
        assert torch.allclose(images[0, :, 0, 0] * 255, torch.tensor([124.0, 116.0, 104.0]))


def test_a_cached_copy_equals_the_backbone_on_the_masked_picture(problem, model):
    records = problem.records["train"][:4]
    clean = open_cache(model, problem, records, VIEWS, saliency_of=saliency_of, track=track)
    masked = open_masked_tokens(model, problem, records, clean, VIEWS, 2, track=track)
    assert len(masked.rows) == 4 * 2 * 2 and any(mask.any() for mask in masked.masks)
    settings = MaskingSettings(rgb=True, saliency=True, probability=1.0)
    picks = [(record.id, 1) for record in records]
    batch = clean.encoder_input(picks, torch.device("cpu"))
    made = CachedMasker(model, settings, masked).draw(batch, np.random.default_rng(0), picks)
    assert bool(made.hidden.any()) and not bool(made.hidden.all())
    with torch.inference_mode():
        fresh = model.prepare(made.query.images, None).raw
    assert (made.query.raw - fresh).abs().max() <= 2e-2 * fresh.abs().max()
    assert not torch.equal(made.query.raw, batch.raw)


def test_copies_are_computed_once_and_more_of_them_are_added(problem, model, monkeypatch):
    records = problem.records["train"][:3]
    clean = open_cache(model, problem, records, VIEWS, saliency_of=saliency_of, track=track)
    one = open_masked_tokens(model, problem, records, clean, VIEWS, 1, track=track)
    kept = np.array(one.tokens)
    two = open_masked_tokens(model, problem, records, clean, VIEWS, 2, track=track)
    assert np.array_equal(two.tokens[: len(kept)], kept) and len(two.rows) == 2 * len(one.rows)
    monkeypatch.setattr(type(model), "prepare", lambda *_: pytest.fail("the backbone ran again"))
    again = open_masked_tokens(model, problem, records, clean, VIEWS, 2, track=track)
    assert again.rows == two.rows and np.array_equal(again.tokens, two.tokens)


def test_the_same_draw_gives_the_same_mask_and_probability_zero_gives_none(model):
    batch = EncoderInput(torch.rand(4, 432, 6, 6), torch.rand(4, 3, 96, 96), torch.ones(4, 96, 96))
    settings = MaskingSettings(saliency=True, features=True, probability=1.0)
    grid = model.encoder.grid_hw[0]
    batch = EncoderInput(torch.rand(4, model.backbone.channels, grid, grid), batch.images, batch.saliency)
    one, two = (CachedMasker(model, settings).draw(batch, np.random.default_rng(7)) for _ in range(2))
    assert torch.equal(one.hidden, two.hidden) and bool(one.hidden.any())
    none = MaskingSettings(features=True, probability=0.0)
    assert not bool(CachedMasker(model, none).draw(batch, np.random.default_rng(7)).hidden.any())


def test_a_share_of_the_episodes_is_masked(model):
    grid = model.encoder.grid_hw[0]
    batch = EncoderInput(torch.rand(1, model.backbone.channels, grid, grid), None, torch.ones(1, 96, 96))
    for masker in (CachedMasker, FreshMasker):
        quarter = masker(model, MaskingSettings(features=True, share=0.25))
        masked = sum(quarter.draw(batch, np.random.default_rng(seed)) is not None for seed in range(200))
        assert 35 <= masked <= 65


def test_a_fresh_mask_of_the_picture_runs_the_backbone_on_it(model):
    batch = model.prepare(torch.rand(2, 3, 96, 96), torch.ones(2, 96, 96))
    settings = MaskingSettings(rgb=True, probability=1.0)
    made = FreshMasker(model, settings).draw(batch, np.random.default_rng(0))
    assert bool(made.hidden.any())
    torch.testing.assert_close(made.query.raw, model.prepare(made.query.images, None).raw)


def test_masks_need_saliency_and_alignments_need_masks():
    with pytest.raises(ValueError, match="no saliency"):
        check_masking(build("none"), MaskingSettings(rgb=True))
    check_masking(build("none"), MaskingSettings())
    with pytest.raises(ValueError, match="needs masks"):
        MaskingSettings(alignment="probability")
    with pytest.raises(ValueError, match="recovers masked pixels"):
        MaskingSettings(alignment="simmim", saliency=True)
    with pytest.raises(ValueError, match="views must be"):
        MaskingSettings(rgb=True, views=0)
    with pytest.raises(ValueError, match="share must be"):
        MaskingSettings(rgb=True, share=0.0)
    with pytest.raises(ValueError, match="1 for simmim"):
        MaskingSettings(rgb=True, share=0.5, alignment="simmim")


def test_masked_copies_go_through_the_trained_part_of_a_backbone_as_it_is_now(problem):
    table = {"preset": "salvit-resnet50", "width": "light", "saliency": "rbd", "input_size": 96}
    model = build_model(recipe_from_table({"model": table}).model, None)
    records = problem.records["train"][:2]
    clean = open_cache(model, problem, records, VIEWS, saliency_of=saliency_of, track=track)
    masked = open_masked_tokens(model, problem, records, clean, VIEWS, 1, track=track)
    with torch.no_grad():
        model.backbone.stages[3][2].layer[2].normalization.bias += 1  # a step of training
    picks = [(record.id, 1) for record in records]
    batch = clean.encoder_input(picks, torch.device("cpu"))
    settings = MaskingSettings(rgb=True, probability=1.0)
    made = CachedMasker(model, settings, masked).draw(batch, np.random.default_rng(0), picks)
    with torch.no_grad():
        fresh = model.prepare(made.query.images, None).raw
    assert bool(made.hidden.any()) and made.query.raw.requires_grad
    assert (made.query.raw - fresh).abs().max() <= 2e-2 * fresh.abs().max()
