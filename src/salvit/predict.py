"""Image files in, keypoints out. Start reading here.

The road that the command line, the page and the tests take: load a detector, learn a pack from marked pictures, detect
its keypoints in other pictures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from salvit.data.images import BOX_MARGIN, MAX_PIXELS, read_and_fit
from salvit.data.splits import Pairs, pairs_from_names
from salvit.data.support import MarkedImage, Support, drop_outside, drop_outside_crop, read_support
from salvit.flip import check_pairs, learn_both_ways, lone_sides, look_mirrored, merge, pairs_at_one_place
from salvit.geometry import Window
from salvit.near import FindObjects, finder_of, show_near
from salvit.packs import check_pack
from salvit.queries import Query, find_images
from salvit.released import DEFAULT, load_released
from salvit.released import NAMES as RELEASED
from salvit.suggest import MARKED, describe
from salvit.types import Detection, Detector, Encoded, Example, Failure, FittedImage, Pack, Prediction
from salvit.zoom import Prior, nearer, nearer_pack, with_nearer

__all__ = ["Query", "choose_device", "detect", "examples", "find_images", "learn", "load", "load_trained"]

if TYPE_CHECKING:
    from salvit.model.detector import SalViT
    from salvit.model.settings import Decoding


def load(name: str | None = None, *, device: str = "auto") -> Detector:
    """Load a detector by name.

    Args:
        name: ``lite`` (trained, comes with salvit), ``dino`` (where it came too), ``match`` (nearest features of
            lite0), ``match:BACKBONE``, or a file that ``salvit train`` wrote; None: ``lite``.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    """
    from salvit.backbones import build_backbone
    from salvit.baselines.match import Match

    name = name or DEFAULT
    if name in RELEASED:
        return load_released(name, device=device)
    if name.endswith(".safetensors"):
        return load_trained(Path(name), device=device)
    method, _, backbone = name.partition(":")
    if method != "match":
        raise ValueError(
            f"unknown model {name!r}; known: {', '.join(RELEASED)}, match, match:lite0, match:dinov2-s14, or a "
            ".safetensors file of your own training"
        )
    return Match(build_backbone(backbone or "lite0").to(choose_device(device)))


def load_trained(path: Path, *, device: str = "auto") -> SalViT:
    """Load a SalViT or a compared method that ``salvit train`` wrote; its frozen backbone must be on this machine."""
    from salvit.baselines.build import build_method
    from salvit.checkpoint import check_backbone, load_checkpoint, put_weights

    saved = load_checkpoint(path)
    model = build_method(saved.recipe.model)
    check_backbone(model, saved, path)
    put_weights(model, saved.weights)
    model.calibration = saved.calibration
    return model.to(choose_device(device)).eval()


def decoded_by(detector: Detector, decoding: Decoding | None) -> Detector:
    """The same detector, its places found in another way (``head.decoding``); None: its own way."""
    from salvit.model.detector import SalViT

    if decoding is None:
        return detector
    if not isinstance(detector, SalViT):
        raise ValueError(f"decoding is for a trained network; {detector.name} has no scales to decode")
    return detector.decoded_by(decoding)


def conclusions_of(detector: Detector) -> str:
    """What changes a model's points and their certainty, but not its features, in words; of ``match`` nothing does."""
    from salvit.model.detector import SalViT

    if not isinstance(detector, SalViT):
        return ""
    head = detector.settings.head
    filters = f" filters {head.filter_gain:g}" if head.filter_gain else ""
    corrections = f" corrections {head.correction:g}" if head.correction else ""
    parts = " parts" if head.parts else ""
    return f"{head.decoding}{filters}{corrections}{parts} {detector.calibration}"


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


