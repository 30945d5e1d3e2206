"""Features that are kept."""

import os
from dataclasses import replace

import pytest
import torch

from salvit.geometry import fit_square
from salvit.types import Encoded
from salvit.web.encodings import Encodings, encoding_key, join_encodings, join_to_search


def encoded(seed, size=8):
    features = torch.randn(1, 4, size, size, generator=torch.Generator().manual_seed(seed))
    return Encoded(features, (fit_square((0, 0, 30, 20), 32),), torch.rand(1, size, size))


@pytest.fixture
def cache(tmp_path):
    return Encodings(tmp_path, 10_000, 10_000)


def test_what_comes_from_disk_is_what_was_kept_in_memory(cache, tmp_path):
    kept = cache.put("a", encoded(0))
    again = Encodings(tmp_path, 10_000, 10_000).get("a")
    assert torch.equal(again.features, kept.features) and torch.equal(again.saliency, kept.saliency)
    assert again.fits == kept.fits


def test_memory_and_disk_stay_under_their_limits_and_the_oldest_goes_first(tmp_path):
    one = 8 * 8 * (4 + 1) * 2
    cache = Encodings(tmp_path, 3 * one, 5 * one)
    for number in range(8):
        cache.put(str(number), encoded(number))
    assert cache.held_bytes <= 3 * one
    assert sorted(file.stem for file in tmp_path.glob("*.safetensors")) == ["3", "4", "5", "6", "7"]
    assert "2" not in cache and cache.get("2") is None and cache.get("3") is not None


def test_a_damaged_file_is_made_again_not_an_error(cache, tmp_path):
    cache.put("a", encoded(0))
    (tmp_path / "a.safetensors").write_bytes(b"cut")
    assert Encodings(tmp_path, 10_000, 10_000).get("a") is None


def test_a_changed_file_model_or_box_has_another_key(tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(b"1")
    first = encoding_key("m", file, None)
    assert encoding_key("n", file, None) != first and encoding_key("m", file, (0, 0, 1, 1)) != first
    os.utime(file, ns=(1, 1))
    assert encoding_key("m", file, None) != first


def test_pictures_are_joined_in_order_as_32_bits():
    both = join_encodings([encoded(0), encoded(1)])
    assert both.features.dtype == torch.float32 and both.features.shape == (2, 4, 8, 8) and len(both.fits) == 2
    assert torch.equal(both.features[1], encoded(1).features[0])


def test_what_the_head_looked_at_is_kept_and_searched_instead_of_features(cache, tmp_path):
    looked = torch.rand(1, 6, 10)
    kept = cache.put("a", replace(encoded(0), looked=looked))
    again = Encodings(tmp_path, 10_000, 10_000).get("a")
    assert torch.equal(again.looked, looked.half()) and cache.held_bytes == 2 * (8 * 8 * (4 + 1) + 60)
    to_search = join_to_search([kept, again])
    assert to_search.looked.dtype == torch.float16 and to_search.looked.shape == (2, 6, 10)
    assert join_to_search([kept, cache.put("b", encoded(1))]).looked is None  # one was never looked at: all anew
