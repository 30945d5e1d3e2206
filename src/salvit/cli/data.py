"""``salvit data``: check, show, convert and freeze data sets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL import Image

    from salvit.saliency import Map
    from salvit.types import Record

app = typer.Typer(help="Check, show, convert and freeze data sets.", no_args_is_help=True)

NAME = typer.Argument(help="animal_pose, cub, nabirds, awa_pose, deepfashion2, ap10k, coco or creatures.")
ROOT = typer.Option(..., "--root", help="The data set's folder (for coco also its annotation file).")
UNSEEN = typer.Option(None, "--unseen", help="The unseen species (animal_pose, ap10k), or the list val or test.")
OVERWRITE = typer.Option(False, "--overwrite", help="Replace an existing file.")


class Sheet(StrEnum):
    """What a contact sheet shows."""

    keypoints = "keypoints"
    augment = "augment"
    episodes = "episodes"
    occlusions = "occlusions"


class CropName(StrEnum):
    """How the window of a record is chosen."""

    gt_random = "gt-random"
    gt_tight = "gt-tight"
    saliency = "saliency"
    none = "none"


class RoleName(StrEnum):
    """Parts of a problem."""

    train = "train"
    dev = "dev"
    report = "report"


@app.command()
def check(
    name: str = NAME,
    root: Path = ROOT,
    json: Path | None = typer.Option(None, "--json", help="Write everything to this file."),
) -> None:
    """Count images, records, species and keypoints, and everything that is wrong; every image is decoded."""
    from rich.console import Console
    from rich.table import Table

    from salvit.cli.progress import track
    from salvit.data.check import check_dataset
    from salvit.data.datasets import read_dataset

    found = check_dataset(read_dataset(name, root, keep_missing=True), track)
    console = Console()
    table = Table("what", "count")
    for key in ("images", "images_present", "records", "keypoints", "boxes", "boxes_from_points"):
        table.add_row(key.replace("_", " "), f"{found[key]:,}")
    lists = ", ".join(f"{part} {count}" for part, count in found["species_in_lists"].items())
    table.add_row("species", f"{len(found['species']):,}" + (f" ({lists})" if lists else ""))
    console.print(table)
    for problem, entry in found["problems"].items():
        console.print(f"{entry['count']:,} × {problem}, for example {entry['examples'][0]}", highlight=False)
    for note in found["differences"]:
        console.print(f"differs: {note}", highlight=False)
    if not found["problems"] and not found["differences"]:
        console.print("nothing is wrong")
    if json is not None:
        from json import dumps

        json.write_text(dumps(found, indent=2) + "\n", encoding="utf-8")


@app.command()
def show(
    name: str = NAME,
    root: Path = ROOT,
    what: Sheet = typer.Option(Sheet.keypoints, "--what", help="What the sheet shows."),
    out: Path = typer.Option(..., "--out", help="The PNG file to write."),
    unseen: str | None = UNSEEN,
    num: int = typer.Option(8, "--num", min=1, help="Records or episodes."),
    seed: int = typer.Option(0, "--seed", min=0),
    overwrite: bool = OVERWRITE,
) -> None:
    """Draw a contact sheet. Left keypoints are red, right ones blue, others green, auxiliary ones yellow."""
    _refuse_existing(out, overwrite)
    sheet = (
        _episode_sheet(name, root, unseen, num, seed)
        if what is Sheet.episodes
        else _record_sheet(name, root, what, num, seed)
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out)
    typer.echo(f"wrote {out} ({sheet.width}×{sheet.height})")


@app.command()
def convert(
    name: str = NAME,
    root: Path = ROOT,
    out: Path = typer.Option(..., "--out", help="The JSON file to write; image paths are relative to it."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Write a data set as a COCO keypoints file."""
    from json import dumps

    from salvit.data.datasets import read_dataset
    from salvit.data.export import to_coco
    from salvit.data.splits import read_split

    _refuse_existing(out, overwrite)
    dataset = read_dataset(name, root)
    skeleton = () if name == "coco" else read_split(name).skeleton
    out.parent.mkdir(parents=True, exist_ok=True)
    values = to_coco(dataset.records, out.parent, skeleton)
    out.write_text(dumps(values) + "\n", encoding="utf-8")
    left_out = ", ".join(f"{problem}: {count}" for problem, count in sorted(dataset.report.counts.items()))
    typer.echo(f"wrote {out}: {len(values['images'])} images, {len(values['annotations'])} annotations")
    if left_out:
        typer.echo(f"met on the way: {left_out}", err=True)


