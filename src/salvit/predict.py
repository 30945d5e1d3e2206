"""Image files in, keypoints out. Start reading here.

The road that the command line, the page and the tests take: load a detector, learn a pack from marked pictures, detect
its keypoints in other pictures.
"""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from salvit.data.images import MAX_PIXELS, SUFFIXES, VIDEO_SUFFIXES, read_and_fit
from salvit.data.support import MarkedImage, Support, drop_outside, read_support
from salvit.geometry import Window
from salvit.packs import check_pack
from salvit.types import Detection, Detector, Example, Failure, FittedImage, Pack

if TYPE_CHECKING:
    from salvit.model.detector import SalViT


def load(name: str = "match", *, device: str = "auto") -> Detector:
    """Load a detector by name.

    Args:
        name: ``match`` (nearest features of lite0), ``match:BACKBONE``, or a file that ``salvit train`` wrote.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    """
    from salvit.backbones import build_backbone
    from salvit.baselines.match import Match

    if name.endswith(".safetensors"):
        return load_trained(Path(name), device=device)
    method, _, backbone = name.partition(":")
    if method != "match":
        raise ValueError(
            f"unknown model {name!r}; known: match, match:lite0, match:dinov2-s14, or a .safetensors file of your own "
            "training"
        )
    return Match(build_backbone(backbone or "lite0").to(choose_device(device)))


def load_trained(path: Path, *, device: str = "auto") -> SalViT:
    """Load a SalViT that ``salvit train`` wrote; the weights of its frozen backbone must be on this machine."""
    from salvit.checkpoint import load_checkpoint, put_weights
    from salvit.model.build import build_model

    saved = load_checkpoint(path)
    model = build_model(saved.recipe.model)
    put_weights(model, saved.weights)
    return model.to(choose_device(device)).eval()


def choose_device(device: str) -> str:
    """The device to run on: the best present one for ``auto``; one that is not present is an error."""
    import torch

    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(kind for kind in ("cuda", "mps", "cpu") if present[kind])
    kind = device.partition(":")[0]
    if not present.get(kind, False):
        raise ValueError(
            f"device {device!r} is not present; present: {', '.join(k for k, has in present.items() if has)}"
        )
    return device


def learn(detector: Detector, support: Support | Path | str, *, cropped: bool = False) -> Pack:
    """Learn a pack from marked pictures.

    Args:
        detector: Who learns.
        support: A support file, or what was read from one; what had to be left out is added to its ``problems``.
        cropped: Crop each picture to its object's box (or to the hull of its points), as queries with a box are.
    """
    support = support if isinstance(support, Support) else read_support(support)
    usable = examples(detector, support, cropped=cropped)
    if not usable:
        raise ValueError(f"no marked picture can be used: {'; '.join(support.problems[:3]) or 'none was given'}")
    return replace(detector.learn(usable), skeleton=support.skeleton)


def examples(detector: Detector, support: Support, *, cropped: bool = False) -> list[Example]:
    """Read and fit the marked pictures; what cannot be used is added, once, to ``support.problems``."""
    usable, problems = [], []
    prior = _prior(detector)
    for marked in support.images:
        try:
            example, lost = _example(detector, marked, cropped, prior)
        except (OSError, ValueError) as problem:
            problems.append(f"{problem}; this picture is left out")
            continue
        problems.extend(lost)
        if example.visible.any():
            usable.append(example)
    support.problems.extend(problem for problem in problems if problem not in support.problems)
    return usable


def detect(
    detector: Detector,
    pack: Pack,
    queries: Sequence[Path | str],
    *,
    box: Window | None = None,
    batch: int = 8,
    min_score: float = 0.0,
    max_pixels: int = MAX_PIXELS,
) -> Iterator[Detection | Failure]:
    """Find the keypoints of a pack in image files, in order; a file that cannot be searched gives a :class:`Failure`.

    Args:
        detector: Who looks.
        pack: What to look for.
        queries: Image files.
        box: Look only inside this box (xyxy, edge coordinates) of every picture.
        batch: Pictures that go through the network together.
        min_score: Abstain where the score is lower.
        max_pixels: Refuse larger pictures.
    """
    check_pack(pack, detector)
    prior = _prior(detector)

    def read(path: Path) -> FittedImage | Failure:
        try:
            return prior(read_and_fit(path, detector.input_size, box, max_pixels=max_pixels))
        except (OSError, ValueError) as problem:
            return Failure(path, str(problem))

    waiting: list[tuple[Path, FittedImage | Failure]] = []
    for item in _read_ahead(read, [Path(query) for query in queries], ahead=2 * batch):
        waiting.append(item)
        if sum(isinstance(image, FittedImage) for _, image in waiting) == batch:
            yield from _locate(detector, pack, waiting, box, min_score)
            waiting = []
    yield from _locate(detector, pack, waiting, box, min_score)