def learn(
    detector: Detector,
    support: Support | Path | str,
    *,
    cropped: bool = False,
    pairs: Pairs | None = None,
    zoom: bool = False,
    both_ways: bool | None = None,
) -> Pack:
    """Learn a pack from marked pictures.

    Args:
        detector: Who learns.
        support: A support file of any format, or what was read from one; what had to be left out is added to its
            ``problems``.
        cropped: Crop each picture to its object's box (or to the hull of its points), as queries with a box are.
        pairs: Left/right pairs of names; None: those that the file states, or else those that the names tell.
        zoom: Learn the pictures near their marks too, for a second look.
        both_ways: Learn the mirrored pictures too, sides exchanged; None: where there are left/right pairs. Without
            them it is not known whether two names mean two sides, which mirroring would then mix up.
    """
    support = support if isinstance(support, Support) else read_support(support)
    usable = examples(detector, support, cropped=cropped)
    if not usable:
        raise ValueError(f"no marked picture can be used: {'; '.join(support.problems[:3]) or 'none was given'}")
    names = tuple(dict.fromkeys(name for example in usable for name in example.names))
    if pairs is None:
        stated = tuple(pair for pair in support.pairs if set(pair) <= set(names))
        pairs = stated or pairs_from_names(names)
    pairs = check_pairs(tuple(pairs), names)
    encoded = detector.encode([example.image for example in usable])
    one_way = lone_sides(names, pairs, support.pairs)

    def teach(shown: Sequence[Example], known: Encoded | None = None) -> Pack:
        if bool(pairs) if both_ways is None else both_ways:
            return learn_both_ways(detector, shown, pairs, known, one_way=one_way)
        return detector.learn(shown, known)

    pack = teach(usable, encoded)
    if zoom:
        pack = with_nearer(teach, pack, usable, _prior(detector))
    return replace(
        pack,
        skeleton=support.skeleton,
        pairs=pairs,
        is_cropped=cropped,
        extra={**pack.extra, MARKED: torch.from_numpy(describe(encoded)).float()},
    )


