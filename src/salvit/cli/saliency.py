"""``salvit saliency``: maps of images, their comparison, the training of ``learned``, the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from salvit.compare_saliency import Labelled
    from salvit.saliency.provider import Provider


class _MapByDefault(TyperGroup):
    """``salvit saliency IMAGE…`` is ``salvit saliency map IMAGE…``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = ["map", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("--help", "-h"):
            args = ["map", *args]  # options of `map` before its first image
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_MapByDefault,
    help="Where the object is: `salvit saliency IMAGE... --provider NAME --out DIR` writes a map for each image.",
    no_args_is_help=True,
)

PROVIDER = typer.Option(
    "learned", help="attentiveness, rbd, learned, spectral_residual, onnx, files or none (docs/saliency.md)."
)
COMPARED = ("none", "spectral_residual", "rbd", "learned", "attentiveness")
"""What `compare` takes where no provider is named, as far as their weights are here."""
NETWORK = typer.Option(None, help="For `onnx`: the network's file, with NAME.toml beside it.")


@app.command("map")
def make_maps(
    images: list[Path] = typer.Argument(help="Image files, or folders of them."),
    out: Path = typer.Option(..., help="Folder for the maps: IMAGE.jpg gives IMAGE.png."),
    provider: str = PROVIDER,
    network: Path | None = NETWORK,
    maps: Path | None = typer.Option(
        None, help="For `files`: the folder of the maps; else they lie beside the images."
    ),
    preprocess: bool = typer.Option(False, help="Distance transform and blur, as the model's masks get."),
    cached: bool = typer.Option(True, help="Keep maps in the cache, and take them from there."),
    overwrite: bool = typer.Option(False, help="Replace maps that are there."),
) -> None:
    """Write the saliency map of each image as an 8-bit PNG."""
    import numpy as np
    from PIL import Image

    from salvit.cli.progress import track
    from salvit.data.images import read_image
    from salvit.saliency import build_provider
    from salvit.saliency.cache import CachedProvider
    from salvit.saliency.preprocess import preprocess_map

    jobs = _map_jobs(images, out, overwrite)
    source: Provider = build_provider(provider, network=network, maps=maps)
    if cached and provider not in ("files", "none"):
        source = CachedProvider(source)
    out.mkdir(parents=True, exist_ok=True)
    for path, target in track(jobs, len(jobs), f"saliency ({provider})"):
        saliency = source(np.asarray(read_image(path)), path)
        if preprocess:
            saliency = preprocess_map(saliency)
        Image.fromarray((saliency * 255).round().astype(np.uint8)).save(target)
    typer.echo(f"{len(jobs)} maps in {out}")


def _map_jobs(images: list[Path], out: Path, overwrite: bool) -> list[tuple[Path, Path]]:
    """Image files and where their maps go; refuses two images of one name, and maps that are there."""
    from salvit.data.images import SUFFIXES

    jobs: dict[Path, Path] = {}
    for given in images:
        inner = sorted(p for p in given.rglob("*") if p.suffix.lower() in SUFFIXES) if given.is_dir() else [given]
        if not inner:
            raise ValueError(f"{given}: no images in this folder; expected files that end in {', '.join(SUFFIXES)}")
        for path in inner:
            target = out / (path.relative_to(given).with_suffix(".png") if given.is_dir() else f"{path.stem}.png")
            if target in jobs:
                raise ValueError(f"{jobs[target]} and {path} would both give {target}; use two --out folders")
            if target.exists() and not overwrite:
                raise ValueError(f"{target} is there already; --overwrite replaces it")
            jobs[target] = path
    for target in jobs:
        target.parent.mkdir(parents=True, exist_ok=True)
    return [(path, target) for target, path in jobs.items()]


@app.command("compare")
def compare(
    data: str = typer.Option("creatures", help="creatures, or a data set: animal_pose, cub, …"),
    root: Path | None = typer.Option(None, help="The data set's folder."),
    unseen: str | None = typer.Option(None, help="The report species (animal_pose), or the list of them."),
    role: str = typer.Option("report", help="report or dev."),
    limit: int = typer.Option(200, help="So many pictures, drawn by the seed."),
    seed: int = 0,
    provider: list[str] = typer.Option(
        [], help="Which to compare; several may be given. Else all but onnx and files, if their weights are here."
    ),
    network: Path | None = typer.Option(None, help="An ONNX network; where it is given, it is the reference."),
    json_path: Path | None = typer.Option(None, "--json", help="Write the figures to this file."),
    sheet: Path | None = typer.Option(None, help="Draw a contact sheet of the first eight pictures to this file."),
) -> None:
    """Compare providers: keypoint area, IoU to true masks, IoU to a reference network, time."""
    from salvit.cli.progress import track
    from salvit.compare_saliency import compare_providers
    from salvit.saliency import build_provider

    if data != "creatures" and root is None:
        raise ValueError(f"--data {data} needs --root DIR, the folder of the data set")
    if sheet is not None and set(provider) == {"none"} and network is None:
        raise ValueError("--sheet: `none` has no map to draw; name another --provider too, or leave out --sheet")
    pictures = _comparison_pictures(data, root, unseen, role, limit, seed)
    providers = {name: build_provider(name) for name in provider} if provider else _present_providers()
    if network is not None:
        providers["onnx"] = build_provider("onnx", network=network)
    reference = "onnx" if network is not None else None
    figures = compare_providers(track(pictures, len(pictures), f"saliency of {data}"), providers, reference)
    _print_table(rows := [one.as_dict() for one in figures])
    if sheet is not None:
        _save_sheet(pictures[:8], providers, sheet)
    if json_path is not None:
        about = {"data": data, "unseen": unseen, "role": role, "pictures": len(pictures), "seed": seed}
        _write_json(json_path, {**about, "reference": network.name if network else None, "figures": rows})


