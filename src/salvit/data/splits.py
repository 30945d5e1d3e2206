"""Which species and keypoints are seen and unseen, and who may look at what.

The lists are shipped as ``split_files/*.toml``. A :class:`Problem` divides the records of a data set into ``train``,
``dev`` and ``report``; :func:`check_allowed` is the gate: report species are not for training, tuning or calibration.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from salvit.config import from_mapping
from salvit.data.datasets import read_dataset
from salvit.data.records import DataSet
from salvit.types import Record

Kind = Literal["base", "novel"]
Role = Literal["train", "dev", "report"]
Purpose = Literal["train", "tune", "calibrate", "report"]
ROLES: tuple[Role, ...] = ("train", "dev", "report")
ALLOWED: dict[str, frozenset[str]] = {
    "train": frozenset({"train"}),
    "tune": frozenset({"train", "dev"}),
    "calibrate": frozenset({"train", "dev"}),
    "report": frozenset(ROLES),
}
"""Purpose → the roles it may look at."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeastShared:
    """So many keypoints must be shared by support and query, for each kind of episode."""

    base: int
    novel: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeciesLists:
    """Species by list; ``all`` for leave-one-out (empty: whatever the data hold), else the other three."""

    all: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    val: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.all + self.train + self.val + self.test)


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One shipped file: what is seen and unseen in a data set."""

    rule: Literal["leave-one-out", "lists"]
    """One species is unseen at a time, or species stand in fixed lists."""
    species: SpeciesLists
    base: tuple[str, ...]
    novel: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    """Left/right pairs of keypoints; where there are none, images are never mirrored."""
    paths: tuple[tuple[str, str], ...]
    """Default paths of auxiliary keypoints; where there are none, paths are drawn at random."""
    skeleton: tuple[tuple[str, str], ...]
    least_shared: LeastShared
    species_draw: Literal["uniform", "images"]
    """How an episode's species is drawn: each alike, or by its number of images."""
    images: int | None = None
    """Images of the full data set."""
    instances: int | None = None
    """Records of the full data set."""
    dev: Literal["every 7th", "val", "tenth of the images"] = "tenth of the images"
    unseen: Literal["", "val", "test"] = ""
    """The list that reports are on unless another is asked for."""
    keypoints_by_species: bool = False
    """Each species has its own keypoints: base for training species, novel for unseen ones."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A data set divided for few-shot keypoint detection."""

    name: str
    """Name of the data set."""
    unseen: str
    """The unseen species, or the list of them (``val``, ``test``)."""
    split: Split
    records: Mapping[Role, tuple[Record, ...]]
    roles: Mapping[str, Role]
    """Record id → role; a record that nobody may look at is not in it."""
    report_species: frozenset[str]
    """Species that are refused to training, tuning and calibration."""
    notes: tuple[str, ...] = ()
    """What differs from the full data set, in words."""
    own_keypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Species → its keypoints, where the split says that each species has its own."""

    @property
    def label(self) -> str:
        """The problem's name in results: the unseen species, or ``all``."""
        return self.unseen if self.split.rule == "leave-one-out" else "all"

    def keypoints(self, kind: Kind, species: str) -> tuple[str, ...]:
        """The base or novel keypoints of a species; none where a species has none of that kind."""
        if self.split.keypoints_by_species:
            is_kind = (species in self.report_species) == (kind == "novel")
            return self.own_keypoints.get(species, ()) if is_kind else ()
        return self.split.base if kind == "base" else self.split.novel


@cache
def read_split(name: str) -> Split:
    """Read a shipped split; a data set without one is an error."""
    file = resources.files("salvit.data").joinpath("split_files", f"{name}.toml")
    if not file.is_file():
        raise ValueError(f"the data set {name!r} has no split into seen and unseen; only its records can be read")
    return from_mapping(Split, tomllib.loads(file.read_text(encoding="utf-8")))


