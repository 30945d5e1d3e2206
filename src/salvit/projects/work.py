"""What a detector has still to do in a project, and the jobs that ask for it.

A keypoint's **stamp** is a hash of the model and of every mark that people made of it. A prediction keeps the stamp
that it was made with; where that is no longer the keypoint's stamp, it is to be made again. So after a correction
exactly the keypoints that changed run, and after a crash the work goes on: nothing else needs to be remembered.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from salvit.geometry import Window
from salvit.projects.project import Project, drop_orphans
from salvit.projects.store import NotFound

OPEN = ("queued", "running")
"""States of a job that is not over."""


@dataclass(frozen=True, slots=True)
class Target:
    """An object to look at: where it is, and for which keypoints."""

    object: int
    image: int
    path: str
    box: Window | None
    revision: int
    """Of the object: another one means another box."""
    keypoints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shot:
    """One mark that a person made: what a detector learns from."""

    target: Target
    keypoint: int
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Found:
    """One prediction."""

    object: int
    keypoint: int
    x: float
    y: float
    score: float
    presence: float
    covariance: tuple[float, float, float]
    """xx, xy, yy in square pixels."""


class Work:
    """The open work of a project."""

    def __init__(self, project: Project) -> None:
        self._store = project.store

    def shots(self) -> list[Shot]:
        """All marks that people placed or confirmed, never predictions."""
        rows = self._store.rows(
            "SELECT o.*, o.id AS object, i.path, m.keypoint, m.x, m.y FROM marks m JOIN objects o ON o.id = m.object "
            "JOIN images i ON i.id = o.image JOIN keypoints k ON k.id = m.keypoint WHERE m.kind != 'absent' "
            "AND o.deleted = 0 AND i.deleted = 0 AND k.deleted = 0 AND i.problem IS NULL ORDER BY o.id, m.keypoint"
        )
        return [Shot(_target(row), row["keypoint"], row["x"], row["y"]) for row in rows]

    def stale(self, stamps: dict[int, str], limit: int, first: int | None = None) -> list[Target]:
        """Objects with keypoints to find (again), those of the picture ``first`` before the others."""
        rows = self._store.rows(
            """SELECT o.*, o.id AS object, i.path, GROUP_CONCAT(k.id) AS wanted
            FROM objects o JOIN images i ON i.id = o.image
            CROSS JOIN keypoints k JOIN json_each(?1) s ON CAST(s.key AS INTEGER) = k.id
            LEFT JOIN predictions p ON p.object = o.id AND p.keypoint = k.id
            LEFT JOIN marks m ON m.object = o.id AND m.keypoint = k.id
            WHERE o.deleted = 0 AND i.deleted = 0 AND i.problem IS NULL AND k.deleted = 0 AND m.object IS NULL
                AND (p.stamp IS NULL OR p.stamp != s.value)
            GROUP BY o.id ORDER BY (o.image = ?2) DESC, o.image, o.id LIMIT ?3""",
            json.dumps(stamps), first, limit,
        )  # fmt: skip
        return [_target(row, tuple(sorted(int(k) for k in row["wanted"].split(",")))) for row in rows]

    def target(self, number: int) -> Target:
        """One object by its number."""
        row = self._store.row(
            "SELECT o.*, o.id AS object, i.path FROM objects o JOIN images i ON i.id = o.image "
            "WHERE o.id = ? AND o.deleted = 0 AND i.deleted = 0", number,
        )  # fmt: skip
        if row is None:
            raise NotFound(f"there is no object {number} in this project")
        return _target(row)

    def targets(self) -> list[Target]:
        """All objects that can be looked at."""
        rows = self._store.rows(
            "SELECT o.*, o.id AS object, i.path FROM objects o JOIN images i ON i.id = o.image "
            "WHERE o.deleted = 0 AND i.deleted = 0 AND i.problem IS NULL ORDER BY o.id"
        )
        return [_target(row) for row in rows]

    def keep(self, found: Sequence[Found], stamps: dict[int, str], revisions: dict[int, int]) -> None:
        """Save predictions with the stamps that they were made with.

        What was made for an object that has changed in the meantime (its ``revisions`` differ) is not kept.
        """
        values = [
            (f.object, f.keypoint, f.x, f.y, f.score, f.presence, *f.covariance, stamps[f.keypoint],
             f.object, revisions[f.object])
            for f in found
        ]  # fmt: skip
        with self._store.transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO predictions SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ? "
                "WHERE EXISTS (SELECT 1 FROM objects WHERE id = ? AND revision = ?)",
                values,
            )
            drop_orphans(connection)

    def refuse(self, image: int, problem: str) -> None:
        """Note that a picture cannot be read: it is shown so, and not tried again."""
        with self._store.transaction() as connection:
            connection.execute("UPDATE images SET problem = ? WHERE id = ?", (problem, image))

    # --- jobs -------------------------------------------------------------------------------------------------------

    def add_job(self, kind: str) -> int:
        """Ask for a job; one of that kind that is not over serves for this request too."""
        with self._store.transaction() as connection:
            row = connection.execute("SELECT id FROM jobs WHERE kind = ? AND state IN (?, ?)", (kind, *OPEN)).fetchone()
            if row is not None:
                return int(row[0])
            cursor = connection.execute(
                "INSERT INTO jobs (kind, state, done, total, created) VALUES (?, 'queued', 0, 0, ?)",
                (kind, time.time()),
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def open_job(self) -> dict[str, Any] | None:
        """The oldest job that is not over: after a crash, the one that was running."""
        row = self._store.row("SELECT * FROM jobs WHERE state IN (?, ?) ORDER BY id LIMIT 1", *OPEN)
        return None if row is None else dict(row)

    def jobs(self, limit: int = 50) -> list[dict[str, Any]]:
        """The newest jobs."""
        return [dict(row) for row in self._store.rows("SELECT * FROM jobs ORDER BY id DESC LIMIT ?", limit)]

    def job(self, number: int) -> dict[str, Any]:
        """One job."""
        row = self._store.row("SELECT * FROM jobs WHERE id = ?", number)
        if row is None:
            raise NotFound(f"there is no job {number} in this project")
        return dict(row)

    def update_job(self, number: int, state: str, *, done: int = 0, total: int = 0, message: str = "") -> None:
        """Write how far a job is; one that was cancelled stays so."""
        finished = None if state in OPEN else time.time()
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET state = ?, done = ?, total = ?, message = ?, finished = ? "
                "WHERE id = ? AND state IN (?, ?)",
                (state, done, total, message, finished, number, *OPEN),
            )


def stamps_of(shots: Sequence[Shot], model: str) -> dict[int, str]:
    """The stamp of each keypoint that has a shot."""
    hashes: dict[int, Any] = {}
    for shot in shots:
        kept = hashes.setdefault(shot.keypoint, hashlib.sha256(model.encode()))
        kept.update(repr((shot.target.object, shot.target.box, shot.x, shot.y)).encode())
    return {keypoint: kept.hexdigest()[:16] for keypoint, kept in hashes.items()}


def _target(row: Any, wanted: tuple[int, ...] = ()) -> Target:
    box = None if row["x1"] is None else (row["x1"], row["y1"], row["x2"], row["y2"])
    return Target(row["object"], row["image"], row["path"], box, row["revision"], wanted)
