import dataclasses
import hashlib
import json

import numpy as np
import pytest
import torch

from salvit.backbones.files import hash_weights
from salvit.config import to_mapping
from salvit.data.augment import AugmentSettings
from salvit.data.creatures import write_creatures
from salvit.data.splits import open_problem
from salvit.data.views import load_view
from salvit.features import ViewSettings, draw_cached_view, is_cut, near_views, open_cache, row_shape
from salvit.model.build import build_model
from salvit.recipes import recipe_from_table

VIEWS = ViewSettings(crop="gt-random", views=2, seed=0, augment=AugmentSettings())


def track(items, total, what):
    return items


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    write_creatures(folder / "data", ("fox", "leopard", "giraffe"), 8, 0, size_hw=(120, 160))
    return open_problem("creatures", folder / "data", "giraffe")


@pytest.fixture(scope="module")
def model():
    table = {"model": {"preset": "salvit-lite0", "width": "narrow", "saliency": "none", "input_size": 96}}
    return build_model(recipe_from_table(table).model)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path))


def test_cached_tokens_equal_the_uncached_road_on_the_same_view(problem, model):
    records = problem.records["train"][:3]
    cache = open_cache(model, problem, records, VIEWS, track=track)
    for record in records:
        for number in range(2):
            view = draw_cached_view(record, problem, VIEWS, number)
            loaded = load_view(view, 96, record.names, pairs=problem.split.pairs)
            pixels = torch.from_numpy(loaded.pixels)[None].permute(0, 3, 1, 2).float() / 255
            with torch.inference_mode():
                fresh = model.prepare(pixels).raw
            kept = cache.encoder_input([(record.id, number)], torch.device("cpu"))
            assert (kept.raw - fresh).abs().max() <= 1e-2 * fresh.abs().max()
            assert torch.equal(kept.images, pixels)
            points, visible = cache.labels(record.id, number, record.names)
            assert np.allclose(points, loaded.points_input) and np.array_equal(visible, loaded.visible)


def test_a_second_run_reads_what_the_first_computed(problem, model, monkeypatch):
    records = problem.records["train"][:3]
    first = open_cache(model, problem, records, VIEWS, track=track)
    monkeypatch.setattr(type(model), "prepare", lambda *_: pytest.fail("the backbone ran again"))
    again = open_cache(model, problem, records, VIEWS, track=track)
    assert np.array_equal(first.tokens, again.tokens) and first.rows == again.rows


def test_an_interrupted_computation_goes_on_where_it_was(problem, model, monkeypatch, tmp_path):
    records = problem.records["train"]
    whole = open_cache(model, problem, records, VIEWS, track=track)
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path / "other"))

    def stop_early(items, total, what):
        for number, item in enumerate(items):
            if number == 1:
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        open_cache(model, problem, records, VIEWS, track=stop_early)
    made = open_cache(model, problem, records, VIEWS, track=track)
    assert made.rows == whole.rows and np.array_equal(made.tokens, whole.tokens)


def test_more_records_and_more_views_add_to_what_is_there(problem, model, monkeypatch, tmp_path):
    records = problem.records["train"]
    open_cache(model, problem, records[:3], dataclasses.replace(VIEWS, views=1), track=track)
    ran = []
    prepare = type(model).prepare
    monkeypatch.setattr(type(model), "prepare", lambda self, *given: ran.append(len(given[0])) or prepare(self, *given))
    grown = open_cache(model, problem, records[2:5], VIEWS, track=track)
    assert sum(ran) == 5  # two new records and three second views
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path / "other"))
    alone = open_cache(model, problem, records[2:5], VIEWS, track=track)
    for record in records[2:5]:
        for view in range(2):
            one, two = (cache.tokens[cache.rows[record.id, view]] for cache in (grown, alone))
            assert np.allclose(one, two, atol=1e-2)
            assert np.array_equal(grown.points[grown.rows[record.id, view]], alone.points[alone.rows[record.id, view]])


def test_a_label_line_that_a_crash_cut_off_is_computed_again(problem, model, tmp_path):
    records = problem.records["train"][:2]
    first = open_cache(model, problem, records, VIEWS, track=track)
    labels = next((tmp_path / "tokens").rglob("labels.jsonl"))
    labels.write_text(labels.read_text()[:-20])
    again = open_cache(model, problem, records, VIEWS, track=track)
    assert again.rows == first.rows and np.array_equal(again.tokens, first.tokens)


