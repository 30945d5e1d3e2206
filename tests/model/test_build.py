"""Building: every preset and row runs, and the parameters are the paper's."""

from dataclasses import replace

import pytest
import torch

from salvit.model.build import build_model, count_parameters
from salvit.model.settings import ABLATIONS, ModelSettings, ablation, preset


def test_default_model_has_the_papers_56_9_million_parameters():
    counts = count_parameters(build_model(ModelSettings(), None))
    assert counts["total"] == sum(count for part, count in counts.items() if part != "total")
    assert round(counts["total"] / 1e6, 2) == 56.95
    assert counts["backbone"] == 23_508_032
    assert round(counts["localisation net"] / 1e6, 2) == 17.11


def test_a_finder_is_counted_and_built_for_the_models_grid_and_its_glance():
    settings = replace(preset("salvit-lite0", "light"), input_size=96)
    plain, finding = build_model(settings, None), build_model(replace(settings, finder=True), None)
    before, after = count_parameters(plain), count_parameters(finding)
    assert plain.finder is None and "finder" not in before
    own = sum(parameter.numel() for parameter in finding.finder.parameters())
    assert after == {**before, "finder": own, "total": before["total"] + own}
    assert finding.finder.grid_hw == finding.encoder.grid_hw and not finding.finder.training
    assert finding.finder.channels == finding.backbone.glance_channels == finding.backbone.channels


def test_a_finder_and_a_body_frame_are_for_salvit_alone():
    with pytest.raises(ValueError, match=r"model\.finder is for salvit; protonet looks at pictures as they are"):
        replace(preset("salvit-lite0", "light"), method="protonet", finder=True)
    framed = replace(preset("salvit-lite0", "light").encoder, body=4)
    with pytest.raises(ValueError, match=r"model\.encoder\.body is for salvit; protonet is compared as it is"):
        replace(preset("salvit-lite0", "light"), method="protonet", encoder=framed)


def test_a_body_frame_is_counted_by_itself_and_widens_what_the_head_reads():
    settings = replace(preset("salvit-lite0", "swift"), input_size=96)
    plain = build_model(settings, None)
    framed = build_model(replace(settings, encoder=replace(settings.encoder, body=4)), None)
    before, after = count_parameters(plain), count_parameters(framed)
    assert "body frame" not in before and after["total"] == sum(n for part, n in after.items() if part != "total")
    assert after["SalViT blocks"] == before["SalViT blocks"] and after["body frame"] > 0
    assert framed.encoder.channels == plain.encoder.channels + framed.encoder.body.channels


def test_narrow_models_fit_two_cores():
    counts = count_parameters(build_model(preset("salvit-lite0", "narrow"), None))
    salvit = counts["SalViT blocks"] + counts["saliency embedding"] + counts["parameter generator"]
    assert salvit <= 3_000_000
    assert counts["descriptor net"] + counts["localisation net"] <= 9_000_000


@pytest.mark.parametrize("row", ABLATIONS)
def test_every_row_of_the_ablation_table_runs(row):
    settings = replace(ablation(row), input_size=64)
    model = build_model(settings, None)
    with torch.no_grad():
        batch = model.prepare(torch.rand(1, 3, 64, 64), torch.rand(1, 64, 64))
        vectors, mask = torch.rand(1, 2, model.encoder.channels), torch.ones(1, 2, dtype=torch.bool)
        scales = model.search(model.ask(vectors, mask), model.encoder(batch).features)
    assert all(torch.isfinite(scale.logits).all() for scale in scales)
    counts = count_parameters(model)
    assert (counts["saliency embedding"] > 0) == (row in ("salvit", "salvit-without-pe", "dino-with-salvit"))


def test_an_input_that_does_not_fit_the_backbone_is_refused():
    for size in (100, 32):
        with pytest.raises(ValueError, match="multiple of 32 and at least 64"):
            build_model(replace(ModelSettings(), input_size=size), None)


def test_frozen_parts_get_no_gradient_and_stay_in_inference_mode():
    model = build_model(replace(preset("salvit-resnet50", "narrow"), input_size=64), None).train()
    batch = model.prepare(torch.rand(2, 3, 64, 64), torch.rand(2, 64, 64))
    points, mask = torch.rand(2, 3, 2) * 63, torch.ones(2, 3, dtype=torch.bool)
    output = model(batch, points, mask, batch)
    sum(scale.logits.square().sum() for scale in output.scales).backward()
    trained = {name for name, parameter in model.backbone.named_parameters() if parameter.grad is not None}
    assert trained
    assert all(name.startswith("stages.3.") for name in trained)
    assert not model.backbone.stages[2].training
    assert model.backbone.stages[3].training
    assert not model.eval().backbone.stages[3].training
