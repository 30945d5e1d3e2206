"""Episodic training on Lightning Fabric: one device or many, resumable to the bit.

Every draw depends on the seed and the episode's number alone, so a run that is resumed at an episode goes on exactly as
one that was never stopped.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from salvit.baselines.build import build_method
from salvit.checkpoint import (
    Checkpoint,
    begin_with,
    frozen_sha256,
    load_checkpoint,
    optimizer_tensors,
    own_weights,
    put_optimizer,
    put_weights,
    save_checkpoint,
)
from salvit.data.splits import Kind, Problem
from salvit.episode_tensors import EpisodeSource
from salvit.features import Track
from salvit.learner import Learner, flat
from salvit.masked_views import check_masking
from salvit.metrics import harmonic_mean
from salvit.model.detector import SalViT
from salvit.muon import Muon, is_matrix
from salvit.priors import saliency_of_records
from salvit.provenance import going_on
from salvit.recipes import Recipe, TrainSettings
from salvit.sources import Sources

if TYPE_CHECKING:
    from lightning_fabric import Fabric

STEP_EPISODES, STEP_FACTOR = 20_000, 0.6
"""The step schedule: the learning rate is multiplied by 0.6 every 20,000 episodes."""


@dataclass(slots=True)
class Progress:
    """What a run reports as it goes."""

    episode: int
    """Episodes done."""
    episodes: int
    """Episodes in all."""
    losses: dict[str, float]
    dev: dict[str, float] = field(default_factory=dict)
    """The last look at dev, in percent."""
    best: float = -1.0
    """The best harmonic mean on dev."""


Report = Callable[[Progress], None]


def train(
    recipe: Recipe,
    problems: Sequence[Problem],
    folder: Path,
    fabric: Fabric,
    *,
    resume: bool = False,
    start: Path | None = None,
    backbone_weights: str | Path | None = "pretrained",
    command: str = "",
    track: Track,
    report: Report,
) -> Path:
    """Train a model; gives the file of the best on dev (or the last, where dev is never looked at).

    ``problems`` are those of the recipe's data sets, in their order (``salvit.sources.open_problems``).
    The folder gets ``last.safetensors`` (to resume), ``best.safetensors``, ``log.jsonl`` and TensorBoard events.
    ``start`` is a model of the same kind whose weights it begins with, so that a second training goes on where a first
    one ended, with more of the backbone or other settings.
    Checkpoints keep ``command`` (``salvit.provenance.training_command``), so that results can state it.
    """
    settings = recipe.train
    if settings.precision != "32-true" and fabric.device.type == "cpu":
        raise ValueError(f"precision {settings.precision!r} is not safe on a CPU; use '32-true'")
    if (folder / "last.safetensors").exists() and not resume:
        raise FileExistsError(f"{folder} holds a run already; --resume goes on with it, or choose another folder")
    if settings.all_ways and recipe.model.method != "salvit":
        raise ValueError(f"train.all_ways is for salvit; {recipe.model.method} looks at its queries in its own way")
    torch.manual_seed(settings.seed)
    model = build_method(recipe.model, backbone_weights).to(fabric.device)
    check_masking(model, settings.masking)
    if start is not None:
        first = _first(start, recipe)
        begin_with(model, first.weights)
        command = going_on(first.command, start, command)
    learner = Learner(model, settings).to(fabric.device)
    groups = parameter_groups(learner, settings)
    if not groups:
        raise ValueError(f"{model.name} has nothing to train: set model.encoder.feature_channels, or use match")
    optimizer = Muon(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    progress = Progress(0, settings.episodes, {})
    if resume and (folder / "last.safetensors").exists():
        command = _restore(folder / "last.safetensors", recipe, learner, optimizer, progress) or command
    with fabric.rank_zero_first():  # the others then read what it cached
        sources = Sources(recipe, problems, model, saliency_of_records(model, for_training=True), track)
    wrapped, wrapped_optimizer = fabric.setup(learner, optimizer)
    run = _Run(recipe, folder, fabric, learner, wrapped, wrapped_optimizer, progress, report, command)
    run.loop(sources)
    return folder / ("best.safetensors" if (folder / "best.safetensors").exists() else "last.safetensors")


def parameter_groups(learner: Learner, settings: TrainSettings) -> list[dict[str, Any]]:
    """What is trained, for the optimiser: the model's own parts, its matrices apart where they turn, the backbone's."""
    named = [(name, weight) for name, weight in learner.named_parameters() if weight.requires_grad]
    lent = [weight for name, weight in named if name.startswith("model.backbone.")]
    own = [(name, weight) for name, weight in named if not name.startswith("model.backbone.")]
    matrices = [weight for name, weight in own if settings.matrix_rate and is_matrix(name, weight)]
    turned = {id(weight) for weight in matrices}
    groups = [
        {"params": [weight for _, weight in own if id(weight) not in turned], "rate": 1.0},
        {"params": matrices, "rate": settings.matrix_rate, "is_matrix": True},
        {"params": lent, "rate": settings.backbone_rate},
    ]
    return [group for group in groups if group["params"]]


def learning_rate(settings: TrainSettings, episode: int) -> float:
    """The learning rate at an episode."""
    if settings.schedule == "cosine":
        return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * episode / settings.episodes))
    return float(settings.learning_rate * STEP_FACTOR ** (episode // STEP_EPISODES))


@torch.no_grad()
def dev_pck(model: SalViT, sources: dict[Kind, EpisodeSource], episodes: int) -> dict[str, float]:
    """Mean PCK@0.1 over dev episodes of each kind, and their harmonic mean, in percent."""
    model.eval()
    figures: dict[str, float] = {}
    for kind, source in sources.items():
        shares = []
        for index in range(episodes):
            episode = source.load(index)
            n = episode.num_real
            output = model(episode.support, episode.support_points[:, :n], episode.support_mask[:, :n], episode.query)
            found = model.decode(output.scales, episode.support_mask[:, :n].any(0)).points_input
            distance = (found - episode.query_points[:, :n]).norm(dim=-1)  # (Q, N)
            valid = episode.valid[:, :n]
            correct = (distance <= 0.1 * episode.box_sides[:, None]) & valid
            shares.append(float(correct.sum()) / max(1, int(valid.sum())))
        figures[kind] = 100 * sum(shares) / len(shares)
    model.train()
    if len(figures) == 2:
        figures["harmonic"] = harmonic_mean(figures["novel"], figures["base"])
    else:
        figures["harmonic"] = next(iter(figures.values()))
    return {name: round(value, 3) for name, value in figures.items()}


def dev_of_all(model: SalViT, sources: dict[str, dict[Kind, EpisodeSource]], episodes: int) -> dict[str, float]:
    """The figures of one data set, or of several the harmonic mean of each by its name and ``harmonic``, their mean."""
    looks = {name: dev_pck(model, kinds, episodes) for name, kinds in sources.items()}
    if len(looks) == 1:
        return next(iter(looks.values()))
    figures = {name: look["harmonic"] for name, look in looks.items()}
    return {**figures, "harmonic": round(sum(figures.values()) / len(figures), 3)}


class _Run:
    """One run: the loop, and what it writes."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        fabric: Fabric,
        learner: Learner,
        wrapped: Any,
        optimizer: Any,
        progress: Progress,
        report: Report,
        command: str,
    ) -> None:
        self.recipe, self.folder, self.fabric, self.report = recipe, folder, fabric, report
        self._command = command
        self.model, self.wrapped, self.optimizer, self.progress = learner.model, wrapped, optimizer, progress
        self._learner = learner
        self._saved_at = time.monotonic()
        self._backbone_sha256 = frozen_sha256(self.model)
        if fabric.is_global_zero:
            folder.mkdir(parents=True, exist_ok=True)
            _cut_log(folder / "log.jsonl", progress.episode)

    def loop(self, sources: Sources) -> None:
        """From the episode reached to the last."""
        settings = self.recipe.train
        self.wrapped.train()
        for start in range(self.progress.episode, settings.episodes, settings.episodes_per_step):
            losses = self._step(sources.train, start)
            self.progress.episode = start + settings.episodes_per_step
            self.progress.losses = losses
            is_look = bool(settings.dev_every) and self._passes(settings.dev_every)
            if is_look:
                self._look(sources.dev)
            self._log(losses, is_look)
            self.report(self.progress)
            late = time.monotonic() - self._saved_at > 60 * settings.checkpoint_minutes
            if self._passes(settings.checkpoint_every) or late or self.progress.episode >= settings.episodes:
                self._save("last.safetensors", with_optimizer=True)

    def _step(self, source: EpisodeSource, start: int) -> dict[str, float]:
        """One optimiser step on the episodes from ``start`` on, shared among the processes."""
        settings, fabric = self.recipe.train, self.fabric
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * learning_rate(settings, start)
        mine = list(range(start + fabric.global_rank, start + settings.episodes_per_step, fabric.world_size))
        sums: dict[str, float] = {}
        for number, index in enumerate(mine):
            with fabric.no_backward_sync(self.wrapped, enabled=number + 1 < len(mine)):
                episode = source.load(index)
                torch.manual_seed(settings.seed + index)  # for dropout, whichever process has the episode
                terms = self.wrapped(*flat(episode))
                fabric.backward(terms["loss"] * (fabric.world_size / settings.episodes_per_step))
            for name, value in terms.items():
                sums[name] = sums.get(name, 0.0) + float(value.detach())
        if all(math.isfinite(value) for value in sums.values()):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {name: value / len(mine) for name, value in sums.items()}

    def _look(self, sources: dict[str, dict[Kind, EpisodeSource]]) -> None:
        """Dev, and the best so far."""
        if self.fabric.is_global_zero:
            self.progress.dev = dev_of_all(self.model, sources, self.recipe.train.dev_episodes)
            if self.progress.dev["harmonic"] > self.progress.best:
                self.progress.best = self.progress.dev["harmonic"]
                self._save("best.safetensors", with_optimizer=False)
        self.fabric.barrier()

    def _passes(self, every: int) -> bool:
        return self.progress.episode % every < self.recipe.train.episodes_per_step

    def _log(self, losses: dict[str, float], is_look: bool) -> None:
        if not self.fabric.is_global_zero:
            return
        row: dict[str, Any] = {"episode": self.progress.episode, **losses}
        if is_look:
            row["dev"] = self.progress.dev
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def _save(self, name: str, *, with_optimizer: bool) -> None:
        self._saved_at = time.monotonic()
        if not self.fabric.is_global_zero:
            return
        state = {
            "episode": self.progress.episode,
            "best": self.progress.best,
            "dev": self.progress.dev,
            "backbone_sha256": self._backbone_sha256,
        }
        optimizer = (
            optimizer_tensors(self.optimizer.optimizer) | self._learner.training_parts() if with_optimizer else {}
        )
        save_checkpoint(self.folder / name, self.recipe, own_weights(self.model), optimizer, state, self._command)


