"""Recipes: TOML files that state a training run; strict, so that a misspelt setting is an error."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from salvit.config import from_mapping, to_mapping
from salvit.data.augment import AugmentSettings
from salvit.data.crops import Crop
from salvit.data.episodes import AuxiliaryMode
from salvit.model.settings import Decoding, ModelSettings, preset


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What is trained on."""

    name: str = "animal_pose"
    unseen: str | None = None
    """The unseen species, or the list of species to report on; never trained on."""
    dev_species: tuple[str, ...] = ()
    """Seen species that are kept for dev instead of the usual dev images."""
    crop: Crop = "gt-random"
    train_crop: Crop | None = None
    """The crop of training views, where it is to differ from that of dev."""
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    keypoints: Literal["base", "all"] = "base"
    """``all``: novel keypoints are trained on too, as in a released model; its unseen species stay unseen."""
    mixed: float = 0.0
    """The share of training episodes whose pictures are of any species (:class:`EpisodeSettings`)."""
    weight: float = 1.0
    """This set's share of the episodes is its weight over the sum of all sets' weights."""
    pictures: int = 80
    """``creatures`` alone: pictures of each species that are drawn where no folder of them is given."""

    def __post_init__(self) -> None:
        if self.weight <= 0 or self.pictures < 1:
            raise ValueError(
                f"data set {self.name}: weight must be above 0 and pictures at least 1, got {self.weight} and "
                f"{self.pictures}"
            )


Alignment = Literal["none", "simmim", "non_occluded", "mmd", "l2", "l1", "probability"]


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """Masking and alignment: queries lose foreground patches, and what is learnt of them must stay (paper Sec. 3.3).

    Off unless something is masked. Choice: queries alone are masked, as they alone are occluded in the tests.
    """

    rgb: bool = False
    """Patches of the picture become grey."""
    saliency: bool = False
    """They become unsalient."""
    features: bool = False
    """Their raw tokens become zero."""
    probability: float = 0.5
    """Of masking a query at all."""
    share: float = 1.0
    """Of the episodes whose queries are masked at all, drawn for each; a masked one costs twice as much (ours)."""
    views: int = 2
    """``rgb`` on cached tokens: masked copies of each cached view; other masks are drawn anew each time."""
    alignment: Alignment = "none"
    """What is held together: masked pixels (``simmim``), the loss of the clean view (``non_occluded``), features
    (``mmd``, ``l2``, ``l1``) or ``probability`` maps."""
    is_target_detached: bool = True
    """The clean branch is a target and gets no gradient from the alignment of features and probabilities."""

    def __post_init__(self) -> None:
        if self.alignment != "none" and not self.is_on:
            raise ValueError(f"train.masking.alignment = {self.alignment!r} needs masks: set rgb, saliency or features")
        if self.alignment == "simmim" and not (self.rgb or self.features):
            raise ValueError("train.masking.alignment = 'simmim' recovers masked pixels: set rgb or features")
        if self.views < 1 or not 0 <= self.probability <= 1:
            raise ValueError(
                f"train.masking: views must be at least 1 and probability in 0 to 1, got {self.views} and "
                f"{self.probability}"
            )
        if not 0 < self.share <= 1 or (self.share < 1 and self.alignment == "simmim"):
            raise ValueError(f"train.masking.share must be above 0 and at most 1, and 1 for simmim, got {self.share}")

    @property
    def is_on(self) -> bool:
        """Whether anything is masked."""
        return self.rgb or self.saliency or self.features


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How it is trained; the defaults are the paper's."""

    episodes: int = 40_000
    episodes_per_step: int = 1
    """Episodes whose gradients are averaged for one step, over all processes together."""
    shots: tuple[int, int] = (1, 5)
    """The least and the most shots, drawn anew for each episode."""
    queries: int = 5
    auxiliary: AuxiliaryMode = "default"
    views: int = 3
    """Augmented views of each record whose frozen tokens are cached; 0: nothing is cached, every view is fresh."""
    learning_rate: float = 1e-4
    backbone_rate: float = 1.0
    """Ours: trained parts of the backbone, which are pretrained, learn at this times the rate."""
    matrix_rate: float = 0.0
    """Ours: weight matrices of the model's own parts take orthogonal steps (:class:`salvit.muon.Muon`) at this times
    the rate; 0: steps of AdamW, as all else."""
    weight_decay: float = 0.0
    """Ours: weights shrink by this times the learning rate at each step (AdamW)."""
    schedule: Literal["step", "cosine"] = "step"
    """``step``: × 0.6 every 20,000 episodes; ``cosine``: down to 0 at the last."""
    lambdas: tuple[float, float, float] = (0.5, 0.5, 0.1)
    """λ1 of localisation, λ2 of the morphology regulariser, λ3 of alignment."""
    auxiliary_weight: float = 0.5
    """Weight of the localisation loss of auxiliary keypoints."""
    pairs: int | None = None
    """At most so many pairs of query and keypoint a step, drawn anew for each episode; None: all that are valid."""
    all_ways: bool = False
    """Ours: every picture of an episode is also a support of every other; cheap with ``head.kind = "dynamic"``."""
    presence_weight: float = 0.1
    """Weight of the presence loss, where the model has such a branch."""
    body_weight: float = 0.5
    """Weight of the loss of the body's parts, where the model has them (``encoder.body``)."""
    absent_pairs: float = 0.25
    """There: pairs of which the query does not show the keypoint, as a share of the others."""
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    seed: int = 0
    view_seed: int | None = None
    """Of the cached views; None: the run's own. A second training that goes on from a first can show its views."""
    dev_every: int = 1000
    """Episodes between looks at dev; 0: never."""
    dev_episodes: int = 100
    """Episodes of each kind (novel and base) in a look at dev."""
    checkpoint_every: int = 1000
    """Episodes between checkpoints."""
    checkpoint_minutes: float = 10.0
    """A checkpoint is written at the latest after this time."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Mixed precision is refused on a CPU."""

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.episodes_per_step < 1 or self.episodes % self.episodes_per_step:
            raise ValueError(
                f"train.episodes ({self.episodes}) must be a multiple of episodes_per_step ({self.episodes_per_step})"
            )
        if self.views < 0 or self.learning_rate <= 0:
            raise ValueError(f"train.views must not be negative ({self.views}), learning_rate must be above 0")
        if min(self.weight_decay, self.matrix_rate) < 0 or self.backbone_rate <= 0:
            raise ValueError(
                f"train.weight_decay ({self.weight_decay}) and matrix_rate ({self.matrix_rate}) must not be negative, "
                f"backbone_rate must be above 0 ({self.backbone_rate})"
            )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole run."""

    data: DataSettings = field(default_factory=DataSettings)
    also: tuple[DataSettings, ...] = ()
    """Further data sets (``[[also]]``) that episodes are drawn from, by weight."""
    model: ModelSettings = field(default_factory=ModelSettings)
    train: TrainSettings = field(default_factory=TrainSettings)

    def __post_init__(self) -> None:
        names = [data.name for data in self.datasets]
        if len(set(names)) < len(names):
            raise ValueError(f"the recipe names a data set twice ({', '.join(names)}); give each once, with its weight")

    @property
    def datasets(self) -> tuple[DataSettings, ...]:
        """All that is trained on."""
        return (self.data, *self.also)


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe and what it extends; ``changes`` are ``section.setting=value`` and win."""
    table = _read_table(path, seen=())
    for change in changes:
        _apply_change(table, change)
    return recipe_from_table(table)


