"""Models on one frozen backbone share what it makes of a list's pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.encoded_lists import encode_list
from salvit.model.build import build_model
from salvit.model.settings import preset
from salvit.prepared_lists import shares_backbone

SIZE = 96


def track(items, total, what):
    return items


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_creatures(folder, SPECIES[:4], 12, 0, size_hw=(180, 240))
    return open_problem("creatures", folder, SPECIES[3])


@pytest.fixture
def lists(problem, tmp_path, monkeypatch):
    """A clean list, and the same with all keypoints of its queries hidden."""
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path / "cache"))
    values = freeze(problem, EpisodeSettings(shots=1, queries=2, crop="gt-random"), episodes=3, seed=0)
    write_frozen(values, tmp_path / "list.json")
    clean = read_frozen(tmp_path / "list.json", problem, purpose="report")
    hidden = read_frozen(tmp_path / "list.json", problem, purpose="report", occluder="grey", probability=1.0)
    return clean, hidden


def build(saliency="none", seed=0, **changes):
    """A small model with random weights; the backbone's are the same with every seed."""
    torch.manual_seed(7)
    settings = replace(preset("salvit-lite0", "swift"), input_size=SIZE, saliency=saliency)
    model = build_model(replace(settings, **changes), None).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.encoder.parameters():
            weight.add_(0.01 * torch.randn_like(weight))
    return model


def grey_map(record):
    return np.full((180, 240), 0.5, dtype=np.float32)


def count_passes(model, monkeypatch):
    """How many pictures the backbone is run on from now on."""
    seen, plain = [], type(model).prepare

    def prepare(self, images, saliency=None, tokens=None):
        seen.extend(images)
        return plain(self, images, saliency, tokens)

    monkeypatch.setattr(type(model), "prepare", prepare)
    return seen


@pytest.mark.parametrize("saliency", ["none", "learned"])
def test_rows_from_disk_encode_as_pictures_do(lists, saliency):
    model, saliency_of = build(saliency), None if saliency == "none" else grey_map
    plain = encode_list(model, lists[0], saliency_of=saliency_of, track=track)
    shared = encode_list(model, lists[0], saliency_of=saliency_of, is_shared=True, track=track)
    assert plain.rows == shared.rows and plain.encoded.fits == shared.encoded.fits
    torch.testing.assert_close(shared.encoded.features, plain.encoded.features, atol=2e-2, rtol=2e-2)
    assert (shared.encoded.saliency is None) == (plain.encoded.saliency is None) == (saliency == "none")
    assert plain.timing and not shared.timing  # what was shared says nothing of one model's speed


def test_a_second_model_on_the_same_backbone_does_not_run_it_again(lists, monkeypatch):
    first, second = build(seed=1), build(seed=2)
    seen = count_passes(first, monkeypatch)
    made = encode_list(first, lists[0], is_shared=True, track=track)
    assert len(seen) == len(made.rows)
    other = encode_list(second, lists[0], is_shared=True, track=track)
    assert len(seen) == len(made.rows)
    assert not torch.allclose(made.encoded.features, other.encoded.features)  # its own encoder ran


def test_hidden_pictures_have_rows_of_their_own(lists, monkeypatch):
    model = build()
    seen = count_passes(model, monkeypatch)
    clean = encode_list(model, lists[0], is_shared=True, track=track)
    before = len(seen)
    hidden = encode_list(model, lists[1], is_shared=True, track=track)
    assert len(seen) > before  # queries anew, supports as they were
    assert len(seen) < before + len(hidden.rows)
    key = next(key for key in hidden.rows if key[1])
    a, b = hidden.pick([key]).features, clean.pick([(key[0], "")]).features
    assert not torch.allclose(a, b)


def test_models_that_see_otherwise_share_nothing(lists, monkeypatch):
    first = build()
    encode_list(first, lists[0], is_shared=True, track=track)
    seen = count_passes(first, monkeypatch)
    for other in (build(input_size=128), build("learned")):
        saliency_of = grey_map if other.encoder.uses_saliency else None
        made = encode_list(other, lists[0], saliency_of=saliency_of, is_shared=True, track=track)
        assert len(seen) == len(made.rows)
        seen.clear()


def test_only_frozen_backbones_that_look_at_the_lists_own_windows_are_shared():
    settings = preset("salvit-lite0", "swift")
    trained = replace(settings.backbone, trained_blocks=8, bn="frozen")
    assert shares_backbone(build())
    assert not shares_backbone(build(backbone=trained))
    assert not shares_backbone(build(finder=True))
