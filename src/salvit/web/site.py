"""What all routes share: the project, its worker, who listens, and the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi import Path as PathParameter

from salvit.projects import Project
from salvit.web.engine import Engine
from salvit.web.events import Hub
from salvit.web.limits import Limits
from salvit.web.worker import Worker


@dataclass(frozen=True, slots=True)
class Site:
    """One server's project."""

    project: Project
    engine: Engine
    worker: Worker
    hub: Hub
    limits: Limits
    model_folders: tuple[Path, ...]

    def tell_pictures(self, images: Sequence[int]) -> list[dict[str, Any]]:
        """Tell all pages how some pictures are now, and return them."""
        pictures = self.project.pictures(images)
        self.hub.publish("pictures", pictures)
        return pictures

    def tell_project(self) -> dict[str, Any]:
        """Tell all pages how the project is now, and return it."""
        overview = self.overview()
        self.hub.publish("project", overview)
        return overview

    def overview(self) -> dict[str, Any]:
        """Everything but the pictures."""
        limits = {"file_bytes": self.limits.file_bytes, "upload_files": self.limits.upload_files,
                  "upload_bytes": self.limits.upload_bytes, "pictures": self.limits.pictures}  # fmt: skip
        return self.project.overview() | {"limits": limits, "jobs": self.engine.work.jobs(5)}


def build_site(project: Project, limits: Limits, *, device: str = "auto", model_folders: Sequence[Path] = ()) -> Site:
    """Put a site together; its worker is not started."""
    hub = Hub(limits.streams)
    engine = Engine(project, limits, device=device)
    worker = Worker(project, engine, hub.publish)
    return Site(project, engine, worker, hub, limits, (project.folder, *model_folders))


def _site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


SiteOf = Annotated[Site, Depends(_site_of)]
Id = Annotated[int, PathParameter(ge=1, le=2**53)]
