"""``salvit learn``: marked pictures to a pack."""

from __future__ import annotations

from pathlib import Path

import typer


def learn(
    support: Path = typer.Option(..., help="Marked pictures: COCO, CSV, DeepLabCut, SLEAP, Ultralytics, Label Studio."),
    out: Path = typer.Option(..., help="The pack to write, NAME.safetensors."),
    model: str | None = typer.Option(
        None, help="lite, dino, match, match:BACKBONE (`salvit weights list`), or a file."
    ),
    cropped: bool = typer.Option(False, "--cropped", help="For queries with boxes: crop to the marked objects."),
    zoom: bool = typer.Option(False, "--zoom", help="Learn the marks from near too, for `salvit detect --zoom`."),
    mirror: bool | None = typer.Option(
        None, "--mirror/--no-mirror", help="Learn the mirrored pictures too; else where left/right pairs are known."
    ),
    pairs: str | None = typer.Option(None, help="LEFT:RIGHT,…, where the names do not tell; none: no pairs."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a pack that exists."),
) -> None:
    """Learn keypoints from marked pictures once, for `salvit detect --pack`."""
    from salvit.cli.detect import parse_pairs
    from salvit.cli.exit_codes import SOME_FAILED
    from salvit.cli.info import show_pack
    from salvit.data.support import read_support
    from salvit.formats import check_output
    from salvit.packs import save_pack
    from salvit.predict import learn as learn_pack
    from salvit.predict import load

    if out.suffix != ".safetensors":
        raise ValueError(f"--out {out}: a pack is a .safetensors file")
    check_output(out, overwrite)
    marked = read_support(support)
    detector = load(model, device=device)
    pack = learn_pack(detector, marked, cropped=cropped, pairs=parse_pairs(pairs), zoom=zoom, both_ways=mirror)
    save_pack(pack, out, overwrite=overwrite)
    show_pack(out, pack)
    for problem in marked.problems:
        typer.secho(f"support: {problem}", fg="yellow", err=True)
    typer.echo(f"pack: {out.resolve()}")
    if marked.problems:
        raise typer.Exit(SOME_FAILED)