def test_records_of_another_folder_with_the_same_names_do_not_get_the_rows_of_the_first(problem, model, monkeypatch):
    records = problem.records["train"][:3]
    first = open_cache(model, problem, records, VIEWS, track=track)
    moved = dataclasses.replace(records[1], points=records[1].points + 2.0)
    others = (records[0], moved, dataclasses.replace(records[2], path=records[0].path))
    ran = []
    prepare = type(model).prepare
    monkeypatch.setattr(type(model), "prepare", lambda self, *given: ran.append(len(given[0])) or prepare(self, *given))
    other = open_cache(model, problem, others, VIEWS, track=track)
    assert sum(ran) == 2 * VIEWS.views, "corrected labels, and another picture"
    for record, same in zip(others, (True, False, False), strict=True):
        assert (other.rows[record.id, 0] == first.rows[record.id, 0]) == same
    again = open_cache(model, problem, records, VIEWS, track=track)
    assert again.rows == first.rows and sum(ran) == 2 * VIEWS.views, "the first are still there"


def test_other_settings_have_another_cache(problem, model, tmp_path):
    records = problem.records["train"][:1]
    open_cache(model, problem, records, VIEWS, track=track)
    open_cache(model, problem, records, ViewSettings(crop="gt-tight", views=1, seed=0, augment=None), track=track)
    assert len(list((tmp_path / "tokens").iterdir())) == 2


def test_a_keypoint_that_a_record_does_not_have_is_not_visible(problem, model):
    record = problem.records["train"][0]
    cache = open_cache(model, problem, [record], VIEWS, track=track)
    points, visible = cache.labels(record.id, 0, ("nose", "third_eye"))
    assert points.shape == (2, 2) and not visible[1]


@pytest.fixture(scope="module")
def partly_trained():
    torch.manual_seed(0)
    table = {"preset": "salvit-resnet50", "width": "light", "saliency": "none", "input_size": 64}
    return build_model(recipe_from_table({"model": table}).model, None)


def test_a_backbone_is_cached_up_to_the_part_that_is_trained(problem, partly_trained):
    record = problem.records["train"][0]
    cache = open_cache(partly_trained, problem, [record], VIEWS, track=track)
    assert cache.tokens.shape == (2, 1024, 4, 4)
    kept = cache.encoder_input([(record.id, 0), (record.id, 1)], torch.device("cpu"))
    with torch.no_grad():
        fresh = partly_trained.prepare(kept.images).raw
    assert kept.raw.shape == fresh.shape == (2, 2048, 2, 2)
    assert (kept.raw - fresh).abs().max() <= 1e-2 * fresh.abs().max()
    kept.raw.sum().backward()
    reached = {name for name, parameter in partly_trained.named_parameters() if parameter.grad is not None}
    partly_trained.zero_grad(set_to_none=True)
    assert reached == {name for name, _ in partly_trained.named_parameters() if name.startswith("backbone.stages.3.")}


def test_lite0_is_cached_up_to_its_trained_blocks_and_they_learn_from_cached_rows(problem):
    backbone = {"trained_blocks": 5, "bn": "frozen"}
    table = {"preset": "salvit-lite0", "width": "light", "saliency": "none", "input_size": 64, "backbone": backbone}
    model = build_model(recipe_from_table({"model": table}).model, None)
    record = problem.records["train"][0]
    cache = open_cache(model, problem, [record], VIEWS, track=track)
    assert cache.tokens.shape == (2, 112, 4, 4)
    kept = cache.encoder_input([(record.id, 0)], torch.device("cpu"))
    with torch.no_grad():
        fresh = model.prepare(kept.images).raw
    assert (kept.raw - fresh).abs().max() <= 2e-2 * fresh.abs().max(), "but for half precision"
    kept.raw.square().sum().backward()
    reached = {name.split(".")[2] for name, weight in model.named_parameters() if weight.grad is not None}
    assert reached == {"11", "12", "13", "14", "15"}


def test_scaled_tokens_of_a_partly_trained_backbone_are_cached_and_finished_alike(problem, partly_trained):
    settings = partly_trained.settings
    scaled = dataclasses.replace(settings, backbone=dataclasses.replace(settings.backbone, is_normalised=True))
    model = build_model(scaled, None)
    record = problem.records["train"][0]
    cache = open_cache(model, problem, [record], VIEWS, track=track)
    kept = cache.encoder_input([(record.id, 0)], torch.device("cpu"))
    with torch.no_grad():
        assert torch.allclose(kept.raw, model.prepare(kept.images).raw, atol=1e-2)


def test_training_does_not_make_cached_rows_stale_but_other_frozen_weights_do(problem, partly_trained, tmp_path):
    record = problem.records["train"][0]
    open_cache(partly_trained, problem, [record], VIEWS, track=track)
    with torch.no_grad():
        for number, folders in ((3, 1), (2, 2)):
            partly_trained.backbone.stages[number][0].layer[0].normalization.running_mean += 1
            open_cache(partly_trained, problem, [record], VIEWS, track=track)
            assert len(list((tmp_path / "tokens").iterdir())) == folders


def test_a_map_that_is_made_of_finished_tokens_keeps_the_cache_behind_the_trained_part():
    table = {"preset": "salvit-dino-s16", "width": "light", "input_size": 48}
    attentive = build_model(recipe_from_table({"model": table}).model, None)
    blank = build_model(recipe_from_table({"model": table | {"saliency": "none"}}).model, None)
    assert (is_cut(attentive), is_cut(blank)) == (False, True)
    assert (row_shape(attentive), row_shape(blank)) == ((384, 3, 3), (10, 384))


