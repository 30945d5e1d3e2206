"""A saliency provider by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from salvit.saliency.provider import NoSaliency, Provider

ProviderName = Literal["attentiveness", "rbd", "learned", "spectral_residual", "onnx", "files", "none"]
NAMES: tuple[str, ...] = get_args(ProviderName)


def build_provider(
    name: str, *, network: Path | None = None, maps: Path | None = None, images: Path | None = None
) -> Provider:
    """Build a provider.

    Args:
        name: One of :data:`NAMES`.
        network: For ``onnx``: the network's file, with a sidecar ``NAME.toml`` beside it.
        maps: For ``files``: the folder of the maps; None where they lie beside the images.
        images: For ``files``: the folder of the images that ``maps`` mirrors.
    """
    if name != "onnx" and network is not None:
        raise ValueError(f"a network file is for the saliency provider 'onnx', not for {name!r}")
    if name != "files" and (maps is not None or images is not None):
        raise ValueError(f"folders of maps and images are for the saliency provider 'files', not for {name!r}")
    match name:
        case "none":
            return NoSaliency()
        case "rbd":
            from salvit.saliency.rbd import RobustBackground

            return RobustBackground()
        case "spectral_residual":
            from salvit.saliency.spectral_residual import SpectralResidual

            return SpectralResidual()
        case "learned":
            from salvit.saliency.learned import LearnedSaliency

            return LearnedSaliency()
        case "attentiveness":
            from salvit.saliency.attentiveness import Attentiveness

            return Attentiveness()
        case "files":
            from salvit.saliency.files import FileSaliency

            return FileSaliency(maps, images)
        case "onnx":
            from salvit.saliency.onnx_network import OnnxSaliency

            if network is None:
                raise ValueError("the saliency provider 'onnx' needs the network's file (--network FILE.onnx)")
            return OnnxSaliency(network)
    raise ValueError(f"unknown saliency provider {name!r}; known: {', '.join(NAMES)}")
