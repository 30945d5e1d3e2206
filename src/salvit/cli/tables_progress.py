"""Shows how far `salvit tables --run` is: the current job and the whole, each with the time left.

Bars on a terminal; where no one watches, a line now and then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from salvit.tables.run import Job
    from salvit.train import Progress

_LINE_SECONDS = 30.0
"""Where no one watches: the least time between two lines about the same job."""


def duration(seconds: float) -> str:
    """Hours and minutes, or minutes and seconds."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h" if whole >= 3600 else f"{whole // 60}:{whole % 60:02d} min"


class Estimate:
    """The time left for all jobs: sizes are guessed beforehand, and scaled by how long what is done really took."""

    def __init__(self, sizes: Sequence[float], now: float) -> None:
        self._sizes, self._began = list(sizes), now
        self._finished, self._share = 0, 0.0

    def inside(self, share: float) -> None:
        """How much of the current job is done, from 0 to 1; it never goes back."""
        self._share = max(self._share, min(share, 1.0))

    def finish(self) -> None:
        """The current job is done."""
        self._finished, self._share = self._finished + 1, 0.0

    def left(self, now: float) -> float:
        """Seconds."""
        done = sum(self._sizes[: self._finished])
        if self._finished < len(self._sizes):
            done += self._share * self._sizes[self._finished]
        pace = (now - self._began) / done if done > 0 else 1.0
        return pace * (sum(self._sizes) - done)


class Display:
    """Watches the jobs."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs, self._number = jobs, -1
        self._estimate = Estimate([job.seconds for job in jobs], time.monotonic())
        self._step, self._step_began, self._from, self._told = "", 0.0, 0, float("-inf")
        self._bars: Any = None
        self._tasks: list[Any] = []

    def __enter__(self) -> Display:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
            self._tasks = [self._bars.add_task(text, total=1.0, left="") for text in ("all", "this job")]
            self._bars.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def begin(self, job: Job) -> None:
        """A job begins."""
        self._number += 1
        self.say(f"[{self._number + 1}/{len(self._jobs)}] {job.name}: {len(job.asks)} results")

    def end(self) -> None:
        """It is done, or could not be."""
        self._estimate.finish()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._bars is not None:
            self._bars.console.print(text, highlight=False)
        else:
            typer.echo(text, err=True)

    def track(self, items: Iterable[Any], total: int, what: str) -> Iterator[Any]:
        """Pass items on; what :func:`salvit.cli.progress.track` is elsewhere."""
        for number, item in enumerate(items):
            self._show(what, number, total)
            yield item

    def report(self, progress: Progress) -> None:
        """A training episode is done."""
        job = self._jobs[self._number]
        self._estimate.inside(progress.episode / progress.episodes * job.train_seconds / max(job.seconds, 1e-9))
        dev = f", dev {progress.dev['harmonic']:.1f}" if progress.dev else ""
        self._show(f"training{dev}", progress.episode, progress.episodes, step="training")

    def _show(self, what: str, number: int, total: int, step: str = "") -> None:
        now = time.monotonic()
        step = step or what
        if step != self._step:
            self._step, self._step_began, self._from = step, now, number
        done = number - self._from
        left = duration((now - self._step_began) / done * (total - number)) if done > 0 else "…"
        whole = duration(self._estimate.left(now))
        if self._bars is not None:
            jobs, text = f"job {self._number + 1} of {len(self._jobs)}", f"{what} {number}/{total}"
            share = self._number / len(self._jobs)
            self._bars.update(self._tasks[0], description=jobs, left=f"all: about {whole} left", completed=share)
            self._bars.update(self._tasks[1], description=text, left=f"{left} left", completed=number / max(total, 1))
        elif now - self._told >= _LINE_SECONDS:
            self._told = now
            typer.echo(f"{what} {number}/{total} · {left} left · all: about {whole} left", err=True)
