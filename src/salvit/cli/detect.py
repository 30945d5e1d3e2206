"""``salvit detect`` and ``salvit demo``."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from salvit.data.support import Support
    from salvit.detections import DetectionWriter
    from salvit.types import Detection, Detector, Example, Failure, Pack

SOME_FAILED = 3
"""Exit code where some pictures or marks could not be used, and the rest were."""
_ROWS_SHOWN = 60


def detect(
    support: Path = typer.Option(..., help="Marked pictures: COCO keypoints JSON, or CSV image,keypoint,x,y."),
    query: list[str] = typer.Option(..., help="Where to look: an image, a folder or a pattern; may be given again."),
    more: list[str] = typer.Argument(None, help="Further images, folders or patterns.", metavar="[PATH]..."),
    model: str = typer.Option("match", help="match, or match:dinov2-s14 (see `salvit weights`)."),
    box: str | None = typer.Option(None, help="X1,Y1,X2,Y2 in pixels: look only there, in every query."),
    out: Path | None = typer.Option(None, help="Write the detections to this JSON file (COCO keypoints)."),
    draw: Path | None = typer.Option(None, help="Write a picture for each query into this folder."),
    min_score: float = typer.Option(0.0, help="Abstain from points that score lower (0 to 1)."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    batch: int = typer.Option(8, min=1, help="Pictures that go through the network together."),
    threads: int = typer.Option(0, min=0, help="Threads for the network; 0: as many as the machine has."),
    max_megapixels: float = typer.Option(100.0, help="Refuse larger pictures before decoding them."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
) -> None:
    """Find the points that are marked on one to five pictures in all other pictures."""
    from salvit.data.support import read_support
    from salvit.predict import detect as detect_files
    from salvit.predict import find_images, learn, load

    paths, failures = find_images([*query, *(more or [])])
    window = _parse_box(box) if box else None
    if out is not None:
        from salvit.detections import check_output

        check_output(out, overwrite)
    if draw is not None:
        _check_folder(draw)
    marked = read_support(support)
    _limit_threads(threads)
    detector = load(model, device=device)
    pack = learn(detector, marked, cropped=window is not None)
    results = detect_files(
        detector, pack, paths, box=window, batch=batch, min_score=min_score, max_pixels=int(max_megapixels * 1e6)
    )
    example = _first_example(detector, marked, window is not None) if draw else None
    failures += _run(results, len(paths), pack, out, draw, example, overwrite)
    _report(marked, failures, out, draw)


def demo(
    folder: Path = typer.Argument(Path("salvit-demo"), help="Where to write the JSON and the pictures."),
) -> None:
    """Do the main job on pictures that come with salvit: creatures that its own generator drew."""
    from salvit.demo import demo_queries, demo_support

    out, draw = folder / "detections.json", folder / "pictures"
    detect(
        support=demo_support(),
        query=[str(path) for path in demo_queries()],
        more=[],
        model="match",
        box=None,
        out=out,
        draw=draw,
        min_score=0.0,
        device="auto",
        batch=8,
        threads=0,
        max_megapixels=100.0,
        overwrite=True,
    )
    from salvit.demo import draw_sheet

    sheet = draw_sheet(sorted(draw.glob("*.jpg")), folder / "demo.jpg")
    typer.echo(f"all of them on one sheet: {sheet.resolve()}")


def _run(
    results: Iterator[Detection | Failure],
    total: int,
    pack: Pack,
    out: Path | None,
    draw: Path | None,
    example: Example | None,
    overwrite: bool,
) -> list[Failure]:
    """Take results as they come: write, draw, keep the first for the table. Ctrl-C saves what was done."""
    from contextlib import nullcontext

    from salvit.cli.progress import track
    from salvit.detections import open_detections
    from salvit.types import Failure

    failures: list[Failure] = []
    shown: list[Detection] = []
    drawn: set[Path] = set()
    writing: AbstractContextManager[DetectionWriter | None] = (
        open_detections(out, pack, overwrite=overwrite) if out else nullcontext()
    )
    try:
        with writing as writer:
            for result in track(results, total, "looking"):
                if isinstance(result, Failure):
                    failures.append(result)
                    continue
                if writer is not None:
                    writer.write(result)
                if draw is not None:
                    failures += _draw(result, example, draw, drawn, overwrite)
                if len(shown) * len(result.names) < _ROWS_SHOWN:
                    shown.append(result)
    except KeyboardInterrupt:
        where = f"; what was found until then is in {out}" if out else ""
        typer.secho(f"interrupted{where}", fg="yellow", err=True)
        raise typer.Exit(130) from None
    _print_table(shown, total)
    return failures


def _draw(result: Detection, example: Example | None, folder: Path, drawn: set[Path], overwrite: bool) -> list[Failure]:
    """Draw one result; files of this run never share a name, files from before are left alone."""
    from salvit.data.images import read_image
    from salvit.draw import draw_detection
    from salvit.types import Failure

    names = (f"{result.path.stem}{f'-{n}' if n > 1 else ''}.jpg" for n in count(1))
    target = next(folder / name for name in names if folder / name not in drawn)
    if target.exists() and not overwrite:
        return [Failure(result.path, f"{target} exists, so {result.path} was not drawn; --overwrite replaces it")]
    drawn.add(target)
    folder.mkdir(parents=True, exist_ok=True)
    draw_detection(read_image(result.path), result, example).save(target, quality=90)
    return []


def _print_table(shown: list[Detection], total: int) -> None:
    from rich.console import Console
    from rich.table import Table

    if not shown:
        return
    table = Table("picture", "keypoint", "x", "y", "± px", "score", title="points found", title_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    for found in shown:
        for n, name in enumerate(found.names):
            label = found.path.name if n == 0 else ""
            if not found.located[n]:
                table.add_row(label, name, "—", "—", "—", f"{found.scores[n]:.2f}", style="dim")
                continue
            x, y = found.points[n]
            spread = float((found.covariances[n].trace() / 2) ** 0.5)
            table.add_row(label, name, f"{x:.1f}", f"{y:.1f}", f"{spread:.0f}", f"{found.scores[n]:.2f}")
        table.add_section()
    Console().print(table)
    if len(shown) < total:
        typer.echo(f"({len(shown)} of {total} pictures shown)")


def _report(marked: Support, failures: list[Failure], out: Path | None, draw: Path | None) -> None:
    for problem in marked.problems:
        typer.secho(f"support: {problem}", fg="yellow", err=True)
    for failure in failures:
        typer.secho(f"failed: {failure.reason}", fg="red", err=True)
    if out is not None:
        typer.echo(f"detections: {out.resolve()}")
    if draw is not None:
        typer.echo(f"pictures: {draw.resolve()}")
    if failures or marked.problems:
        raise typer.Exit(SOME_FAILED)


def _first_example(detector: Detector, marked: Support, cropped: bool) -> Example | None:
    from salvit.predict import examples

    return next(iter(examples(detector, marked, cropped=cropped)), None)


def _parse_box(text: str) -> tuple[float, float, float, float]:
    parts = text.split(",")
    try:
        x1, y1, x2, y2 = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"--box {text}: expected four numbers X1,Y1,X2,Y2 in pixels") from None
    if not (x1 < x2 and y1 < y2):
        raise ValueError(f"--box {text}: expected X1 < X2 and Y1 < Y2")
    return (x1, y1, x2, y2)


def _check_folder(folder: Path) -> None:
    from salvit.detections import check_output

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--draw {folder}: is a file; expected a folder")
    check_output(folder / "picture.jpg", overwrite=True)


def _limit_threads(threads: int) -> None:
    if threads:
        import torch

        torch.set_num_threads(threads)
