"""Projects: a folder of pictures, and what people and detectors said about them, in one SQLite file."""

from __future__ import annotations

from salvit.projects.paths import check_name, resolve_inside
from salvit.projects.project import Change, Project
from salvit.projects.store import Conflict, NotFound
from salvit.projects.work import Found, Shot, Target, Work, stamps_of

__all__ = [
    "Change",
    "Conflict",
    "Found",
    "NotFound",
    "Project",
    "Shot",
    "Target",
    "Work",
    "check_name",
    "resolve_inside",
    "stamps_of",
]
