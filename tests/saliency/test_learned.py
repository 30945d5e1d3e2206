import pytest
import torch
from safetensors.torch import save_file

from salvit.backbones import Tokens, build_backbone
from salvit.saliency.learned import LearnedSaliency, SaliencyDecoder, load_decoder
from salvit.saliency.rbd import RobustBackground


def test_the_decoder_gives_sixteen_cells_for_each_fine_token():
    decoder = SaliencyDecoder(width=8).eval()
    tokens = Tokens((torch.randn(2, 112, 6, 8), torch.randn(2, 320, 3, 4)))
    saliency = decoder.from_tokens(tokens)
    assert saliency.shape == (2, 24, 32)
    assert 0 < saliency.min() < saliency.max() < 1


def test_the_decoder_is_small():
    assert sum(parameter.numel() for parameter in SaliencyDecoder().parameters()) < 110_000


def test_gradients_reach_every_weight():
    decoder = SaliencyDecoder(width=8)
    decoder([torch.randn(2, 112, 4, 4), torch.randn(2, 320, 2, 2)]).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in decoder.parameters())


def test_weights_of_something_else_are_refused(tmp_path):
    save_file({"fine.weight": torch.zeros(8, 112, 1, 1), "other": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="not a decoder"):
        load_decoder(tmp_path / "x.safetensors")


def test_the_released_decoder_finds_a_drawn_creature_better_than_rbd():
    import numpy as np

    from salvit.compare_saliency import score_iou
    from salvit.data.creatures import draw_creature

    learned, rbd = LearnedSaliency(), RobustBackground()
    scores = []
    for species, seed in (("fox", 1), ("heron", 2), ("lizard", 3), ("deer", 4), ("fish", 5), ("finch", 6)):
        creature = draw_creature(species, seed, size_hw=(192, 256))
        picture = np.asarray(creature.image)
        scores.append((score_iou(learned(picture), creature.mask), score_iou(rbd(picture), creature.mask)))
    means = np.mean(scores, 0)
    assert means[0] > means[1]


def test_settings_change_with_the_decoder(disc):
    backbone = build_backbone("lite0", weights=None)
    first, second = (LearnedSaliency(backbone, SaliencyDecoder(width=8).eval()) for _ in range(2))
    assert first.settings != second.settings
    assert first(disc[0]).shape == disc[0].shape[:2]
