import errno
import os
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from salvit.checkpoint import (
    begin_with,
    check_backbone,
    frozen_sha256,
    load_checkpoint,
    optimizer_tensors,
    own_weights,
    put_optimizer,
    put_weights,
    save_checkpoint,
)
from salvit.model.build import build_model
from salvit.model.certainty import Calibration
from salvit.model.settings import preset
from salvit.recipes import Recipe


def step(layer, optimizer):
    layer(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_weights_optimiser_settings_and_state_come_back(tmp_path):
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    step(layer, optimizer)
    save_checkpoint(
        tmp_path / "c.safetensors", Recipe(), layer.state_dict(), optimizer_tensors(optimizer), {"episode": 7}
    )
    saved = load_checkpoint(tmp_path / "c.safetensors")
    assert saved.recipe == Recipe() and saved.state == {"episode": 7} and saved.version
    other = torch.nn.Linear(3, 2)
    put_weights(other, saved.weights)
    again = torch.optim.Adam(other.parameters(), lr=0.1)
    put_optimizer(again, saved.optimizer)
    for one, two in ((layer, optimizer), (other, again)):
        step(one, two)
    assert torch.equal(layer.weight, other.weight)


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, Recipe(), {"x": torch.zeros(3)}, {}, {"episode": 1})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"could not write.*is whole.*--resume"):
        save_checkpoint(path, Recipe(), {"x": torch.ones(3)}, {}, {"episode": 2})
    monkeypatch.undo()
    assert load_checkpoint(path).state == {"episode": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["c.safetensors"]


def test_a_really_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    """/dev/full refuses every byte; a link puts it in the way of the new file."""
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, Recipe(), {"x": torch.zeros(3)}, {}, {"episode": 1})
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    (tmp_path / f".c.safetensors.{os.getpid()}.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, Recipe(), {"x": torch.ones(3)}, {}, {"episode": 2})
    assert load_checkpoint(path).state == {"episode": 1}


def test_what_is_no_checkpoint_or_of_another_model_is_refused(tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"nonsense")
    for name in ("other.safetensors", "broken.safetensors"):
        with pytest.raises(ValueError, match="is not a checkpoint"):
            load_checkpoint(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "absent.safetensors")
    layer = torch.nn.Linear(3, 2)
    with pytest.raises(ValueError, match="lacks 'bias'"):
        put_weights(layer, {"weight": layer.weight})
    with pytest.raises(ValueError, match="has, and the model does not, 'more'"):
        put_weights(layer, {**layer.state_dict(), "more": torch.zeros(1)})


def small(*, finder=False, **more):
    settings = preset("salvit-lite0", "swift")
    backbone = replace(settings.backbone, **more)
    return build_model(replace(settings, input_size=64, backbone=backbone, finder=finder), None)


def test_a_second_training_begins_with_the_weights_of_a_first_that_kept_the_backbone_frozen():
    torch.manual_seed(0)
    first, second = small(), small(trained_blocks=8)
    blocks = {key: value.clone() for key, value in own_weights(second).items() if key.startswith(("backbone", "prior"))}
    begin_with(second, {key: value.half() for key, value in own_weights(first).items()})
    for key, value in own_weights(second).items():
        if key in blocks:
            assert torch.equal(value, blocks[key])
        else:
            assert torch.equal(value, own_weights(first)[key].half().float())
    trained = own_weights(small(trained_blocks=8))
    begin_with(second, trained)  # one that trained as much gives all
    assert all(torch.equal(value, trained[key]) for key, value in own_weights(second).items())


def test_a_second_training_begins_with_a_first_that_had_no_finder_and_its_own_finder_stays():
    torch.manual_seed(0)
    first, second = small(), small(finder=True)
    fresh = {key: value.clone() for key, value in own_weights(second).items() if key.startswith("finder.")}
    assert fresh and not any(key in fresh for key in own_weights(first))
    begin_with(second, own_weights(first))
    for key, value in own_weights(second).items():
        assert torch.equal(value, fresh[key] if key in fresh else own_weights(first)[key])
    taught = own_weights(small(finder=True))
    begin_with(second, taught)  # one that had a finder gives it too
    assert all(torch.equal(value, taught[key]) for key, value in own_weights(second).items())


def test_a_model_that_also_reads_dinov2_begins_with_what_one_on_lite0_alone_makes_of_a_picture():
    torch.manual_seed(0)
    settings = preset("salvit-joined", "swift")
    backbone = replace(settings.backbone, trained_blocks=8)
    first, second = small(trained_blocks=8), build_model(replace(settings, input_size=64, backbone=backbone), None)
    begin_with(second, own_weights(first))
    for part in (first, second):
        part.eval()
    second.backbone.lite0.load_state_dict(first.backbone.state_dict())
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        alone, beside = first.prepare(images), second.prepare(images)
        torch.testing.assert_close(beside.saliency, alone.saliency)
        made = [model.encoder(batch).features for model, batch in ((first, alone), (second, beside))]
    assert beside.raw.shape[1] == alone.raw.shape[1] + 384
    torch.testing.assert_close(made[1], made[0], rtol=1e-4, atol=1e-5)
    begin_with(second, own_weights(second))  # one of its own kind stays as it is
    with torch.no_grad():
        torch.testing.assert_close(second.encoder(beside).features, made[1])


def test_a_model_of_another_kind_is_no_start():
    weights = own_weights(small())
    with pytest.raises(ValueError, match=r"start from lacks 'descriptor.bias'"):
        begin_with(small(), {key: value for key, value in weights.items() if key != "descriptor.bias"})
    with pytest.raises(ValueError, match=r"start from has, and this model does not, 'more'"):
        begin_with(small(), weights | {"more": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"'descriptor.bias' has the shape \(4,\).*\(3, 9\) here"):
        begin_with(small(), weights | {"descriptor.bias": torch.zeros(4)})


CALIBRATION = Calibration(
    temperature=2.75, spread=1.2, cell=0.0, radii=(0.7, 2.0, 3.7), right=(-0.9, 0.8, 0.8), presence=(0.0, 0.1, 0.2, 1.0)
)


def test_a_calibration_comes_back_and_a_file_without_one_has_none(tmp_path):
    save_checkpoint(tmp_path / "c.safetensors", Recipe(), {"x": torch.zeros(3)}, {}, {}, calibration=CALIBRATION)
    assert load_checkpoint(tmp_path / "c.safetensors").calibration == CALIBRATION
    save_checkpoint(tmp_path / "plain.safetensors", Recipe(), {"x": torch.zeros(3)}, {}, {})
    assert load_checkpoint(tmp_path / "plain.safetensors").calibration is None


def test_a_model_on_another_frozen_backbone_is_refused(tmp_path):
    settings = replace(preset("salvit-lite0", "light"), input_size=64)
    recipe = replace(Recipe(), model=settings)
    model = build_model(settings, None)
    state = {"episode": 1, "backbone_sha256": frozen_sha256(model)}
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, recipe, own_weights(model), {}, state)
    saved = load_checkpoint(path)
    with torch.no_grad():
        model.descriptor.project.bias += 1  # its own weights are in the file
    check_backbone(model, saved, path)
    with torch.no_grad():
        next(model.backbone.parameters())[0] += 1e-3
    with pytest.raises(ValueError, match=r"was trained on lite0 with weights .* another file of that network"):
        check_backbone(model, saved, path)
    check_backbone(model, replace(saved, state={"episode": 1}), path)  # an older file does not say
