"""Presets, the ablation table, and strict loading."""

import pytest

from salvit.config import from_mapping, to_mapping
from salvit.model.settings import (
    ABLATIONS,
    PRESETS,
    AttentionSettings,
    EncoderSettings,
    HeadSettings,
    ModelSettings,
    ablation,
    preset,
)


def test_defaults_are_the_papers_main_setting():
    settings = ModelSettings()
    assert settings.input_size == 384
    assert settings.backbone.name == "resnet50"
    assert (settings.attention.kernel, settings.attention.beta, settings.attention.degree) == ("rbf", 1.0, 1.0)
    assert (settings.attention.heads, settings.attention.head_channels) == (6, 64)
    assert settings.attention.interaction == "harmonic"
    assert (settings.morphology.bound, settings.morphology.centre, settings.morphology.interval) == (2.0, 0.7, 0.05)
    assert (settings.encoder.blocks, settings.encoder.token_channels) == (1, 384)
    assert settings.head.scales == (8, 12, 16)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("width", ["paper", "narrow", "light"])
def test_presets_survive_saving(name, width):
    settings = preset(name, width)
    assert settings.name == name
    assert from_mapping(ModelSettings, to_mapping(settings)) == settings


@pytest.mark.parametrize("row", ABLATIONS)
def test_every_row_of_the_ablation_table_is_settings_alone(row):
    assert from_mapping(ModelSettings, to_mapping(ablation(row))) == ablation(row)


def test_rows_of_the_ablation_table_differ_as_they_say():
    assert ablation("cnn-only").encoder.join == "raw"
    assert ablation("vit-only").encoder.join == "vit"
    assert ablation("cnn+vit").attention.mask == "none"
    assert ablation("salvit") == preset("salvit-resnet50")
    assert ablation("salvit-without-ml").morphology.mode == "off"
    assert ablation("salvit-without-pe").attention.position == "none"
    assert ablation("dino-with-vit").attention.mask == "none"
    assert ablation("dino-with-salvit") == preset("salvit-dino-s16")


def test_unknown_names_and_keys_are_refused():
    with pytest.raises(ValueError, match="known: salvit-resnet50"):
        preset("salvit-vgg")
    with pytest.raises(ValueError, match="known: cnn-only"):
        ablation("gnn")
    with pytest.raises(ValueError, match=r"attention\.betta"):
        from_mapping(ModelSettings, {"attention": {"betta": 1.0}})
    with pytest.raises(ValueError, match=r"attention\.kernel"):
        from_mapping(ModelSettings, {"attention": {"kernel": "cosine"}})


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="needs a transformer"):
        ModelSettings(saliency="attentiveness")
    with pytest.raises(ValueError, match="has no inverse"):
        HeadSettings(latent=1)
    with pytest.raises(ValueError, match="positive sizes"):
        HeadSettings(scales=())
    for wrong in ({"body": -1}, {"body": 3}):
        with pytest.raises(ValueError, match=r"encoder\.body must be at least 0, and needs encoder\.feature_channels"):
            EncoderSettings(**wrong)
    assert AttentionSettings(position="none").position == "none"