def _first(path: Path, recipe: Recipe) -> Checkpoint:
    """The model to start from; one that has learnt from what this training holds back is refused.

    It may have held back more: a species that was kept for dev, and at which nobody looked.
    """
    first = load_checkpoint(path)
    seen = {data.name: data for data in first.recipe.datasets}
    for data in recipe.datasets:
        before = seen.get(data.name, data)
        held = {before.unseen} if first.recipe.train.dev_every else {before.unseen, *before.dev_species}
        if data.unseen not in held or (before.keypoints == "all" and data.keypoints == "base"):
            raise ValueError(
                f"{path} was trained on {data.name} with {before.unseen or 'nothing'} unseen and {before.keypoints} "
                f"keypoints, and here {data.unseen or 'nothing'} is unseen with {data.keypoints} keypoints: it may "
                "have seen what is held back; start from a model that held back the same"
            )
    return first


def _restore(path: Path, recipe: Recipe, learner: Learner, optimizer: torch.optim.Optimizer, progress: Progress) -> str:
    """Go on from a checkpoint of the same recipe; gives the command that began it."""
    saved = load_checkpoint(path)
    if saved.recipe != recipe:
        raise ValueError(f"{path} was made by another recipe; resume with the same one, or choose another folder")
    put_weights(learner.model, saved.weights)
    with torch.no_grad():
        for name, value in learner.training_parts().items():
            value.copy_(saved.optimizer.pop(name))
    put_optimizer(optimizer, saved.optimizer)
    progress.episode, progress.best, progress.dev = saved.state["episode"], saved.state["best"], saved.state["dev"]
    return saved.command


def _cut_log(path: Path, episode: int) -> None:
    """Forget what was logged after the checkpoint that the run goes on from."""
    if path.exists():
        rows = [line for line in _whole_lines(path) if json.loads(line)["episode"] <= episode]
        path.write_text("".join(line + "\n" for line in rows), encoding="utf-8")


def _whole_lines(path: Path) -> Iterator[str]:
    content = path.read_text(encoding="utf-8")
    lines = content.splitlines()
    yield from lines if content.endswith("\n") else lines[:-1]
