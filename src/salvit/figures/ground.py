"""What all figures are drawn from: some episodes of a frozen list, drawn by a seed, and what a detector finds in them.

Nothing is chosen by its outcome: episodes, queries and pictures are drawn before anything is predicted. The labels of
queries are looked at only after that, by the code that scores (``salvit.score``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from salvit.data.augment import View
from salvit.data.episodes import Episode
from salvit.data.frozen import FrozenList, list_hash
from salvit.data.occlude import Occluder, Occlusion
from salvit.data.views import select_keypoints
from salvit.encoded_lists import EncodedList, SaliencyOf, Track, encode_list
from salvit.evaluate import Predictions, learn_episode, rows_of, stated_ellipses
from salvit.score import compare
from salvit.types import BoolArray, Detector, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One query of an episode: what was asked, what was found, and what is true."""

    index: int
    """Of the episode in the list that was drawn."""
    episode: Episode
    query: int
    """Its number in the episode."""
    found: FloatArray
    """(N, 2) in pixels of the image."""
    covariances: FloatArray
    """(N, 2, 2)."""
    truth: FloatArray
    """(N, 2)."""
    valid: BoolArray
    """(N,) the keypoints that count: the query and some support show them."""
    errors: FloatArray
    """(N,) distances as shares of the longer side of the object's box, as PCK counts them."""

    @property
    def view(self) -> View:
        """What the detector was shown."""
        return self.episode.queries[self.query]

    @property
    def occlusion(self) -> Occlusion | None:
        """What hides parts of it."""
        return self.episode.occlusions[self.query] if self.episode.occlusions else None


class Ground:
    """A detector on episodes of a list; images are encoded once for all figures.

    Args:
        detector: What is looked at.
        listed: A frozen list.
        saliency_of: Maps of records, for a detector that wants them.
        seed: Draws episodes, queries and pictures.
        episodes: So many of each kind are drawn.
        track: Shows progress.
    """

    def __init__(
        self,
        detector: Detector,
        listed: FrozenList,
        *,
        saliency_of: SaliencyOf | None = None,
        seed: int = 0,
        episodes: int = 20,
        track: Track,
    ) -> None:
        self.detector, self.saliency_of, self.seed, self.track = detector, saliency_of, seed, track
        self.listed = draw_episodes(listed, episodes, seed)
        self.of_list = listed.hash

    @cached_property
    def encoded(self) -> EncodedList:
        """Every image of the episodes."""
        return encode_list(self.detector, self.listed, saliency_of=self.saliency_of, track=self.track)

    @cached_property
    def asked(self) -> list[Asked]:
        """Every query, in the order of the list."""
        return predict(self.detector, self.listed, self.encoded, self.track)

    @property
    def kinds(self) -> list[str]:
        """Of the episodes: novel and base, or one of them."""
        return sorted({row["kind"] for row in self.listed.values["episodes"]}, reverse=True)

    @property
    def sigmas(self) -> float:
        """Radius of what the detector calls its 2 σ ellipse."""
        return float(stated_ellipses(self.detector).get("ellipse_radii", (1.0, 2.0, 3.0))[1])

    def rng(self, figure: str) -> np.random.Generator:
        """The draws of one figure, whatever other figures are drawn."""
        return np.random.default_rng(np.random.SeedSequence([self.seed, *figure.encode()]))

    def title(self, figure: str) -> str:
        """What a sheet says of itself."""
        values = self.listed.values
        unseen = f", {values['unseen']} unseen" if values["unseen"] else ""
        return f"{figure}: {values['data']}{unseen} · {self.detector.name} · list {self.of_list[:12]}, seed {self.seed}"

    def ask(self, chosen: list[Asked], occluder: Occluder, probability: float) -> list[Asked]:
        """The same queries with keypoints hidden, in the same order."""
        rows = [self.listed.values["episodes"][one.index] for one in chosen]
        rows = [{**row, "queries": [one.view.record.id]} for row, one in zip(rows, chosen, strict=True)]
        hidden = replace(_with_episodes(self.listed, rows), occluder=occluder, probability=probability)
        encoded = encode_list(self.detector, hidden, saliency_of=self.saliency_of, known=self.encoded, track=self.track)
        found = predict(self.detector, hidden, encoded, self.track)
        return [replace(one, index=before.index) for one, before in zip(found, chosen, strict=True)]


def draw_episodes(listed: FrozenList, episodes: int, seed: int) -> FrozenList:
    """So many episodes of each kind, drawn by the seed, in the order of the list; all where there are no more."""
    rows, kept = listed.values["episodes"], set[int]()
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"episodes"]))
    for kind in sorted({row["kind"] for row in rows}):
        of_kind = [index for index, row in enumerate(rows) if row["kind"] == kind]
        kept.update(rng.choice(of_kind, min(episodes, len(of_kind)), replace=False).tolist())
    return _with_episodes(listed, [rows[index] for index in sorted(kept)])


def predict(detector: Detector, listed: FrozenList, encoded: EncodedList, track: Track) -> list[Asked]:
    """Ask for every query of a list."""
    rows = []
    for index in track(range(len(listed)), len(listed), "predicting"):
        episode, pack, queries = learn_episode(detector, listed, index, encoded)
        rows.extend(rows_of(index, episode, detector.locate(pack, queries)))
    return judge(listed, rows)


def judge(listed: FrozenList, rows: list[dict[str, Any]]) -> list[Asked]:
    """Rows of a prediction file (``salvit.evaluate.rows_of``) beside the truth, in the order of the list."""
    by_query = {(row["episode"], row["query"]): row for row in rows}
    outcomes = compare(Predictions({"list_hash": listed.hash}, by_query), listed)
    errors, judged, start = outcomes.distance / outcomes.box_side, [], 0
    for index in range(len(listed)):
        episode = listed.draw(index)
        for number, view in enumerate(episode.queries):
            row, part = by_query[index, view.record.id], slice(start, start + len(episode.names))
            points, covariances = (np.asarray(row[key], dtype=np.float64) for key in ("points", "covariances"))
            truth = select_keypoints(view.record, episode.names)[0]
            judged.append(Asked(index, episode, number, points, covariances, truth, outcomes.valid[part], errors[part]))
            start = part.stop
    return judged


def _with_episodes(listed: FrozenList, rows: list[dict[str, Any]]) -> FrozenList:
    values = {**listed.values, "episodes": rows}
    return replace(listed, values={**values, "hash": list_hash(values)})
