"""The SQLite file of a project: its tables, one transaction for each change, revision numbers.

A row that people change has a ``revision``: the number of the change that wrote it last. Who changes a row says which
revision they saw; where it is no longer that one, the change is refused, so that two people never overwrite each other.
Rows are not deleted but marked so, because a deletion can be undone.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE images (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, width INTEGER NOT NULL, height INTEGER NOT NULL,
    problem TEXT, deleted INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL
);
CREATE TABLE objects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, image INTEGER NOT NULL REFERENCES images,
    x1 REAL, y1 REAL, x2 REAL, y2 REAL, deleted INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL
);
CREATE INDEX objects_of_image ON objects (image);
CREATE TABLE keypoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, deleted INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL
);
CREATE UNIQUE INDEX names_differ ON keypoints (name) WHERE deleted = 0;
CREATE TABLE links (kind TEXT NOT NULL, first INTEGER NOT NULL REFERENCES keypoints,
    second INTEGER NOT NULL REFERENCES keypoints, PRIMARY KEY (kind, first, second)) WITHOUT ROWID;
CREATE TABLE marks (
    object INTEGER NOT NULL REFERENCES objects, keypoint INTEGER NOT NULL REFERENCES keypoints,
    x REAL NOT NULL, y REAL NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('placed', 'confirmed', 'absent')),
    revision INTEGER NOT NULL, PRIMARY KEY (object, keypoint)
) WITHOUT ROWID;
CREATE INDEX marks_of_keypoint ON marks (keypoint);
CREATE TABLE predictions (
    object INTEGER NOT NULL REFERENCES objects, keypoint INTEGER NOT NULL REFERENCES keypoints,
    x REAL NOT NULL, y REAL NOT NULL, score REAL NOT NULL, presence REAL NOT NULL,
    xx REAL NOT NULL, xy REAL NOT NULL, yy REAL NOT NULL, stamp TEXT NOT NULL, PRIMARY KEY (object, keypoint)
) WITHOUT ROWID;
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, state TEXT NOT NULL, done INTEGER NOT NULL,
    total INTEGER NOT NULL, message TEXT NOT NULL DEFAULT '', created REAL NOT NULL, finished REAL
);
"""


class NotFound(LookupError):
    """What was asked for is not in the project."""


class Conflict(Exception):
    """Somebody else changed the same thing in the meantime; nothing was changed now."""


class Store:
    """One connection that all threads share, one at a time; a change is one transaction, on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        try:
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 10000"):
                self._connection.execute(f"PRAGMA {setting}")
            self._prepare(path)
        except sqlite3.DatabaseError as problem:
            self._connection.close()
            raise OSError(f"{path} is not a project of salvit, or it is damaged ({problem})") from problem

    def _prepare(self, path: Path) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            self._connection.close()
            raise ValueError(f"{path} was written by a newer salvit (schema {version}); update salvit to open it")
        if version == 0:
            self._connection.executescript(
                f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION};"
                "INSERT INTO meta VALUES ('revision', '0'); COMMIT;"
            )

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._connection.close()

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of a query."""
        with self.lock:
            return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        with self.lock:
            found: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
            return found

    @property
    def revision(self) -> int:
        """The number of the last change that a person made."""
        row = self.row("SELECT value FROM meta WHERE key = 'revision'")
        assert row is not None
        return int(row[0])

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing."""
        with self.lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def change(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """A transaction that a person asked for, with its revision number."""
        with self.transaction() as connection:
            revision = self.revision + 1
            connection.execute("UPDATE meta SET value = ? WHERE key = 'revision'", (str(revision),))
            yield connection, revision
