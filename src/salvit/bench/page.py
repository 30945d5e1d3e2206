"""What a correction on the page costs beside the encoding of pictures, saving and telling included."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch

from salvit.data.creatures import KEYPOINTS, SPECIES, draw_creature
from salvit.model.detector import SalViT
from salvit.projects import Change, Project
from salvit.web.limits import Limits
from salvit.web.site import Site, build_site
from salvit.web.uploads import scan_folder

_PICTURES, _DRAWN, _KEYPOINTS, _ROUNDS = 100, 10, 11, 5


def run() -> dict[str, float]:
    """``correct_over_encode_5``: one keypoint found again in 100 encoded pictures / encoding 5; with ``match`` too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        figures: dict[str, float] = {}
        for model, prefix in (("lite", ""), ("match", "match_")):
            with tempfile.TemporaryDirectory() as folder:
                figures |= {prefix + name: figure for name, figure in _measure(Path(folder), model).items()}
        return figures
    finally:
        torch.set_num_threads(threads)


def _measure(folder: Path, model: str) -> dict[str, float]:
    site = _site(folder)
    keypoints = [site.project.add_keypoint(name) for name in KEYPOINTS[:_KEYPOINTS]]
    first = site.project.picture(1)["objects"][0]["id"]
    places = [Change(first, keypoint, "placed", 60.0 + 40 * n, 240.0) for n, keypoint in enumerate(keypoints)]
    site.project.mark(places)
    site.project.change_settings({"live": True, "model": model})
    site.worker.request("detect")
    site.worker.work_off()
    correcting, encoding = [], []
    for number in range(_ROUNDS):
        correcting.append(_time_correction(site, number + 2, keypoints[0]))
        encoding.append(_time_encoding(site, start=10 * number))
    site.project.store.close()
    return {
        "correct_over_encode_5": statistics.median(correcting) / statistics.median(encoding),
        "correct_ms": 1000 * statistics.median(correcting),
        "encode_5_ms": 1000 * statistics.median(encoding),
    }


def _site(folder: Path) -> Site:
    drawn = [draw_creature(SPECIES[n % len(SPECIES)], seed=n).image for n in range(_DRAWN)]
    for number in range(_PICTURES):
        drawn[number % _DRAWN].save(folder / f"{number:03d}.jpg", quality=92)
    project = Project(folder)
    scan_folder(project, Limits())
    return build_site(project, Limits(), device="cpu")


def _time_correction(site: Site, image: int, keypoint: int) -> float:
    """Place one point of one picture, as the page does, until it is found again in all others."""
    thing = site.project.picture(image)["objects"][0]["id"]
    start = time.perf_counter()
    site.tell_pictures(site.project.mark([Change(thing, keypoint, "placed", 100.0 + image, 200.0)]))
    site.worker.corrected()
    site.worker.work_off()
    return time.perf_counter() - start


def _time_encoding(site: Site, start: int) -> float:
    """Read and encode five pictures as the worker does, what the head makes of them included, without keeping them."""
    targets, detector = site.engine.work.targets()[start : start + 5], site.engine.detector
    began = time.perf_counter()
    encoded = detector.encode([site.engine.fit(target) for target in targets])
    if isinstance(detector, SalViT):
        detector.look(encoded)
    return time.perf_counter() - began
