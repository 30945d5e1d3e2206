"""Maps of a SalViT, whose weights are random: their shapes and places, not their sense."""

import base64
from dataclasses import replace

import numpy as np
import pytest

MARKS = {"nose": (60.0, 80.0), "tail": (250.0, 150.0)}


@pytest.fixture(scope="module")
def match():
    """In place of the default detector: a small SalViT."""
    import torch

    from salvit.model.build import build_model
    from salvit.model.settings import preset

    torch.manual_seed(0)
    settings = preset("salvit-lite0")
    settings = replace(
        settings,
        input_size=128,
        attention=replace(settings.attention, heads=2, head_channels=32),
        morphology=replace(settings.morphology, embedding_width=32, embedding_channels=32, hidden=32),
        encoder=replace(settings.encoder, token_channels=96, vit_channels=96),
        head=replace(settings.head, channels=64, descriptor_channels=128),
    )
    return build_model(settings, None)


def values(view):
    return np.frombuffer(base64.b64decode(view["values"]), dtype=np.uint8).reshape(view["shape"])


def test_a_salvit_gives_saliency_its_shape_attention_and_a_grid_for_each_scale(client, mark, match):
    names = mark(1, **MARKS)
    answer = client.get("/api/objects/2/views").json()
    grids = {f"probability_{size}" for size in match.settings.head.scales}
    assert set(answer["views"]) == {"saliency", "shaped_saliency", "attention"} | grids
    assert answer["keypoints"] == sorted(names.values())
    for name in grids:
        side = int(name.removeprefix("probability_"))
        assert values(answer["views"][name]).shape == (2, side, side)


def test_attention_from_a_clicked_patch_is_the_row_of_that_patch(client, mark, site, match):
    mark(1, **MARKS)
    here = client.get("/api/objects/2/views/at", params={"x": 20, "y": 30}).json()["views"]
    there = client.get("/api/objects/2/views/at", params={"x": 300, "y": 200}).json()["views"]
    assert set(here) == {"alike", "attention"}
    assert not np.array_equal(values(here["attention"]), values(there["attention"]))


def test_a_salvit_finds_learns_and_refines_through_the_same_calls(client, mark, finish):
    mark(1, **MARKS)
    assert finish(client.post("/api/jobs", json={}).json()["id"])["state"] == "done"
    assert finish(client.post("/api/jobs", json={"kind": "transductive"}).json()["id"])["state"] == "done"
    for image in (2, 3, 4, 5):
        assert len(client.get(f"/api/pictures/{image}").json()["objects"][0]["points"]) == 2
    assert client.get("/api/pack").status_code == 200


def test_trained_files_are_offered_and_others_are_not(tmp_path):
    import torch

    from salvit.checkpoint import FORMAT
    from salvit.tensor_files import write_tensors
    from salvit.web.models import present_models

    write_tensors(tmp_path / "mine.safetensors", {"a": torch.zeros(1)}, FORMAT, {})
    write_tensors(tmp_path / "pack.safetensors", {"a": torch.zeros(1)}, "salvit-pack-1", {})
    (tmp_path / "broken.safetensors").write_bytes(b"cut")
    trained = [model["name"] for model in present_models([tmp_path]) if model["kind"] == "trained"]
    assert trained == [str(tmp_path / "mine.safetensors")]
