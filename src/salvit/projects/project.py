"""What people do to a project: add pictures, name keypoints, mark, box, link. Each call is saved when it returns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from salvit.geometry import Window, is_inside
from salvit.projects.paths import resolve_inside
from salvit.projects.store import Conflict, NotFound, Store

Kind = Literal["placed", "confirmed", "absent"]
LinkKind = Literal["skeleton", "pair"]
DEFAULTS: dict[str, Any] = {"model": "lite", "saliency": "model", "threshold": 0.5, "live": False}
"""Settings of a new project; ``live``: points are found again after each change; ``saliency``: the model's own."""


@dataclass(frozen=True, slots=True)
class Change:
    """One mark as a person wants it."""

    object: int
    keypoint: int
    kind: Kind | None
    """None removes the mark."""
    x: float = 0.0
    y: float = 0.0
    revision: int = 0
    """Revision of the mark that the person saw; 0: none was there."""


class Project:
    """A folder with pictures and its state in ``.salvit/project.sqlite``."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; expected a folder for the project")
        self.folder = folder.resolve()
        self.home = self.folder / ".salvit"
        self.home.mkdir(parents=True, exist_ok=True)
        self.store = Store(self.home / "project.sqlite")
        self._reads = 0

    # --- what there is ----------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """All settings."""
        row = self.store.row("SELECT value FROM meta WHERE key = 'settings'")
        return DEFAULTS | (json.loads(row[0]) if row else {})

    def overview(self) -> dict[str, Any]:
        """Everything but the pictures."""
        with self.store.lock:
            keypoints = self.store.rows("SELECT id, name, revision FROM keypoints WHERE deleted = 0 ORDER BY id")
            links = self.store.rows(
                "SELECT kind, first, second FROM links JOIN keypoints a ON a.id = first JOIN keypoints b ON b.id = "
                "second WHERE a.deleted = 0 AND b.deleted = 0"
            )
            pictures = self.store.row("SELECT COUNT(*) FROM images WHERE deleted = 0")
            assert pictures is not None
            return {
                "name": self.folder.name,
                "revision": self.store.revision,
                "pictures": pictures[0],
                "keypoints": [dict(row) for row in keypoints],
                "skeleton": [[row["first"], row["second"]] for row in links if row["kind"] == "skeleton"],
                "pairs": [[row["first"], row["second"]] for row in links if row["kind"] == "pair"],
                "settings": self.settings(),
            }

    def pictures(
        self, ids: Sequence[int] | None = None, *, offset: int = 0, limit: int = 1_000_000
    ) -> list[dict[str, Any]]:
        """Pictures with their objects and points; ``read`` orders what was read: the higher, the newer."""
        chosen = None if ids is None else json.dumps(list(ids))
        page = (
            "SELECT id FROM images WHERE deleted = 0 AND (?1 IS NULL OR id IN (SELECT value FROM json_each(?1))) "
            "ORDER BY id LIMIT ?2 OFFSET ?3"
        )
        with self.store.lock:
            self._reads += 1
            images = self.store.rows(
                f"SELECT id, path, width, height, problem FROM images WHERE id IN ({page}) ORDER BY id",
                chosen, limit, offset,
            )  # fmt: skip
            objects = self.store.rows(
                f"SELECT * FROM objects WHERE deleted = 0 AND image IN ({page}) ORDER BY image, id",
                chosen, limit, offset,
            )  # fmt: skip
            points = self.store.rows(
                f"""SELECT o.id AS object, k.id AS keypoint, m.kind, m.revision, m.x AS mx, m.y AS my,
                    p.x, p.y, p.score, p.presence, p.xx, p.xy, p.yy
                FROM objects o CROSS JOIN keypoints k
                LEFT JOIN marks m ON m.object = o.id AND m.keypoint = k.id
                LEFT JOIN predictions p ON p.object = o.id AND p.keypoint = k.id
                WHERE o.deleted = 0 AND k.deleted = 0 AND (m.object IS NOT NULL OR p.object IS NOT NULL)
                    AND o.image IN ({page}) ORDER BY o.id, k.id""",
                chosen, limit, offset,
            )  # fmt: skip
            read = self._reads
        points_of = {key: [_point(row) for row in rows] for key, rows in groupby(points, lambda row: row["object"])}
        objects_of = {
            key: [_object(row, points_of.get(row["id"], [])) for row in rows]
            for key, rows in groupby(objects, lambda row: row["image"])
        }
        return [dict(row) | {"read": read, "objects": objects_of.get(row["id"], [])} for row in images]

    def picture(self, image: int) -> dict[str, Any]:
        """One picture."""
        found = self.pictures([image])
        if not found:
            raise NotFound(f"there is no picture {image} in this project")
        return found[0]

    def file(self, image: int) -> Path:
        """The picture's file: inside the project's folder, or where the command line said that it lies."""
        row = self.store.row("SELECT path FROM images WHERE id = ? AND deleted = 0", image)
        if row is None:
            raise NotFound(f"there is no picture {image} in this project")
        return self.locate(row["path"])

    def locate(self, path: str) -> Path:
        """The file of a path as the table holds it: absolute ones come from the command line only."""
        return Path(path) if Path(path).is_absolute() else resolve_inside(self.folder, path)

    # --- pictures, objects ------------------------------------------------------------------------------------------

    def add_images(self, found: Sequence[tuple[str, tuple[int, int]]]) -> list[int]:
        """Add pictures by path (relative to the folder) and (height, width); removed ones come back as they were."""
        with self.store.change() as (connection, revision):
            numbers = []
            for path, (height, width) in found:
                row = connection.execute("SELECT id FROM images WHERE path = ?", (path,)).fetchone()
                if row is not None:
                    connection.execute("UPDATE images SET deleted = 0, revision = ? WHERE id = ?", (revision, row[0]))
                    numbers.append(int(row[0]))
                    continue
                cursor = connection.execute(
                    "INSERT INTO images (path, width, height, revision) VALUES (?, ?, ?, ?)",
                    (path, width, height, revision),
                )
                assert cursor.lastrowid is not None
                numbers.append(cursor.lastrowid)
                connection.execute("INSERT INTO objects (image, revision) VALUES (?, ?)", (numbers[-1], revision))
        return numbers

    def known_paths(self) -> set[str]:
        """Paths of all pictures, also of those that were removed."""
        return {row[0] for row in self.store.rows("SELECT path FROM images")}

    def remove_image(self, image: int, *, deleted: bool = True) -> None:
        """Take a picture out of the project, or back in; its file stays where it is."""
        with self.store.change() as (connection, revision):
            found = connection.execute(
                "UPDATE images SET deleted = ?, revision = ? WHERE id = ?", (deleted, revision, image)
            )
            if not found.rowcount:
                raise NotFound(f"there is no picture {image} in this project")
            drop_orphans(connection)

    def add_object(self, image: int, box: Window) -> int:
        """Another animal in a picture, by its box."""
        picture = self.picture(image)
        kept = _check_box(box, picture)
        with self.store.change() as (connection, revision):
            cursor = connection.execute(
                "INSERT INTO objects (image, x1, y1, x2, y2, revision) VALUES (?, ?, ?, ?, ?, ?)",
                (image, *kept, revision),
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def change_object(self, number: int, box: Window | None, *, deleted: bool, revision: int) -> int:
        """Give an object another box (None: the whole picture), remove it or bring it back; returns its picture."""
        row = self.store.row("SELECT * FROM objects WHERE id = ?", number)
        if row is None:
            raise NotFound(f"there is no object {number} in this project")
        kept = (None,) * 4 if box is None else _check_box(box, self.picture(row["image"]))
        with self.store.change() as (connection, now):
            _check_revision(connection, "objects", number, revision)
            others = connection.execute(
                "SELECT COUNT(*) FROM objects WHERE image = ? AND deleted = 0 AND id != ?", (row["image"], number)
            ).fetchone()[0]
            if deleted and not others:
                raise ValueError("a picture keeps at least one object; remove its box instead")
            connection.execute(
                "UPDATE objects SET x1 = ?, y1 = ?, x2 = ?, y2 = ?, deleted = ?, revision = ? WHERE id = ?",
                (*kept, deleted, now, number),
            )
            connection.execute("DELETE FROM predictions WHERE object = ?", (number,))
            drop_orphans(connection)
        return int(row["image"])

    # --- keypoints, links, settings ---------------------------------------------------------------------------------

    def add_keypoint(self, name: str) -> int:
        """A new keypoint; names differ."""
        try:
            with self.store.change() as (connection, revision):
                cursor = connection.execute(
                    "INSERT INTO keypoints (name, revision) VALUES (?, ?)", (_clean(name), revision)
                )
                assert cursor.lastrowid is not None
                return cursor.lastrowid
        except sqlite3.IntegrityError:
            raise Conflict(f"a keypoint named {_clean(name)!r} is there already; choose another name") from None

    def change_keypoint(self, number: int, name: str, *, deleted: bool, revision: int) -> None:
        """Rename a keypoint, remove it with its marks, or bring both back."""
        try:
            with self.store.change() as (connection, now):
                _check_revision(connection, "keypoints", number, revision)
                connection.execute(
                    "UPDATE keypoints SET name = ?, deleted = ?, revision = ? WHERE id = ?",
                    (_clean(name), deleted, now, number),
                )
        except sqlite3.IntegrityError:
            raise Conflict(f"a keypoint named {_clean(name)!r} is there already; choose another name") from None

    def set_link(self, kind: LinkKind, first: int, second: int, *, present: bool) -> None:
        """Link two keypoints in drawings (skeleton), or as left and right of each other (pair); or unlink them."""
        if first == second:
            raise ValueError("a keypoint cannot be linked with itself; choose two")
        with self.store.change() as (connection, _):
            for number in (first, second):
                if not connection.execute("SELECT 1 FROM keypoints WHERE id = ?", (number,)).fetchone():
                    raise NotFound(f"there is no keypoint {number} in this project")
            connection.execute(
                "DELETE FROM links WHERE kind = ? AND ((first = ? AND second = ?) OR (first = ? AND second = ?))",
                (kind, first, second, second, first),
            )
            if present:
                connection.execute("INSERT INTO links VALUES (?, ?, ?)", (kind, first, second))

    def change_settings(self, values: dict[str, Any]) -> None:
        """Change some settings."""
        with self.store.change() as (connection, _):
            merged = json.dumps(self.settings() | values)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('settings', ?)", (merged,))

    # --- marks ------------------------------------------------------------------------------------------------------

    def mark(self, changes: Sequence[Change]) -> list[int]:
        """Place, confirm or remove marks, all or none; returns the pictures that they are in.

        Raises:
            Conflict: A mark is not the one that the person saw.
        """
        touched: dict[int, None] = {}
        with self.store.change() as (connection, revision):
            for change in changes:
                touched[_set_mark(connection, change, revision)] = None
            drop_orphans(connection)
        return list(touched)


def _set_mark(connection: sqlite3.Connection, change: Change, revision: int) -> int:
    image = connection.execute(
        "SELECT i.id, i.width, i.height FROM objects o JOIN images i ON i.id = o.image WHERE o.id = ? "
        "AND o.deleted = 0 AND i.deleted = 0", (change.object,),
    ).fetchone()  # fmt: skip
    name = connection.execute("SELECT name FROM keypoints WHERE id = ? AND deleted = 0", (change.keypoint,)).fetchone()
    if image is None or name is None:
        raise NotFound(f"object {change.object} or keypoint {change.keypoint} is not in this project any more")
    present = connection.execute(
        "SELECT revision FROM marks WHERE object = ? AND keypoint = ?", (change.object, change.keypoint)
    ).fetchone()
    if (0 if present is None else present[0]) != change.revision:
        raise Conflict(f"{name[0]} was changed in another window in the meantime; what is shown now is that change")
    if change.kind is None:
        connection.execute("DELETE FROM marks WHERE object = ? AND keypoint = ?", (change.object, change.keypoint))
        return int(image["id"])
    if change.kind != "absent" and not is_inside([change.x, change.y], (image["height"], image["width"])):
        raise ValueError(
            f"{name[0]} at ({change.x:g}, {change.y:g}) lies outside the picture of {image['width']}×{image['height']} "
            "pixels; mark a place inside"
        )
    connection.execute(
        "INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?, ?, ?)",
        (change.object, change.keypoint, change.x, change.y, change.kind, revision),
    )
    return int(image["id"])


def drop_orphans(connection: sqlite3.Connection) -> None:
    """Forget what was found of keypoints that nobody shows any more."""
    connection.execute(
        "DELETE FROM predictions WHERE keypoint NOT IN (SELECT m.keypoint FROM marks m JOIN objects o ON o.id = "
        "m.object JOIN images i ON i.id = o.image WHERE m.kind != 'absent' AND o.deleted = 0 AND i.deleted = 0)"
    )


def _check_revision(connection: sqlite3.Connection, table: str, number: int, seen: int) -> None:
    row = connection.execute(f"SELECT revision FROM {table} WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise NotFound(f"there is nothing with number {number} in {table}")
    if row[0] != seen:
        raise Conflict("this was changed in another window in the meantime; what is shown now is that change")


def _check_box(box: Window, picture: dict[str, Any]) -> Window:
    x1, y1, x2, y2 = (float(side) for side in box)
    x1, y1 = max(0.0, x1), max(0.0, y1)
    x2, y2 = min(float(picture["width"]), x2), min(float(picture["height"]), y2)
    if x2 - x1 < 2 or y2 - y1 < 2:
        raise ValueError(f"the box {tuple(box)} holds nothing of the picture; expected x1 < x2 and y1 < y2 inside it")
    return (x1, y1, x2, y2)


def _clean(name: str) -> str:
    cleaned = " ".join(name.split())
    if not cleaned or len(cleaned) > 60:
        raise ValueError("a keypoint's name has 1 to 60 letters")
    return cleaned


def _object(row: sqlite3.Row, points: list[dict[str, Any]]) -> dict[str, Any]:
    box = None if row["x1"] is None else [row["x1"], row["y1"], row["x2"], row["y2"]]
    return {"id": row["id"], "box": box, "revision": row["revision"], "points": points}


def _point(row: sqlite3.Row) -> dict[str, Any]:
    """A mark where there is one, and what was found otherwise."""
    if row["kind"] is not None:
        place = {"x": row["mx"], "y": row["my"], "kind": row["kind"], "revision": row["revision"]}
        return {"keypoint": row["keypoint"], **place, "score": 1.0, "presence": float(row["kind"] != "absent")}
    return {
        "keypoint": row["keypoint"], "x": row["x"], "y": row["y"], "kind": "found", "revision": 0,
        "score": row["score"], "presence": row["presence"], "covariance": [row["xx"], row["xy"], row["yy"]],
    }  # fmt: skip
