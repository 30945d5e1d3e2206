"""Maps of several providers, before and after."""

import numpy as np

from salvit.figures.saliency import PICTURES, PROVIDERS, TILE, saliency
from salvit.saliency import build_provider


def test_each_row_has_the_picture_and_two_maps_of_each_provider(ground):
    providers = {name: build_provider(name) for name in ("none", "spectral_residual")}
    sheet = saliency(ground, providers)
    assert len(sheet.rows) == PICTURES
    for row in sheet.rows:
        assert [panel.caption for panel in row.panels[1:]] == ["none", "after", "spectral residual", "after"]
        assert {panel.image.size for panel in row.panels} == {(TILE, TILE * 96 // 128)}
    ones = np.asarray(sheet.rows[0].panels[1].image)
    assert (ones == 255).all()


def test_a_provider_whose_weights_are_not_here_is_named_and_left_out(ground, monkeypatch):
    def build(name):
        if name != "spectral_residual":
            raise FileNotFoundError(name)
        return build_provider(name)

    monkeypatch.setattr("salvit.figures.saliency.build_provider", build)
    monkeypatch.setattr("salvit.figures.saliency.CachedProvider", lambda provider: provider)
    sheet = saliency(ground)
    assert all(len(row.panels) == 3 for row in sheet.rows)
    assert all(name in sheet.note for name in PROVIDERS if name != "spectral_residual")