def open_problem(name: str, root: Path, unseen: str | None = None, *, dev_species: Sequence[str] = ()) -> Problem:
    """Read a data set and divide it.

    Args:
        name: Name of the data set.
        root: Its folder.
        unseen: Animal Pose and AP-10K: the unseen species. Other sets: the list to report on, ``val`` or ``test``.
        dev_species: Seen species that are taken from training and used as dev instead of the usual dev.
    """
    return make_problem(read_dataset(name, root), unseen, dev_species=dev_species)


def make_problem(dataset: DataSet, unseen: str | None = None, *, dev_species: Sequence[str] = ()) -> Problem:
    """Divide a data set that has been read; see :func:`open_problem`."""
    split = split_of(dataset, unseen)
    train, dev, report, unseen = _divide_species(split, dataset, unseen, tuple(dev_species))
    hidden = frozenset(record.species for record in dataset.records) - train - dev | report
    tainted = {file_of(record) for record in dataset.records if record.species in hidden}
    dev_files = {file_of(record) for record in dataset.records if record.species in dev}
    by_image = split.dev == "tenth of the images" and not dev_species
    roles: dict[str, Role] = {}
    for record in dataset.records:
        file = file_of(record)
        if record.species in report:
            roles[record.id] = "report"
        elif file in tainted:
            continue  # it shows an unseen species: nobody may train or tune on it
        elif record.species in dev or (by_image and is_dev_image(file)):
            roles[record.id] = "dev"
        elif file not in dev_files:
            roles[record.id] = "train"
    by_role: dict[Role, tuple[Record, ...]] = {
        role: tuple(record for record in dataset.records if roles.get(record.id) == role) for role in ROLES
    }
    if report and not by_role["report"]:
        raise ValueError(f"{dataset.root}: no record of the unseen species ({unseen}) is there")
    own = {record.species: record.names for record in dataset.records} if split.keypoints_by_species else {}
    return Problem(dataset.name, unseen, split, by_role, roles, hidden, check_counts(dataset, split), own)


def with_all_keypoints(problem: Problem) -> Problem:
    """The same problem with every keypoint of its records as a base one: for models that hold none back.

    Report species stay unseen; their keypoints are then names that were trained on other species.
    """
    names = tuple(dict.fromkeys(name for records in problem.records.values() for r in records for name in r.names))
    return replace(problem, split=replace(problem.split, base=names, novel=()))


def split_of(dataset: DataSet, unseen: str | None = None) -> Split:
    """The shipped split of a data set; any other COCO file gets one in which every category is seen.

    There each category has its own keypoints, mirrored ones are told by their names, dev is a tenth of the images, and
    a category may be named as unseen, but none need be.
    """
    if dataset.name != "coco":
        return read_split(dataset.name)
    names = dict.fromkeys(name for record in dataset.records for name in record.names)
    return Split(
        rule="lists" if unseen is None else "leave-one-out",
        species=SpeciesLists(train=tuple(sorted({record.species for record in dataset.records}))),
        base=(),
        novel=(),
        pairs=pairs_from_names(tuple(names)),
        paths=(),
        skeleton=(),
        least_shared=LeastShared(base=1, novel=1),
        species_draw="images",
        keypoints_by_species=True,
    )


def pairs_from_names(names: tuple[str, ...]) -> Pairs:
    """Left/right pairs that names tell: ``left_eye`` and ``right_eye``, ``L-paw`` and ``R-paw``, ``eye_l``, ``eye_r``.

    Left comes first in each.
    """
    known = {name.lower(): name for name in names}
    pairs = []
    for name in names:
        for left, right in (("left", "right"), ("l", "r")):
            pattern = rf"(?:^|(?<=[\W_])){left}(?=$|[\W_])" if left == "l" else left
            other = known.get(re.sub(pattern, right, name.lower(), count=1))
            if other is not None and other != name:
                pairs.append((name, other))
                break
    return tuple(pairs)