@app.command()
def freeze(
    name: str = NAME,
    root: Path = ROOT,
    out: Path = typer.Option(..., "--out", help="The list to write."),
    unseen: str | None = UNSEEN,
    dev_species: list[str] = typer.Option([], "--dev-species", help="Seen species to use as dev; may be repeated."),
    role: RoleName = typer.Option(RoleName.report, "--role", help="The part to draw from."),
    episodes: int = typer.Option(1000, "--episodes", min=1, help="Of each kind (novel and base)."),
    shots: int = typer.Option(1, "--shots", min=1),
    queries: int = typer.Option(5, "--queries", min=1),
    up_to: bool = typer.Option(False, "--up-to", help="Take all queries that a species has left where it has fewer."),
    crop: CropName = typer.Option(CropName.gt_random, "--crop", help="Drawn once for each record."),
    provider: str = typer.Option("learned", "--provider", help="With --crop saliency: where the maps come from."),
    seed: int = typer.Option(0, "--seed", min=0),
    overwrite: bool = OVERWRITE,
) -> None:
    """Draw episodes once and keep them, so that every method is scored on the same ones."""
    from salvit.data.episodes import EpisodeSettings
    from salvit.data.frozen import freeze as draw
    from salvit.data.frozen import write_frozen
    from salvit.data.splits import open_problem

    _refuse_existing(out, overwrite)
    problem = open_problem(name, root, unseen, dev_species=dev_species)
    for note in problem.notes:
        typer.echo(f"differs: {note}", err=True)
    settings = EpisodeSettings(shots=shots, queries=queries, is_up_to=up_to, crop=crop.value)
    saliency_of = _saliency_of(provider) if crop is CropName.saliency else None
    values = draw(problem, settings, episodes=episodes, seed=seed, role=role.value, saliency_of=saliency_of)
    write_frozen(values, out, overwrite=overwrite)
    typer.echo(f"wrote {out}: {len(values['episodes'])} episodes, {len(values['records'])} records")
    if up_to:
        counts = [len(row["queries"]) for row in values["episodes"]]
        typer.echo(f"queries of an episode: {min(counts)} to {max(counts)}, {sum(counts) / len(counts):.1f} on average")
    typer.echo(f"hash {values['hash']}")


def _saliency_of(provider: str) -> Callable[[Record], Map]:
    """Maps of records' pictures, made where they are asked for and kept on disk."""
    import numpy as np

    from salvit.data.images import read_image
    from salvit.saliency import build_provider
    from salvit.saliency.cache import CachedProvider

    kept = CachedProvider(build_provider(provider))
    return lambda record: kept(np.asarray(read_image(record.path)), record.path)


def _refuse_existing(out: Path, overwrite: bool) -> None:
    if out.exists() and not overwrite:
        raise ValueError(f"{out} exists; choose another name, or give --overwrite")


def _record_sheet(name: str, root: Path, what: Sheet, num: int, seed: int) -> Image.Image:
    import numpy as np

    from salvit.data.datasets import read_dataset
    from salvit.data.sheets import augment_sheet, keypoint_sheet, occlusion_sheet
    from salvit.data.splits import read_split

    records = [record for record in read_dataset(name, root).records if record.visible.any()]
    chosen = [records[index] for index in np.random.default_rng(seed).permutation(len(records))[:num]]
    split = None if name == "coco" else read_split(name)
    if what is Sheet.augment:
        return augment_sheet(chosen, split.pairs if split else (), seed)
    if what is Sheet.occlusions:
        return occlusion_sheet(chosen, 0.5, seed)
    return keypoint_sheet(chosen, split.skeleton if split else ())


def _episode_sheet(name: str, root: Path, unseen: str | None, num: int, seed: int) -> Image.Image:
    from salvit.data.augment import AugmentSettings
    from salvit.data.episodes import EpisodePool, EpisodeSettings
    from salvit.data.sheets import episode_sheet
    from salvit.data.splits import open_problem

    problem = open_problem(name, root, unseen)
    settings = EpisodeSettings(auxiliary="default", augment=AugmentSettings())
    pool = EpisodePool(problem, "train", "base", settings, purpose="train", seed=seed)
    return episode_sheet([pool.draw(index) for index in range(num)])