def examples(detector: Detector, support: Support, *, cropped: bool = False) -> list[Example]:
    """Read and fit the marked pictures; what cannot be used is added, once, to ``support.problems``."""
    usable, problems = [], []
    prior = _prior(detector)
    for marked in support.images:
        if not marked.marked.any():
            continue
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
    queries: Sequence[Path | str | Query],
    *,
    box: Window | Literal["saliency"] | None = None,
    batch: int = 8,
    min_score: float = 0.0,
    max_pixels: int = MAX_PIXELS,
    flip: bool = False,
    describe: bool = False,
    zoom: bool = False,
) -> Iterator[Detection | Failure]:
    """Find the keypoints of a pack in image files, in order; a file that cannot be searched gives a :class:`Failure`.

    Args:
        detector: Who looks.
        pack: What to look for.
        queries: Image files, or :class:`Query` for an object in a box of its own.
        box: Look only inside this box (xyxy, edge coordinates) of every picture that has none of its own;
            ``saliency``: in the window of what stands out there.
        batch: Pictures that go through the network together.
        min_score: Abstain where the score or the presence is lower.
        max_pixels: Refuse larger pictures.
        flip: Look in the mirrored picture too, and merge both ways with left and right exchanged.
        describe: Give each detection its ``descriptor``, which suggestions need.
        zoom: Look twice, nearer where the keypoints were found at first; the pack must be made for it.
    """
    check_pack(pack, detector)
    prior = _prior(detector)
    read = _reader(detector, box, max_pixels, prior)
    second = nearer_pack(pack) if zoom else None
    look = _Look(detector, pack, min_score, flip, describe, finder_of(detector), second, prior, max_pixels)
    wanted = [query if isinstance(query, Query) else Query(Path(query)) for query in queries]
    waiting: list[_Item] = []
    for item in _read_ahead(read, wanted, ahead=2 * batch):
        waiting.append(item)
        if sum(isinstance(item, _Seen) for item in waiting) == batch:
            yield from _locate(look, waiting)
            waiting = []
    yield from _locate(look, waiting)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A query whose picture was read."""

    query: Query
    image: FittedImage
    box: Window | None


_Item = _Seen | Failure


def _reader(
    detector: Detector, box: Window | Literal["saliency"] | None, max_pixels: int, prior: Prior
) -> Callable[[Query], _Item]:
    """What reads and fits the picture of a query, or says why it cannot."""
    salient = _salient_box(max_pixels) if box == "saliency" else None

    def read(query: Query) -> _Item:
        try:
            own, margin = query.box or (None if box == "saliency" else box), BOX_MARGIN
            if own is None and salient is not None:
                own, margin = salient(query.path), 0.0  # its own margin is in it
            image = read_and_fit(query.path, detector.input_size, own, max_pixels=max_pixels, margin=margin)
            return _Seen(query, prior(image), own)
        except (OSError, ValueError) as problem:
            return Failure(query.path, str(problem))

    return read


def _salient_box(max_pixels: int) -> Callable[[Path], Window]:
    from salvit.priors import saliency_box
    from salvit.saliency import build_provider

    provider = build_provider("learned")
    return lambda path: saliency_box(path, provider, max_pixels=max_pixels)


def _prior(detector: Detector) -> Prior:
    """What adds saliency to a picture, where the detector wants one."""
    if detector.name.startswith("match:"):
        return lambda image: image
    from salvit.priors import provider_for_pictures, with_saliency

    provider = provider_for_pictures(detector)
    return lambda image: with_saliency(image, provider)


def _example(detector: Detector, marked: MarkedImage, cropped: bool, prior: Prior) -> tuple[Example, list[str]]:
    box = (marked.box or _hull(marked)) if cropped else None
    image = read_and_fit(marked.path, detector.input_size, box)
    assert image.image_hw is not None
    marked, problems = drop_outside(marked, image.image_hw)
    if box is None and (find := finder_of(detector)) is not None and marked.marked.any():
        (image,) = show_near(find, [image], [marked.points[marked.marked]])
    image = prior(image)
    if cropped:
        marked, more = drop_outside_crop(marked, image.fit.window)
        problems += more
    return Example(image, marked.names, image.fit.to_input(marked.points), marked.marked), problems


def _hull(marked: MarkedImage) -> Window:
    points = marked.points[marked.marked]
    (x1, y1), (x2, y2) = points.min(0), points.max(0) + 1.0
    by = 0.1 * max(x2 - x1, y2 - y1)
    return (float(x1 - by), float(y1 - by), float(x2 + by), float(y2 + by))


@dataclass(frozen=True, slots=True)
class _Look:
    """Who looks for what, and how."""

    detector: Detector
    pack: Pack
    min_score: float
    flip: bool
    describe: bool
    find: FindObjects | None
    """How objects are found in pictures that were given without a box, where the detector does so."""
    nearer: Pack | None
    """What to look with the second time, where there is one."""
    prior: Prior
    max_pixels: int

    def first(self, seen: Sequence[_Seen]) -> list[FittedImage]:
        """The pictures as they are looked at first: in their boxes, or near what is found in them."""
        images = [item.image for item in seen]
        if self.find is None or all(item.box is not None for item in seen):
            return images
        whole = [item.image for item in seen if item.box is None]
        near = iter(show_near(self.find, whole, max_pixels=self.max_pixels))
        return [self.prior(next(near)) if item.box is None else item.image for item in seen]

    def again(self, images: Sequence[FittedImage], first: Prediction) -> list[FittedImage]:
        """The pictures near what was found in them at first."""
        pairs = zip(images, first.points, strict=True)
        return [nearer(image, found[first.known], self.prior, max_pixels=self.max_pixels) for image, found in pairs]


def _locate(look: _Look, items: Sequence[_Item]) -> Iterator[Detection | Failure]:
    seen = [item for item in items if isinstance(item, _Seen)]
    found = iter(_look(look, seen) if seen else ())
    for item in items:
        yield item if isinstance(item, Failure) else next(found)


def _look(look: _Look, seen: Sequence[_Seen]) -> Iterator[Detection]:
    detector, pack, images = look.detector, look.pack, look.first(seen)
    encoded = detector.encode(images)
    prediction = detector.locate(pack, encoded)
    descriptors = describe(encoded) if look.describe else None
    if look.nearer is not None:
        pack, images = look.nearer, look.again(images, prediction)
        prediction = detector.locate(pack, detector.encode(images))
    warnings: list[tuple[str, ...]] = [()] * len(seen)
    if look.flip:
        prediction, warnings = merge(prediction, look_mirrored(detector, pack, images), pack.pairs)
    for row, item in enumerate(seen):
        assert item.image.image_hw is not None
        located = prediction.located(row, look.min_score)
        yield Detection(
            path=item.query.path,
            image_hw=item.image.image_hw,
            names=prediction.names,
            points=prediction.points[row],
            scores=prediction.scores[row],
            presence=prediction.presence[row],
            covariances=prediction.covariances[row],
            located=located,
            box=item.box,
            index=item.query.index,
            warnings=warnings[row] + pairs_at_one_place(prediction, row, located, pack.pairs),
            descriptor=None if descriptors is None else descriptors[row],
        )


def _read_ahead(read: Callable[[Query], _Item], queries: Sequence[Query], ahead: int) -> Iterator[_Item]:
    """Read files in another thread, at most ``ahead`` before their turn: decoding costs no time beside the network."""
    pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="decode")
    under_way: deque[Future[_Item]] = deque()
    try:
        for query in queries:
            under_way.append(pool.submit(read, query))
            if len(under_way) > ahead:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