def find_images(queries: Sequence[str]) -> tuple[list[Path], list[Failure]]:
    """Turn files, folders (searched to any depth) and glob patterns into image files, each once, in a fixed order."""
    found: dict[Path, None] = {}
    failures: list[Failure] = []
    for query in queries:
        path = Path(query)
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
            if not inside:
                failures.append(
                    Failure(path, f"{path}: the folder holds no image; expected {', '.join(SUFFIXES[:6])} …")
                )
            found.update(dict.fromkeys(inside))
        elif path.is_file():
            found[path] = None
        else:
            matches = [Path(name) for name in sorted(glob.glob(query, recursive=True))]
            files = [file for file in matches if file.suffix.lower() in SUFFIXES + VIDEO_SUFFIXES and file.is_file()]
            if not files:
                failures.append(Failure(path, f"{query}: no such file or folder, and no image fits it as a pattern"))
            found.update(dict.fromkeys(files))
    return list(found), failures


def _prior(detector: Detector) -> Callable[[FittedImage], FittedImage]:
    """What adds saliency to a picture, where the detector wants one."""
    if detector.name.startswith("match:"):
        return lambda image: image
    from salvit.priors import provider_of, with_saliency

    provider = provider_of(detector)
    return lambda image: with_saliency(image, provider)


def _example(
    detector: Detector, marked: MarkedImage, cropped: bool, prior: Callable[[FittedImage], FittedImage]
) -> tuple[Example, list[str]]:
    box = (marked.box or _hull(marked)) if cropped else None
    image = prior(read_and_fit(marked.path, detector.input_size, box))
    assert image.image_hw is not None
    marked, problems = drop_outside(marked, image.image_hw)
    return Example(image, marked.names, image.fit.to_input(marked.points), marked.marked), problems


def _hull(marked: MarkedImage) -> Window:
    points = marked.points[marked.marked]
    (x1, y1), (x2, y2) = points.min(0), points.max(0) + 1.0
    by = 0.1 * max(x2 - x1, y2 - y1)
    return (float(x1 - by), float(y1 - by), float(x2 + by), float(y2 + by))


def _locate(
    detector: Detector,
    pack: Pack,
    items: Sequence[tuple[Path, FittedImage | Failure]],
    box: Window | None,
    min_score: float,
) -> Iterator[Detection | Failure]:
    images = [image for _, image in items if isinstance(image, FittedImage)]
    prediction = detector.detect(pack, images) if images else None
    row = 0
    for path, image in items:
        if isinstance(image, Failure):
            yield image
            continue
        assert prediction is not None and image.image_hw is not None
        yield Detection(
            path=path,
            image_hw=image.image_hw,
            names=prediction.names,
            points=prediction.points[row],
            scores=prediction.scores[row],
            presence=prediction.presence[row],
            covariances=prediction.covariances[row],
            located=np.asarray(prediction.known & (prediction.scores[row] >= min_score)),
            box=box,
        )
        row += 1


def _read_ahead(
    read: Callable[[Path], FittedImage | Failure], paths: Sequence[Path], ahead: int
) -> Iterator[tuple[Path, FittedImage | Failure]]:
    """Read files in another thread, at most ``ahead`` before their turn: decoding costs no time beside the network."""
    pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="decode")
    under_way: deque[tuple[Path, Future[FittedImage | Failure]]] = deque()
    try:
        for path in paths:
            under_way.append((path, pool.submit(read, path)))
            if len(under_way) > ahead:
                first, future = under_way.popleft()
                yield first, future.result()
        while under_way:
            first, future = under_way.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
