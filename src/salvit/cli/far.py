"""``salvit demo --far``: pictures that are neither mammals nor birds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from salvit.demo.far import Task
    from salvit.types import Detector


def show_far(folder: Path, model: str | None, pictures: Path | None) -> None:
    """Look for each kind's points, say how many lie within a tenth of the object, and draw all on one sheet."""
    from salvit.demo.far import draw_far_sheet, write_tasks
    from salvit.predict import load

    tasks, missing = write_tasks(folder, pictures)
    for sentence in missing:
        typer.secho(sentence, fg="yellow", err=True)
    if not tasks:
        raise ValueError("none of the pictures is here; install scikit-image and matplotlib, which carry most of them")
    detector = load(model)
    drawn = []
    for task in tasks:
        right, file = _look(detector, task, folder)
        what = f"{task.kind.name}: {right} of {len(task.truth)} points" + (
            "" if task.kind.query else ", same picture turned"
        )
        typer.echo(what)
        drawn.append((what, file))
    sheet = draw_far_sheet(drawn, folder / "far.jpg")
    typer.echo(f"{detector.name}, within 0.1 of the object's longer side; all of them on one sheet: {sheet.resolve()}")


def _look(detector: Detector, task: Task, folder: Path) -> tuple[int, Path]:
    """How many points are right, and the drawing."""
    import numpy as np

    from salvit.data.images import read_image
    from salvit.data.support import read_support
    from salvit.draw import draw_detection
    from salvit.predict import detect, examples, learn
    from salvit.queries import Query
    from salvit.types import Detection

    marked = read_support(task.support)
    pack = learn(detector, marked, cropped=True)
    (found,) = detect(detector, pack, [Query(task.query, task.box)])
    assert isinstance(found, Detection)
    (x1, y1, x2, y2), order = task.box, [task.kind.names.index(name) for name in found.names]
    distance = np.linalg.norm(found.points - task.truth[order], axis=1)
    file = folder / f"{task.kind.name}-found.jpg"
    (example,) = examples(detector, marked, cropped=True)
    draw_detection(read_image(task.query), found, example).save(file, quality=88)
    return int((distance <= 0.1 * max(x2 - x1, y2 - y1)).sum()), file