def check_allowed(problem: Problem, purpose: Purpose, records: Iterable[Record]) -> None:
    """Refuse records that a purpose may not look at.

    Training looks at ``train`` only; tuning (early stopping, choice of settings) and calibration at ``dev`` too.

    Raises:
        ValueError: A record is of a report species, or its role is not allowed for the purpose.
    """
    for record in records:
        if purpose != "report" and record.species in problem.report_species:
            raise ValueError(
                f"{record.id} shows {record.species!r}, a report species of {problem.name}/{problem.unseen}; "
                f"it must not be used to {purpose}: take records of {' or '.join(sorted(ALLOWED[purpose]))}"
            )
        role = problem.roles.get(record.id)
        if role not in ALLOWED[purpose]:
            raise ValueError(
                f"{record.id} is {f'a {role} record' if role else 'in no part'} of {problem.name}/{problem.unseen}; "
                f"to {purpose}, take records of {' or '.join(sorted(ALLOWED[purpose]))}"
            )


def check_counts(dataset: DataSet, split: Split | None = None) -> tuple[str, ...]:
    """Compare a data set with what the full one holds; each difference is a sentence."""
    split = split or read_split(dataset.name)
    notes = []
    for what, expected, found in (
        ("images", split.images, dataset.num_images),
        ("records", split.instances, len(dataset.records)),
    ):
        if expected is not None and expected != found:
            notes.append(f"{found:,} {what}; the full data set has {expected:,}")
    present = {record.species for record in dataset.records}
    for name in ("all", "train", "val", "test"):
        listed: tuple[str, ...] = getattr(split.species, name)
        if absent := [species for species in listed if species not in present]:
            some = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
            notes.append(f"{len(absent)} of {len(listed)} species of the list `{name}` have no record: {some}")
    known = set(split.species)
    if known and (extra := sorted(present - known)):
        some = ", ".join(extra[:3]) + (", …" if len(extra) > 3 else "")
        notes.append(f"{len(extra)} species are in no list and are not used: {some}")
    return tuple(notes)


def count_species(dataset: DataSet) -> dict[str, int]:
    """Records of each species."""
    return dict(sorted(Counter(record.species for record in dataset.records).items()))


def file_of(record: Record) -> str:
    """The image's name inside its data set: the record's id without the index."""
    return record.id.rpartition("#")[0]


def is_dev_image(file: str) -> bool:
    """Whether an image is among the 10 % that are dev, by a hash of its file name."""
    digest = hashlib.sha256(Path(file).name.encode()).digest()
    return int.from_bytes(digest[:8], "big") % 10 == 0


def _divide_species(
    split: Split, dataset: DataSet, unseen: str | None, dev_species: tuple[str, ...]
) -> tuple[frozenset[str], frozenset[str], frozenset[str], str]:
    """Species of train, dev and report, and the name of what is unseen."""
    if split.rule == "leave-one-out":
        every = (
            split.species.all or split.species.train or tuple(sorted({record.species for record in dataset.records}))
        )
        if unseen not in every:
            raise ValueError(f"{dataset.name}: the unseen species is {unseen!r}; expected one of {', '.join(every)}")
        report, seen = frozenset({unseen}), tuple(name for name in every if name != unseen)
        dev: frozenset[str] = frozenset()
    else:
        unseen = split.unseen if unseen is None else unseen
        if not unseen and not split.unseen:
            return frozenset(split.species.train) - frozenset(dev_species), frozenset(dev_species), frozenset(), ""
        if unseen not in ("val", "test") or not getattr(split.species, unseen) or unseen == split.dev:
            raise ValueError(f"{dataset.name}: {unseen!r} is no list to report on; expected {split.unseen!r}")
        report, seen = frozenset(getattr(split.species, unseen)), split.species.train
        every_7th = frozenset(seen[6::7]) if split.dev == "every 7th" else frozenset()
        dev = frozenset(split.species.val) if split.dev == "val" else every_7th
    if unknown := [name for name in dev_species if name not in seen]:
        raise ValueError(f"{dataset.name}: {unknown[0]!r} is not a seen species; expected some of {', '.join(seen)}")
    dev = frozenset(dev_species) or dev
    return frozenset(seen) - dev, dev, report, unseen