def _present_providers() -> dict[str, Provider]:
    """Those of :data:`COMPARED` whose weights are on this machine; the others are named."""
    from salvit.saliency import build_provider

    made: dict[str, Provider] = {}
    for name in COMPARED:
        try:
            made[name] = build_provider(name)
        except FileNotFoundError as problem:
            typer.secho(f"{name} is left out: {problem}", fg="yellow", err=True)
    return made


def _comparison_pictures(
    data: str, root: Path | None, unseen: str | None, role: str, limit: int, seed: int
) -> list[Labelled]:
    from salvit.compare_saliency import drawn_creatures, labelled_pictures
    from salvit.data.datasets import read_dataset

    if role not in ("report", "dev"):
        raise ValueError(f"--role {role}: expected report or dev")
    if data == "creatures" or root is None:
        return list(drawn_creatures(limit, seed))
    return labelled_pictures(read_dataset(data, root), unseen, role, limit=limit, seed=seed)  # type: ignore[arg-type]


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*(name.replace("_", " ") for name in rows[0]))
    for row in rows:
        table.add_row(*("–" if value is None else str(value) for value in row.values()))
    Console().print(table)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    import platform
    import sys

    import torch

    from salvit import __version__

    command = _command(sys.argv[1:], str(content["data"]))
    hardware = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    where = {"command": command, "version": __version__, "hardware": hardware}
    path.write_text(json.dumps({**content, **where}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _command(arguments: list[str], data: str) -> str:
    """What was typed, with nobody's own paths: the data set stands in ``$SALVIT_DATA``."""
    import shlex
    from itertools import pairwise

    words = ["salvit"]
    for before, part in pairwise(["", *arguments]):
        own = shlex.quote(Path(part).name if "/" in part else part)
        words.append(f"$SALVIT_DATA/{data}" if before == "--root" else own)
    return " ".join(words)


def _save_sheet(pictures: list[Labelled], providers: dict[str, Provider], path: Path) -> None:
    from salvit.saliency.preprocess import preprocess_map
    from salvit.saliency.sheet import draw_sheet

    shown = [name for name in providers if name != "none"]
    last = "learned" if "learned" in shown else shown[-1]
    rows = []
    for labelled in pictures:
        picture = labelled.read()
        maps = {name: providers[name](picture, labelled.path) for name in shown}
        rows.append((picture, [*maps.values(), preprocess_map(maps[last])]))
    draw_sheet(rows, ["input", *shown, f"{last}, distance + blur"]).save(path, quality=88)


@app.command("train")
def train(
    data: Path = typer.Option(..., envvar="SALVIT_DATA", help="The folder that holds animal_pose and cub."),
    out: Path = typer.Option(..., help="The weights to write (.safetensors)."),
    work: Path = typer.Option(..., help="Folder for lessons and checkpoint; a stopped run goes on from there."),
    pictures: int = typer.Option(1400, help="Pictures of each data set."),
    seed: int = 0,
    with_attentiveness: bool = typer.Option(
        False, help="Add the attention of DINOv2 as a teacher (it may have seen saliency labels)."
    ),
    overwrite: bool = typer.Option(False, help="Replace the weights if they are there."),
) -> None:
    """Train `learned` from noisy teachers, without saliency, box or keypoint labels."""
    from salvit.backbones import build_backbone
    from salvit.cli.progress import track
    from salvit.saliency import build_provider
    from salvit.saliency.lessons import default_teachers, load_lessons
    from salvit.saliency.train_learned import LearnedSettings, save_decoder, train_decoder
    from salvit.teach_saliency import prepare_lessons, training_pictures

    if out.exists() and not overwrite:
        raise ValueError(f"{out} is there already; --overwrite replaces it")
    teachers = default_teachers()
    if with_attentiveness:
        teachers = (*teachers, build_provider("attentiveness"))
    chosen = training_pictures(data, pictures, seed)
    made = prepare_lessons(chosen, work / "lessons", build_backbone("lite0"), teachers)
    lessons = load_lessons(list(track(made, len(chosen), "lessons")))
    settings = LearnedSettings(seed=seed)
    decoder = train_decoder(lessons, settings, checkpoint=work / f"{out.stem}.checkpoint", on_epoch=typer.echo)
    names = " ".join(teacher.name for teacher in teachers)
    save_decoder(decoder, out, {"teachers": names, "pictures": str(len(chosen)), "settings": repr(settings)})
    typer.echo(f"wrote {out}")


@app.command("cache")
def cache(clear: bool = typer.Option(False, "--clear", help="Remove every map from the cache.")) -> None:
    """Show the cache of maps, or clear it."""
    from salvit.saliency.cache import clear_cache, default_folder

    folder = default_folder()
    if clear:
        count, size = clear_cache(folder)
        typer.echo(f"removed {count} maps ({size:.1f} MB) from {folder}")
        return
    sizes = [path.stat().st_size for path in folder.glob("*.png")]
    typer.echo(f"{len(sizes)} maps, {sum(sizes) / 1e6:.1f} MB in {folder}")
