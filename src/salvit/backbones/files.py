"""Reads weight files of others safely: safetensors, torch files without classes, ONNX, and Keras' ResNet-50."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from salvit.backbones.base import Backbone


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a file of named tensors; nothing in it is ever executed."""
    match path.suffix:
        case ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        case ".pth" | ".pt" | ".bin":
            return _read_torch(path)
        case ".onnx":
            return _read_onnx(path)
        case ".tgz":
            from salvit.backbones.keras import read_keras_resnet50

            return read_keras_resnet50(path)
    raise ValueError(
        f"{path}: expected a .safetensors, .pth, .pt, .bin, .onnx or .tgz file of weights, got {path.suffix!r}"
    )


def read_variant(path: Path) -> str | None:
    """Which variant of its network a file says that it is for; None where it says nothing."""
    if path.suffix == ".tgz":
        return "v1"
    if path.suffix != ".safetensors":
        return None
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return (file.metadata() or {}).get("variant")


def load_weights(backbone: Backbone, weights: Mapping[str, Tensor], source: str) -> None:
    """Put named tensors into a backbone; a key that does not fit, is missing or has another shape is an error."""
    own = backbone.state_dict()
    fitted: dict[str, Tensor] = {}
    for key, tensor in backbone.tensors_of_file(weights).items():
        name = backbone.key_of_file(key)
        if name is None:
            continue
        if name not in own:
            raise ValueError(
                f"{source}: the key {key!r} does not belong to {backbone.name}; is it another network's file?"
            )
        if own[name].shape != tensor.shape:
            raise ValueError(
                f"{source}: {key!r} has shape {tuple(tensor.shape)}, {backbone.name} expects {tuple(own[name].shape)}"
            )
        fitted[name] = tensor
    if missing := sorted(key for key in set(own) - set(fitted) if not key.endswith(_NOT_NEEDED)):
        raise ValueError(
            f"{source}: {len(missing)} weights of {backbone.name} are missing, the first is {missing[0]!r}"
        )
    for name in set(own) - set(fitted):
        fitted[name] = own[name]
    backbone.load_state_dict(fitted, strict=True)


_NOT_NEEDED = ("mask_token", "num_batches_tracked")
"""Endings of tensors that files may lack: no result depends on them."""


def hash_weights(module: nn.Module) -> str:
    """SHA-256 over names, shapes and values of a module's parameters and buffers."""
    import hashlib

    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read_torch(path: Path) -> dict[str, Tensor]:
    loaded = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model", "teacher"):
        if isinstance(loaded, dict) and isinstance(loaded.get(wrapper), dict):
            loaded = loaded[wrapper]
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise ValueError(f"{path}: expected a dictionary of tensors (a state_dict)")
    return loaded


def _read_onnx(path: Path) -> dict[str, Tensor]:
    """Read the weights of a ViT that Hugging Face's code exported under the scope ``backbone``.

    Export names biases and norms but not the matrices: a matrix belongs to the MatMul node that uses it, whose name is
    the layer's scope, and stands transposed. The position table was split into class token and patches.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    values = {item.name: torch.from_numpy(numpy_helper.to_array(item).copy()) for item in graph.initializer}
    weights = {name.removeprefix("backbone."): value for name, value in values.items() if name.startswith("backbone.")}
    for node in graph.node:
        if node.op_type == "MatMul" and node.name.startswith("/backbone/") and node.input[1] in values:
            scope = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            weights[scope + ".weight"] = values[node.input[1]].T.contiguous()
    used = {name: node for node in graph.node for name in node.input}
    positions = [
        values[name]
        for name in values
        if name.startswith("onnx::") and values[name].ndim == 3 and used[name].name.startswith("/backbone/embeddings/")
    ]
    if len(positions) == 2:
        weights["embeddings.position_embeddings"] = torch.cat(sorted(positions, key=lambda item: item.shape[1]), dim=1)
    if not weights:
        raise ValueError(f"{path}: found no weights under the scope 'backbone' in this ONNX file")
    return weights
