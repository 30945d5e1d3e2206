"""Routes of the project itself: keypoints, links, settings, jobs, events."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import StreamingResponse

from salvit.web import schemas
from salvit.web.exports import present_formats
from salvit.web.models import present_models, present_saliency
from salvit.web.site import Id, SiteOf

router = APIRouter(prefix="/api", tags=["project"])


@router.get("/project", response_model=schemas.Overview)
def read_project(site: SiteOf) -> dict[str, Any]:
    """Everything but the pictures."""
    return site.overview()


@router.get("/choices", response_model=schemas.Choices)
def read_choices(site: SiteOf) -> dict[str, Any]:
    """Models, sources of saliency and export formats that are here."""
    return {
        "models": present_models(site.model_folders),
        "saliency": present_saliency(),
        "formats": present_formats(),
    }


@router.patch("/settings", response_model=schemas.Overview)
def change_settings(site: SiteOf, change: schemas.SettingsChange) -> dict[str, Any]:
    """Change settings; another model finds all points again."""
    values = change.model_dump(exclude_none=True)
    if change.model is not None and change.model not in {model["name"] for model in present_models(site.model_folders)}:
        raise ValueError(f"the model {change.model!r} is not on this machine; GET /api/choices lists those that are")
    if change.saliency is not None and change.saliency not in present_saliency():
        raise ValueError(f"the saliency {change.saliency!r} is not on this machine; GET /api/choices lists what is")
    site.project.change_settings(values)
    if change.model is not None or change.saliency is not None:
        site.worker.corrected()
    return site.tell_project()


@router.post("/keypoints", status_code=201, response_model=schemas.Keypoint)
def add_keypoint(site: SiteOf, new: schemas.NewKeypoint) -> dict[str, Any]:
    """Name a new keypoint."""
    number = site.project.add_keypoint(new.name)
    keypoints = site.tell_project()["keypoints"]
    return next(dict(point) for point in keypoints if point["id"] == number)


@router.put("/keypoints/{number}", response_model=schemas.Overview)
def change_keypoint(site: SiteOf, number: Id, change: schemas.KeypointChange) -> dict[str, Any]:
    """Rename a keypoint, remove it with its marks, or bring both back."""
    site.project.change_keypoint(number, change.name, deleted=change.deleted, revision=change.revision)
    site.worker.corrected()
    return site.tell_project()


@router.put("/links", response_model=schemas.Overview)
def set_link(site: SiteOf, link: schemas.Link) -> dict[str, Any]:
    """Link two keypoints in drawings, or as left and right of each other; or unlink them."""
    site.project.set_link(link.kind, link.first, link.second, present=link.present)
    return site.tell_project()


@router.get("/jobs", response_model=list[schemas.Job])
def read_jobs(site: SiteOf) -> list[dict[str, Any]]:
    """The newest jobs."""
    return site.engine.work.jobs()


@router.get("/jobs/{number}", response_model=schemas.Job)
def read_job(site: SiteOf, number: Id) -> dict[str, Any]:
    """One job."""
    return site.engine.work.job(number)


@router.post("/jobs", status_code=202, response_model=schemas.Job)
def add_job(site: SiteOf, new: schemas.NewJob) -> dict[str, Any]:
    """Find the marked points in all pictures; from then on they are found again after each change.

    ``transductive``: the pictures themselves refine what was taught (salvit.transductive). What it finds of a keypoint
    stands until a mark of that keypoint changes.
    """
    if not site.project.settings()["live"]:
        site.project.change_settings({"live": True})
        site.tell_project()
    return site.engine.work.job(site.worker.request(new.kind))


@router.delete("/jobs/{number}", response_model=schemas.Job)
def cancel_job(site: SiteOf, number: Id) -> dict[str, Any]:
    """Stop a job after its present step, and do not find points again by itself."""
    job = site.engine.work.job(number)
    site.engine.work.update_job(number, "cancelled", done=job["done"], total=job["total"])
    site.project.change_settings({"live": False})
    site.tell_project()
    job = site.engine.work.job(number)
    site.hub.publish("job", job)
    return job


@router.post("/look", status_code=204)
def look(site: SiteOf, look: schemas.Look) -> None:
    """Say which picture is on the screen: it comes first."""
    site.worker.look_at(look.picture)


@router.get("/events", response_class=StreamingResponse)
async def listen(site: SiteOf) -> StreamingResponse:
    """Server-sent events: ``pictures``, ``project``, ``job``; ``reload`` after too many were missed."""
    if site.hub.is_full:
        raise HTTPException(429, f"{site.limits.streams} pages listen already; close some")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(site.hub.listen(), media_type="text/event-stream", headers=headers)