# --- near what the model finds --------------------------------------------------------------------------------------

PLAIN = ViewSettings(crop="gt-random", views=1, seed=0, augment=None)
NEAR = dataclasses.replace(PLAIN, is_near=True)


@pytest.fixture(scope="module")
def finding():
    """Random weights and a finder that finds a box of 40 pixels about (56, 40) of the input."""
    torch.manual_seed(0)
    table = {"preset": "salvit-lite0", "width": "light", "saliency": "none", "input_size": 96, "finder": True}
    made = build_model(recipe_from_table({"model": table}).model, None).eval()
    with torch.no_grad():
        for parameter in made.finder.parameters():
            parameter.zero_()
        made.finder.position[0, 0, 2, 3] = made.finder.out.weight[0, 0] = 1.0
        made.finder.out.bias[1:] = -1.0  # 4 · softplus(−1) = 1.25 cells
    return made


def folders(tmp_path):
    return {path.name for path in (tmp_path / "tokens").iterdir() if path.is_dir()}


def test_a_near_view_lies_inside_the_view_and_shows_the_object_larger(problem, finding):
    views = [draw_cached_view(record, problem, PLAIN, 0) for record in problem.records["train"][:4]]
    near = near_views(finding, views)
    for view, shown in zip(views, near, strict=True):
        assert shown.record is view.record and shown.change == view.change
        (x1, y1, x2, y2), outer = shown.window, view.window
        assert outer[0] <= x1 < x2 <= outer[2] and outer[1] <= y1 < y2 <= outer[3] and shown.window != outer
    assert near_views(finding, views[:1])[0].window == pytest.approx(near[0].window), "alone as with others"


def test_rows_are_of_near_windows_where_they_are_asked_for(problem, finding):
    records = problem.records["train"][:3]
    plain, near = (open_cache(finding, problem, records, settings, track=track) for settings in (PLAIN, NEAR))
    views = near_views(finding, [draw_cached_view(record, problem, NEAR, 0) for record in records])
    for record, view in zip(records, views, strict=True):
        loaded = load_view(view, 96, record.names, pairs=problem.split.pairs)
        kept = near.encoder_input([(record.id, 0)], torch.device("cpu"))
        pixels = torch.from_numpy(loaded.pixels)[None].permute(0, 3, 1, 2).float() / 255
        assert torch.equal(kept.images, pixels)
        assert not torch.equal(plain.encoder_input([(record.id, 0)], torch.device("cpu")).images, pixels)
        points, visible = near.labels(record.id, 0, record.names)
        assert np.allclose(points, loaded.points_input) and np.array_equal(visible, loaded.visible)
        assert np.allclose(near.boxes[near.rows[record.id, 0]], loaded.box_input)


def test_near_views_have_a_cache_of_their_own_for_each_finder(problem, finding, tmp_path):
    records = problem.records["train"][:1]
    open_cache(finding, problem, records, PLAIN, track=track)
    first = folders(tmp_path)
    open_cache(finding, problem, records, NEAR, track=track)
    second = folders(tmp_path)
    with torch.no_grad():
        finding.finder.out.bias[1] += 0.5
    open_cache(finding, problem, records, NEAR, track=track)
    assert (len(first), len(second), len(folders(tmp_path))) == (1, 2, 3)
    open_cache(finding, problem, records, PLAIN, track=track)
    assert len(folders(tmp_path)) == 3, "plain views do not ask for the finder"


def test_plain_views_have_the_cache_that_they_had_before_there_were_near_ones(problem, finding, tmp_path):
    """What was cached must not be computed again."""
    open_cache(finding, problem, problem.records["train"][:1], PLAIN, track=track)
    backbone = {key: value for key, value in to_mapping(finding.settings.backbone).items() if key != "trained_blocks"}
    parts = {
        "weights": hash_weights(finding.backbone),
        "backbone": backbone,
        "size": 96,
        "saliency": "none",
        "data": "creatures",
        "pairs": problem.split.pairs,
        "views": {"crop": "gt-random", "views": 0, "seed": 0},
    }
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
    assert folders(tmp_path) == {key}
    table = {"preset": "salvit-lite0", "width": "light", "saliency": "none", "input_size": 96}
    plain = build_model(recipe_from_table({"model": table}).model, None).eval()
    plain.backbone.load_state_dict(finding.backbone.state_dict())
    open_cache(plain, problem, problem.records["train"][:1], PLAIN, track=track)
    assert folders(tmp_path) == {key}, "a model with and one without a finder share it"


def test_near_views_of_a_model_that_finds_nothing_are_an_error(problem, model):
    with pytest.raises(ValueError, match="has no finder"):
        open_cache(model, problem, problem.records["train"][:1], NEAR, track=track)
