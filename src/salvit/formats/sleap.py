"""SLEAP's .slp files, read and written by sleap-io. Pixel centres are integers, as they are here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from salvit.data.support import MarkedImage, Support
from salvit.formats.targets import by_picture, partial_name, require, size_of
from salvit.types import BoolArray

Pairs = tuple[tuple[str, str], ...]


def read(path: Path) -> Support:
    """Read the frames of image sequences; frames of films are left out and named, with what to do.

    In a frame that a person marked, what a detector found does not count.
    """
    sleap_io = require("sleap_io", ".slp files")
    try:
        labels = sleap_io.load_slp(str(path), open_videos=False)
    except Exception as problem:  # h5py and sleap-io have many kinds of errors for a broken file
        raise ValueError(f"{path} is not a .slp file that SLEAP wrote: {problem}") from problem
    problems: list[str] = []
    images: list[MarkedImage] = []
    for frame in labels.labeled_frames:
        picture = _picture(frame.video, int(frame.frame_idx), path)
        if picture is None:
            what = f"frame {frame.frame_idx} of {frame.video.filename}"
            sentence = f"{path.name}: {what} lies in a film; save it as a picture first (sleap-io, ffmpeg); left out"
            problems.append(sentence)
            continue
        shape = frame.video.backend_metadata.get("shape") if frame.video.backend_metadata else None
        image_hw = (int(shape[1]), int(shape[2])) if shape and shape[1] and shape[2] else None
        for instance in frame.user_instances or frame.predicted_instances:
            images.append(_marked(instance, picture, image_hw))
    links, pairs = _links(labels.skeletons)
    return Support(tuple(images), links, problems, pairs)


def write(support: Support, path: Path) -> list[str]:
    """Write pictures as image sequences, one for each size, and their marks; scores make predicted instances."""
    sleap_io = require("sleap_io", ".slp files")
    skeleton = _skeleton(sleap_io, support)
    problems: list[str] = []
    by_size: dict[tuple[int, int], list[Path]] = {}
    pictures = by_picture(support)
    for picture, objects in pictures.items():
        try:
            by_size.setdefault(size_of(objects[0]), []).append(picture)
        except (OSError, ValueError) as problem:
            problems.append(f"{problem}; left out")
    videos, frames = [], []
    for (height, width), sequence in by_size.items():
        video = _sequence(sleap_io, [picture.resolve().as_posix() for picture in sequence], height, width)
        videos.append(video)
        for number, picture in enumerate(sequence):
            instances = [_instance(sleap_io, skeleton, marked) for marked in pictures[picture]]
            frames.append(sleap_io.LabeledFrame(video=video, frame_idx=number, instances=instances))
    labels = sleap_io.Labels(labeled_frames=frames, videos=videos, skeletons=[skeleton])
    partial = partial_name(path)
    try:
        sleap_io.save_slp(labels, str(partial), embed=False, verbose=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return problems


def _sequence(sleap_io: Any, files: list[str], height: int, width: int) -> Any:
    """An image sequence, stated as sleap-io states one that it opened: no picture need be decoded for it."""
    facts = {
        "type": "ImageVideo",
        "shape": [len(files), height, width, 3],
        "filename": files[0],
        "filenames": files,
        "height_": height,
        "width_": width,
        "channels_": 3,
        "grayscale": False,
    }
    return sleap_io.Video(filename=files, backend_metadata=facts, open_backend=False)


def _picture(video: Any, frame: int, path: Path) -> Path | None:
    """The file of a frame of an image sequence; where it moved, the one of that name beside the .slp file."""
    if not isinstance(video.filename, list) or not 0 <= frame < len(video.filename):
        return None
    stated = Path(str(video.filename[frame]).replace("\\", "/"))
    places = (path.parent / stated, path.parent / stated.name)
    return next((place for place in places if place.is_file()), places[0])


def _marked(instance: Any, picture: Path, image_hw: tuple[int, int] | None) -> MarkedImage:
    points = np.asarray(instance.numpy(), dtype=np.float64)[:, :2]
    marked: BoolArray = np.asarray(np.isfinite(points).all(1))
    scores = None
    if hasattr(instance, "score"):  # only what a detector found has one
        scores = np.where(marked, np.nan_to_num(np.asarray(instance.points["score"], dtype=np.float64)), 0.0)
    return MarkedImage(
        path=picture,
        names=tuple(instance.skeleton.node_names),
        points=np.where(marked[:, None], points, 0.0),
        marked=marked,
        image_hw=image_hw,
        scores=scores,
    )


def _instance(sleap_io: Any, skeleton: Any, marked: MarkedImage) -> Any:
    points = np.full((len(skeleton.nodes), 2), math.nan)
    scores = np.zeros(len(skeleton.nodes))
    for n in np.flatnonzero(marked.marked):
        points[skeleton.node_names.index(marked.names[n])] = marked.points[n]
        if marked.scores is not None:
            scores[skeleton.node_names.index(marked.names[n])] = marked.scores[n]
    if marked.scores is None:
        return sleap_io.Instance.from_numpy(points, skeleton=skeleton)
    mean = float(marked.scores[marked.marked].mean()) if marked.marked.any() else 0.0
    return sleap_io.PredictedInstance.from_numpy(points, skeleton=skeleton, point_scores=scores, score=mean)


def _skeleton(sleap_io: Any, support: Support) -> Any:
    nodes = {name: sleap_io.Node(name) for name in support.names}
    edges = [sleap_io.Edge(nodes[a], nodes[b]) for a, b in support.skeleton if a in nodes and b in nodes]
    mirrored = [sleap_io.Symmetry([nodes[a], nodes[b]]) for a, b in support.pairs if a in nodes and b in nodes]
    return sleap_io.Skeleton(nodes=list(nodes.values()), edges=edges, symmetries=mirrored, name="object")


def _links(skeletons: Any) -> tuple[Pairs, Pairs]:
    """Links and left/right pairs of all skeletons, by name; a pair is in the order of the skeleton's nodes."""
    links, pairs = [], []
    for skeleton in skeletons:
        links += [(edge.source.name, edge.destination.name) for edge in skeleton.edges]
        for symmetry in skeleton.symmetries:
            first, second = sorted((node.name for node in symmetry.nodes), key=skeleton.node_names.index)
            pairs.append((first, second))
    return tuple(dict.fromkeys(links)), tuple(dict.fromkeys(pairs))