def recipe_from_table(table: dict[str, Any]) -> Recipe:
    """A recipe from plain tables; ``model.preset`` and ``model.width`` name what the model's settings start from."""
    model = dict(table.get("model", {}))
    start = preset(model.pop("preset", "salvit-resnet50"), model.pop("width", "paper"))
    merged = {**table, "model": _merge(to_mapping(start), model)}
    return from_mapping(Recipe, merged)


def recipe_to_table(recipe: Recipe) -> dict[str, Any]:
    """All settings as plain tables: what a checkpoint keeps."""
    return to_mapping(recipe)


def _read_table(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    path = path.resolve()
    if path in seen:
        raise ValueError(f"{path.name}: 'extends' leads back to itself")
    if not path.is_file():
        raise FileNotFoundError(f"the recipe {path} does not exist; expected a TOML file")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{path.name} is not valid TOML: {problem}") from problem
    if (parent := table.pop("extends", None)) is not None:
        table = _merge(_read_table(path.parent / parent, (*seen, path)), table)
    return table


def _apply_change(table: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise ValueError(f"--set {change}: expected section.setting=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, name = key.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
    table[name] = value


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def with_decoding(recipe: Recipe, decoding: str | None) -> Recipe:
    """The recipe with another way of finding places; None: its own."""
    if decoding is None:
        return recipe
    head = replace(recipe.model.head, decoding=decoding_of(decoding))
    return replace(recipe, model=replace(recipe.model, head=head))


def with_filter_gain(recipe: Recipe, gain: float | None) -> Recipe:
    """The recipe with filters that count so much; None: as it says itself."""
    if gain is None:
        return recipe
    return replace(recipe, model=replace(recipe.model, head=replace(recipe.model.head, filter_gain=gain)))


def decoding_of(name: str) -> Decoding:
    """A way of finding places by its name; another name is an error that lists them."""
    if name not in get_args(Decoding):
        raise ValueError(f"unknown decoding {name!r}; expected {', '.join(get_args(Decoding))}")
    return cast("Decoding", name)
