"""``salvit tables``: the paper's tables, its figures beside ours; runs what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from salvit.cli.exit_codes import SOME_FAILED

if TYPE_CHECKING:
    from salvit.tables.run import Places


def tables(
    name: list[str] = typer.Argument(None, help="Which tables, such as main or ablation; none: all."),
    results: Path = typer.Option(Path("results"), help="The folder of results."),
    out: Path | None = typer.Option(None, help="Write them to this Markdown file, such as docs/tables.md."),
    into: Path | None = typer.Option(
        None, help="Put the short table of Animal Pose into this document, at its marker."
    ),
    run: bool = typer.Option(False, "--run", help="First run what is missing: train, freeze the lists, evaluate."),
    root: Path | None = typer.Option(None, help="With --run: the folder that holds the data sets, each by its name."),
    full: bool = typer.Option(False, "--full", help="With --run: also the paper's full setting, for a GPU."),
    model: list[str] = typer.Option(
        [], help="With --run: only results of this name, as salvit-lite0-light; repeatable."
    ),
    unseen: list[str] = typer.Option([], help="With --run: only this unseen species; may be repeated."),
    recipes: Path = typer.Option(Path("recipes"), help="The folder of recipes."),
    runs: Path = typer.Option(Path("runs"), help="With --run: the folder for trained models, lists and predictions."),
    dry: bool = typer.Option(False, "--dry", help="With --run: only say what would be run, and about how long."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    threads: int = typer.Option(0, min=0, help="Threads for the network; 0: as many as the machine has."),
) -> None:
    """Render tables of the paper with our results beside its figures; with --run, run what is missing first."""
    names = name or []
    failed = 0
    if run:
        from salvit.tables.run import Places

        places = Places(_data_folder(root), recipes, runs, results)
        failed = _run(names, places, full, model, unseen, device, threads, dry)
    if not dry:
        _render(names, results, out, into)
    if failed:
        raise typer.Exit(SOME_FAILED)


def _render(names: list[str], results: Path, out: Path | None, into: Path | None) -> None:
    from salvit.results import read_results
    from salvit.tables.contents import find_tables
    from salvit.tables.page import render_measured, render_page
    from salvit.tables.readme import animal_pose_table, put_into
    from salvit.tables.render import render_table

    found = read_results(results)
    if into is not None:
        table = f"\n{animal_pose_table(found)}\n"
        into.write_text(put_into(into.read_text(encoding="utf-8"), "animal_pose", table), encoding="utf-8")
        typer.echo(f"wrote the table into {into}")
        if out is None:
            return
    parts = [render_table(table, found) for table in find_tables(names)]
    parts += [render_measured(name, found) for name in names if name in ("priors", "cost")]
    text = "\n".join(parts) if names else render_page(found)
    if out is None:
        typer.echo(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out}")


def _data_folder(root: Path | None) -> Path:
    import os

    folder = root or (Path(os.environ["SALVIT_DATA"]) if os.environ.get("SALVIT_DATA") else None)
    if folder is None:
        raise ValueError("where are the data sets? give the folder that holds them: --root DIR, or set SALVIT_DATA")
    return folder


def _run(
    names: list[str],
    places: Places,
    is_full: bool,
    models: list[str],
    unseen: list[str],
    device: str,
    threads: int,
    is_dry: bool,
) -> int:
    """Run what is missing; gives how many jobs could not be done."""
    import torch

    from salvit.cli.tables_progress import Display, duration
    from salvit.tables.contents import find_tables
    from salvit.tables.run import paper_figures, plan, run_job

    if threads:
        torch.set_num_threads(threads)
    chosen = find_tables(names)
    jobs = plan(chosen, places, is_full=is_full, models=models, unseen=unseen)
    wanted = sum(len(job.asks) for job in jobs)
    about = duration(sum(job.seconds for job in jobs))
    typer.echo(f"{wanted} results are missing, in {len(jobs)} jobs; very roughly {about}, the smallest first", err=True)
    if is_dry:
        for job in jobs:
            typer.echo(f"{job.name}: {len(job.asks)} results, about {duration(job.seconds)}")
        return 0
    if "cost" in names:
        _measure_cost(places)
    failed = 0
    with Display(jobs) as display:
        for job in jobs:
            display.begin(job)
            try:
                run_job(
                    job,
                    places,
                    paper_figures(chosen),
                    device=device,
                    track=display.track,
                    report=display.report,
                    done=lambda name, result: display.say(f"{name}: {_figure(result)}"),
                )
            except (ValueError, OSError) as problem:
                failed += 1
                display.say(f"{job.name} could not be done: {problem}")
            display.end()
    return failed


def _measure_cost(places: Places) -> None:
    from salvit.cli.progress import track
    from salvit.results import write_result
    from salvit.tables.cost import measure_cost

    if not (places.results / "cost.json").exists():
        write_result(measure_cost(track), places.results / "cost.json")


def _figure(result: dict[str, Any]) -> str:
    if result["harmonic"] is not None:
        return f"{result['harmonic']:.1f} ± {result['ci95']:.1f}"
    (kind,) = result["pck"]
    return f"{result['pck'][kind]['0.1']:.1f} ± {result['interval'][kind]['0.1']:.1f} ({kind})"
