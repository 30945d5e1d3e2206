"""The provider ``onnx``: any saliency network as an ONNX file, with a small sidecar that says how to feed it.

It is the way in for MNL, SCRN, WScribble or U²-Net: export the network, write ``NAME.toml`` beside ``NAME.onnx``.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from salvit.config import from_mapping
from salvit.saliency.provider import Map, Picture, check_picture, resize_map, stretch


@dataclass(frozen=True, kw_only=True)
class OnnxSettings:
    """The sidecar of an ONNX file: how its input is made and its output is read."""

    input_hw: tuple[int, int]
    """Height and width that pictures are scaled to (without keeping their shape, as such networks are trained)."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    """Taken from the RGB values in [0, 1] …"""
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """… which are then divided by this."""
    order: Literal["rgb", "bgr"] = "rgb"
    """The order of the colours that the network takes; mean and std stay in the order R, G, B."""
    scale: Literal["255", "max"] = "255"
    """What pixels are divided by: 255, or the picture's brightest value (as U²-Net's own code does)."""
    output: int = 0
    """Which of the network's outputs is the map."""
    channel: int = 0
    """Which channel of that output."""
    activation: Literal["none", "sigmoid", "stretch"] = "none"
    """What brings the output to [0, 1]: nothing, a sigmoid, or stretching between its least and greatest value."""

    def __post_init__(self) -> None:
        if min(self.input_hw) < 1:
            raise ValueError(f"input_hw: expected a positive height and width, got {self.input_hw}")
        if min(self.std) <= 0:
            raise ValueError(f"std: expected positive values, got {self.std}")


class OnnxSaliency:
    """The provider ``onnx``."""

    name = "onnx"

    def __init__(self, path: Path, settings: OnnxSettings | None = None) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist; expected an ONNX file of a saliency network")
        self.path = path
        self.network_settings = read_sidecar(path) if settings is None else settings
        self._session = _open_session(path)
        self._input = self._session.get_inputs()[0].name
        self._hash = hashlib.sha256(path.read_bytes()).hexdigest()

    @property
    def settings(self) -> str:
        """The network's hash and its sidecar."""
        return f"network={self._hash} {self.network_settings}"

    @property
    def num_parameters(self) -> int:
        """Values of the network's float tensors."""
        import onnx

        initialisers = onnx.load(str(self.path)).graph.initializer
        return sum(math.prod(tensor.dims) for tensor in initialisers if tensor.data_type == onnx.TensorProto.FLOAT)

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture."""
        batch = network_input(check_picture(picture), self.network_settings)
        outputs = self._session.run(None, {self._input: batch})
        return resize_map(self._read_output(outputs), picture.shape[:2])

    def _read_output(self, outputs: list[Any]) -> Map:
        chosen = self.network_settings
        if chosen.output >= len(outputs):
            raise ValueError(f"{self.path} has {len(outputs)} outputs; its sidecar asks for number {chosen.output}")
        values = np.asarray(outputs[chosen.output], dtype=np.float32)
        if values.ndim != 4 or values.shape[0] != 1 or chosen.channel >= values.shape[1]:
            raise ValueError(
                f"{self.path}: output {chosen.output} has shape {values.shape}; expected (1, channels, height, width) "
                f"with more than {chosen.channel} channels"
            )
        plain: Map = np.nan_to_num(values[0, chosen.channel], nan=0.0, posinf=1.0, neginf=0.0)
        match chosen.activation:
            case "sigmoid":
                return np.asarray(1 / (1 + np.exp(-np.clip(plain, -60, 60))), dtype=np.float32)
            case "stretch":
                return stretch(plain)
        return plain


def network_input(picture: Picture, settings: OnnxSettings) -> npt.NDArray[np.float32]:
    """A picture (H, W, 3) to a batch (1, 3, height, width) as the sidecar says."""
    size = (settings.input_hw[1], settings.input_hw[0])
    scaled = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0))
    brightest = 255.0 if settings.scale == "255" else max(float(scaled.max()), 1.0)
    colours = (scaled.astype(np.float32) / brightest - np.array(settings.mean)) / np.array(settings.std)
    if settings.order == "bgr":
        colours = colours[..., ::-1]
    return np.ascontiguousarray(colours.transpose(2, 0, 1)[None], dtype=np.float32)


def read_sidecar(path: Path) -> OnnxSettings:
    """Read ``NAME.toml`` beside ``NAME.onnx``."""
    sidecar = path.with_suffix(".toml")
    if not sidecar.is_file():
        raise FileNotFoundError(
            f"{sidecar} does not exist; write it to say how {path.name} is fed, for example: input_hw = [320, 320]"
        )
    try:
        values = tomllib.loads(sidecar.read_text(encoding="utf-8"))
        return from_mapping(OnnxSettings, values)
    except ValueError as problem:  # includes TOML errors
        raise ValueError(f"{sidecar}: {problem}") from problem


def _open_session(path: Path) -> Any:
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as problem:  # onnxruntime raises classes of its own, one for each cause
        raise ValueError(f"{path}: not an ONNX network that can be run ({problem})") from problem
