"""Reads the ResNet-50 of Keras from a TensorFlow.js model in a .tgz (an npm package); nothing in it is executed.

Keras' network differs from torchvision's. It takes BGR from 0 to 255 less a mean colour, its convolutions have biases,
its batch norm adds 1e-3 to the variance, and the 1×1 convolutions halve the grid. All but the mean colour, which its
zero padding stands for, and the last is folded into the weights here; those two are the variant ``v1`` of
:class:`salvit.backbones.resnet50.ResNet50`. The classifier is left out.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from salvit.backbones.resnet50 import STD

Arrays = dict[str, npt.NDArray[np.float32]]

_EPSILON = 1e-5
"""What batch norm of torch adds to the variance."""


def read_keras_resnet50(path: Path) -> dict[str, Tensor]:
    """Read such a package to tensors of :class:`salvit.backbones.resnet50.ResNet50`, variant ``v1``."""
    arrays, layers = read_layers_model(path)
    if (stride := layers.get("res3a_branch2a", {}).get("strides")) != [2, 2]:
        raise ValueError(
            f"{path}: expected Keras' ResNet-50, whose res3a_branch2a has strides [2, 2]; found {stride or 'no such'}"
        )
    tensors: dict[str, Tensor] = {}
    for key in arrays:
        layer, _, kind = key.partition("/")
        if kind != "kernel" or layer == "fc1000":
            continue
        place, norm = _place(layer)
        folded = _folded(arrays, layer, norm, layers[norm]["epsilon"])
        if layer == "conv1":  # blue first, and 0 to 255; ours takes (x - mean) / STD of x in 0 to 1
            scale = torch.tensor(STD).view(1, 3, 1, 1) * 255
            folded["convolution.weight"] = folded["convolution.weight"].flip(1) * scale
        tensors |= {f"{place}.{name}": value for name, value in folded.items()}
    return tensors


def read_layers_model(path: Path) -> tuple[Arrays, dict[str, dict[str, Any]]]:
    """The arrays of a TensorFlow.js layers model in a .tgz, by name, and each layer's settings, by its name."""
    files = _read_files(path)
    model = json.loads(files.get("model.json", b"{}"))
    if model.get("format") != "layers-model":
        raise ValueError(f"{path}: expected a package that holds a TensorFlow.js layers model (model.json and .bin)")
    layers = {layer["name"]: layer["config"] for layer in model["modelTopology"]["model_config"]["config"]["layers"]}
    arrays: Arrays = {}
    for group in model["weightsManifest"]:
        if missing := [name for name in group["paths"] if name not in files]:
            raise ValueError(f"{path}: model.json names {missing[0]}, which is not in the package")
        arrays |= _unpack(b"".join(files[name] for name in group["paths"]), group["weights"], path)
    return arrays, layers


def _read_files(path: Path) -> dict[str, bytes]:
    """The model's files, read in one pass: going back in a .tgz means unpacking it again."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(("/model.json", ".bin")):
                    content = archive.extractfile(member)
                    files[posixpath.basename(member.name)] = content.read() if content else b""
    except (tarfile.TarError, zlib.error, EOFError) as problem:
        raise ValueError(f"{path}: cannot be unpacked ({problem}); is the file whole?") from problem
    return files


def _unpack(content: bytes, entries: list[dict[str, Any]], path: Path) -> Arrays:
    """Arrays that stand one after the other in ``content``."""
    arrays: Arrays = {}
    start = 0
    for entry in entries:
        if entry["dtype"] != "float32" or "quantization" in entry:
            raise ValueError(f"{path}: {entry['name']} is not plain float32, which alone is read")
        count = math.prod(entry["shape"])
        if start + 4 * count > len(content):
            raise ValueError(f"{path}: ends before {entry['name']}; is the file whole?")
        arrays[entry["name"]] = np.frombuffer(content, "<f4", count, start).reshape(entry["shape"])
        start += 4 * count
    if start != len(content):
        raise ValueError(f"{path}: holds {len(content)} bytes of weights, model.json says {start}")
    return arrays


def _folded(arrays: Arrays, layer: str, norm: str, epsilon: float) -> dict[str, Tensor]:
    """A convolution and its batch norm as ours have them: the first without a bias, the second adding 1e-5.

        γ (w∗x + b − μ) / √(σ² + ε) + β  =  γ (w∗x − (μ − b)) / √((σ² + ε − 1e-5) + 1e-5) + β

    The two are the same function. In training, where statistics of the batch take the place of μ and σ², ε is 1e-5.
    """

    def tensor(key: str) -> Tensor:
        if key not in arrays:
            raise ValueError(f"the weights {key!r} of Keras' ResNet-50 are missing")
        return torch.from_numpy(arrays[key].astype(np.float64))

    return {
        "convolution.weight": tensor(f"{layer}/kernel").permute(3, 2, 0, 1).float().contiguous(),  # (out, in, h, w)
        "normalization.weight": tensor(f"{norm}/gamma").float(),
        "normalization.bias": tensor(f"{norm}/beta").float(),
        "normalization.running_mean": (tensor(f"{norm}/moving_mean") - tensor(f"{layer}/bias")).float(),
        "normalization.running_var": (tensor(f"{norm}/moving_variance") + epsilon - _EPSILON).float(),
    }


def _place(layer: str) -> tuple[str, str]:
    """Where a convolution of Keras stands in ours, and its batch norm: ``res4b_branch2c`` is ``stages.2.1.layer.2``."""
    if layer == "conv1":
        return "embedder.embedder", "bn_conv1"
    found = re.fullmatch(r"res([2-5])([a-f])_branch(1|2[abc])", layer)
    if found is None:
        raise ValueError(f"the layer {layer!r} does not belong to Keras' ResNet-50")
    stage, block, branch = found.groups()
    part = "shortcut" if branch == "1" else f"layer.{'abc'.index(branch[1])}"
    return f"stages.{int(stage) - 2}.{'abcdef'.index(block)}.{part}", f"bn{layer.removeprefix('res')}"
