"""``salvit detect`` and ``salvit demo``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from salvit.cli.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from salvit.data.support import Support
    from salvit.detections import DetectionWriter
    from salvit.queries import Query
    from salvit.suggest import Candidate
    from salvit.types import Detection, Detector, Example, Failure, Pack

_ROWS_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Job:
    """What ``salvit detect`` was asked to do."""

    query: tuple[str, ...]
    support: Path | None = None
    pack: Path | None = None
    model: str | None = None
    box: str | None = None
    boxes: Path | None = None
    out: Path | None = None
    format: str | None = None
    draw: Path | None = None
    min_score: float = 0.0
    flip: bool = False
    zoom: bool = False
    pairs: str | None = None
    suggest: int = 0
    transductive: bool = False
    device: str = "auto"
    batch: int = 8
    threads: int = 0
    max_megapixels: float = 100.0
    resume: bool = False
    overwrite: bool = False

    @property
    def settings(self) -> dict[str, object]:
        """What decides what is found, besides the pack."""
        import hashlib

        boxes = hashlib.sha256(self.boxes.read_bytes()).hexdigest() if self.boxes else None
        told = {"box": self.box, "boxes": boxes, "flip": self.flip, "min_score": self.min_score, "zoom": self.zoom}
        return {**told, "suggest": self.suggest > 0, "transductive": self.transductive}


def detect(
    query: list[str] = typer.Option(None, help="Where to look: image, folder, pattern, box file; may be given again."),
    more: list[str] = typer.Argument(None, help="Further images, folders or patterns.", metavar="[PATH]..."),
    support: Path | None = typer.Option(None, help="Marked pictures: COCO, CSV, DeepLabCut, SLEAP, Ultralytics …"),
    pack: Path | None = typer.Option(None, help="What `salvit learn` wrote, instead of --support."),
    model: str | None = typer.Option(
        None, help="lite, dino, match, match:BACKBONE (`salvit weights list`), or a file."
    ),
    box: str | None = typer.Option(None, help="X1,Y1,X2,Y2 in pixels: look only there; saliency: where something is."),
    boxes: Path | None = typer.Option(None, help="A box for each object: COCO, or CSV image,x1,y1,x2,y2."),
    out: Path | None = typer.Option(None, help="Write the detections to this file; its ending tells the format."),
    format: str | None = typer.Option(
        None, help="coco, csv, deeplabcut, sleap, ultralytics or label-studio, where the ending does not tell."
    ),
    draw: Path | None = typer.Option(None, help="Write a picture for each query into this folder."),
    min_score: float = typer.Option(0.0, min=0, max=1, help="Abstain from points whose score or presence is lower."),
    flip: bool = typer.Option(False, "--flip", help="Look at the mirrored picture too and merge; twice the time."),
    zoom: bool = typer.Option(False, "--zoom", help="Look again, nearer where the points were found; twice the time."),
    pairs: str | None = typer.Option(None, help="LEFT:RIGHT,…, where the names do not tell; none: no pairs."),
    suggest: int = typer.Option(0, min=0, help="Name this many pictures that are worth marking next."),
    transductive: bool = typer.Option(False, "--transductive", help="Let the pictures help each other: look twice."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    batch: int = typer.Option(8, min=1, help="Pictures that go through the network together."),
    threads: int = typer.Option(0, min=0, help="Threads for the network; 0: as many as the machine has."),
    max_megapixels: float = typer.Option(100.0, min=0.01, help="Refuse larger pictures before decoding them."),
    resume: bool = typer.Option(False, "--resume", help="Go on with a run of the same command that did not finish."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
) -> None:
    """Find the points that are marked on one to five pictures in all other pictures."""
    asked = dict(locals())
    run(Job(query=(*(asked.pop("query") or ()), *(asked.pop("more") or ())), **asked))


def demo(
    folder: Path = typer.Argument(Path("salvit-demo"), help="Where to write the JSON and the pictures."),
    far: bool = typer.Option(False, "--far", help="Faces, garments, machines … of other installed packages instead."),
    model: str | None = typer.Option(None, help="lite, dino, match, match:BACKBONE, or a file."),
    pictures: Path | None = typer.Option(None, help="With --far: a folder with OpenCV's sample butterfly.jpg."),
) -> None:
    """Do the main job on pictures that come with salvit: creatures that its own generator drew."""
    if far:
        from salvit.cli.far import show_far

        show_far(folder, model, pictures)
        return
    if pictures is not None:
        raise ValueError(f"--pictures {pictures} is for --far, which shows other pictures; add --far, or leave it out")
    from salvit.demo import demo_queries, demo_support, draw_sheet

    out, draw = folder / "detections.json", folder / "pictures"
    queries = tuple(str(path) for path in demo_queries())
    run(Job(query=queries, support=demo_support(), model=model, out=out, draw=draw, overwrite=True))
    sheet = draw_sheet(sorted(draw.glob("*.jpg")), folder / "demo.jpg")
    typer.echo(f"all of them on one sheet: {sheet.resolve()}")


def run(job: Job) -> None:
    """Do a job, and say what was found, what looks wrong, what failed and where everything is."""
    from salvit.cli.detect_output import report, warn
    from salvit.predict import load
    from salvit.queries import find_queries

    if (job.support is None) == (job.pack is None):
        raise ValueError("expected either --support FILE or --pack FILE")
    if not job.query and job.boxes is None:
        raise ValueError("nowhere to look: expected --query IMAGE, FOLDER or PATTERN, or --boxes FILE")
    if job.transductive and (job.flip or job.resume or job.zoom):
        raise ValueError("--transductive looks at all pictures together: it goes without --flip, --resume and --zoom")
    window = _parse_box(job.box) if job.box and job.box != "saliency" else job.box
    _check_outputs(job)
    queries, failures = find_queries(job.query, job.boxes)
    if not queries:
        reasons = "; ".join(failure.reason for failure in failures[:5]) or f"{job.boxes} names none"
        raise ValueError(f"there is no picture to look in: {reasons}")
    if job.threads:
        import torch

        torch.set_num_threads(job.threads)
    is_cropped = window is not None or any(query.box for query in queries)
    marked, pack = _given(job)
    detector = load(_model_name(job, pack), device=job.device)
    if marked is not None:
        from salvit.predict import learn

        pack = learn(detector, marked, cropped=is_cropped, pairs=parse_pairs(job.pairs), zoom=job.zoom)
    assert pack is not None
    warn(pack, marked, is_cropped)
    example = _first_example(detector, marked, is_cropped) if job.draw and marked else None
    more, has_found = _search(job, detector, pack, queries, window, example)
    report(marked, failures + more, job.out, job.draw, has_found)


def _given(job: Job) -> tuple[Support | None, Pack | None]:
    """The marked pictures, or the pack."""
    if job.pack is not None:
        from salvit.packs import load_pack

        if job.pairs is not None:
            raise ValueError("--pairs belongs to `salvit learn`: a pack has its own")
        return None, load_pack(job.pack)
    from salvit.data.support import read_support

    assert job.support is not None
    return read_support(job.support), None


def _model_name(job: Job, pack: Pack | None) -> str:
    """The model that was asked for, or the one that made the pack."""
    from salvit.released import DEFAULT, NAMES

    if job.model is not None or pack is None:
        return job.model or DEFAULT
    if pack.model.startswith("match") or pack.model in NAMES:
        return pack.model
    raise ValueError(f"the pack was made by {pack.model}; name its file with --model FILE.safetensors")


def _search(
    job: Job,
    detector: Detector,
    pack: Pack,
    queries: list[Query],
    window: tuple[float, float, float, float] | str | None,
    example: Example | None,
) -> tuple[list[Failure], bool]:
    """Take results as they come: write, draw, keep the first for the table. Ctrl-C saves what was done.

    Gives what failed, and whether anything was found, by this run or by the one that it goes on with.
    """
    from salvit.cli.detect_output import Artist, print_suggestions, print_table, print_warnings
    from salvit.cli.progress import track
    from salvit.types import Failure

    failures: list[Failure] = []
    shown: list[Detection] = []
    warned: list[Detection] = []
    candidates: list[Candidate] = []
    artist = Artist(job.draw, queries, example, job.overwrite or job.resume) if job.draw else None
    try:
        with _opened(job, detector, pack) as writer:
            left = [query for query in queries if writer is None or not writer.has(query.path, query.index)]
            for result in track(_results(job, detector, pack, left, window), len(left), "looking"):
                if isinstance(result, Failure):
                    failures.append(result)
                    continue
                _keep(result, writer, pack, candidates)
                failures += artist.draw(result) if artist is not None else []
                warned += [result] if result.warnings else []
                if len(shown) * len(result.names) < _ROWS_SHOWN:
                    shown.append(result)
    except KeyboardInterrupt:
        where = f"; what was found until then is in {job.out}, and --resume goes on" if job.out else ""
        typer.secho(f"interrupted{where}", fg="yellow", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if len(left) < len(queries):
        typer.echo(f"{len(queries) - len(left)} of {len(queries)} were done by the run before")
    print_table(shown, len(left), pack.known.tolist())
    print_warnings(warned)
    if job.suggest:
        print_suggestions(candidates if writer is None else writer.candidates, pack, job.suggest)
    failures += [Failure(job.out or Path(), problem) for problem in (writer.problems if writer else ())]
    return failures, bool(shown) or len(left) < len(queries)


def _results(
    job: Job,
    detector: Detector,
    pack: Pack,
    queries: list[Query],
    window: tuple[float, float, float, float] | str | None,
) -> Iterator[Detection | Failure]:
    """What is found, as it comes: each picture alone, or all together."""
    from functools import partial

    from salvit.predict import detect
    from salvit.together import detect_together

    look = detect_together if job.transductive else partial(detect, zoom=job.zoom)
    return look(
        detector,
        pack,
        queries,
        box=window,  # type: ignore[arg-type]
        batch=job.batch,
        min_score=job.min_score,
        max_pixels=int(job.max_megapixels * 1e6),
        flip=job.flip,
        describe=job.suggest > 0,
    )


def _opened(job: Job, detector: Detector, pack: Pack) -> AbstractContextManager[DetectionWriter | None]:
    from contextlib import nullcontext

    from salvit.detections import open_detections
    from salvit.predict import conclusions_of

    if job.out is None:
        return nullcontext()
    return open_detections(
        job.out,
        pack,
        format=job.format,
        overwrite=job.overwrite,
        resume=job.resume,
        settings={**job.settings, "conclusions": conclusions_of(detector)},
    )


def _keep(result: Detection, writer: DetectionWriter | None, pack: Pack, candidates: list[Candidate]) -> None:
    """Write a result, or keep what suggestions need of it where nothing is written."""
    if writer is not None:
        writer.write(result)
    elif result.descriptor is not None:
        from salvit.suggest import candidate_of

        candidates.append(candidate_of(result, pack))


def _check_outputs(job: Job) -> None:
    """Refuse what could not be written before any work is done."""
    if job.out is not None:
        from salvit.detections import check_detections
        from salvit.formats import FORMATS, format_to_write

        if job.format is not None and job.format not in FORMATS:
            raise ValueError(f"--format {job.format}: expected one of {', '.join(FORMATS)}")
        told = "lines" if job.out.suffix == ".jsonl" else job.format or format_to_write(job.out)
        check_detections(job.out, told, overwrite=job.overwrite, resume=job.resume)
    elif job.resume or job.format:
        raise ValueError("--resume and --format are about the file of detections: expected --out FILE")
    if job.draw is not None:
        from salvit.formats import check_output

        if job.draw.exists() and not job.draw.is_dir():
            raise ValueError(f"--draw {job.draw}: is a file; expected a folder")
        check_output(job.draw / "picture.jpg", overwrite=True)


def _first_example(detector: Detector, marked: Support, cropped: bool) -> Example | None:
    from salvit.predict import examples

    return next(iter(examples(detector, marked, cropped=cropped)), None)


def _parse_box(text: str) -> tuple[float, float, float, float]:
    parts = text.split(",")
    try:
        x1, y1, x2, y2 = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"--box {text}: expected four numbers X1,Y1,X2,Y2 in pixels, or saliency") from None
    if not (x1 < x2 and y1 < y2):
        raise ValueError(f"--box {text}: expected X1 < X2 and Y1 < Y2")
    return (x1, y1, x2, y2)


def parse_pairs(text: str | None) -> tuple[tuple[str, str], ...] | None:
    """``left:right,left:right`` as pairs; ``none`` as no pairs; None where nothing was said."""
    if text is None:
        return None
    pairs = []
    for part in text.split(",") if text != "none" else ():
        left, colon, right = (word.strip() for word in part.partition(":"))
        if not (left and colon and right):
            raise ValueError(f"--pairs {text}: expected LEFT:RIGHT,LEFT:RIGHT, or none")
        pairs.append((left, right))
    return tuple(pairs)
