"""Routes of pictures: upload, show, mark, box, explain, export."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response, UploadFile
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from salvit.projects import Change
from salvit.web import exports, schemas, uploads
from salvit.web.explain import explain_object, explain_place
from salvit.web.site import Id, Site, SiteOf

router = APIRouter(prefix="/api", tags=["pictures"])
_KEPT = {"cache-control": "private, max-age=3600"}


@router.get("/pictures", response_model=list[schemas.Picture])
def read_pictures(
    site: SiteOf,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """Pictures with their objects and points."""
    return _json(site.project.pictures(offset=offset, limit=limit))


@router.get("/pictures/{number}", response_model=schemas.Picture)
def read_picture(site: SiteOf, number: Id) -> Response:
    """One picture."""
    return _json(site.project.picture(number))


@router.post("/pictures", status_code=201, response_model=schemas.Added)
def upload(site: SiteOf, files: list[UploadFile]) -> dict[str, Any]:
    """Copy pictures into the project; what is not taken is named in ``refused``."""
    if len(files) > site.limits.upload_files:
        raise HTTPException(413, f"{len(files)} files at once; at most {site.limits.upload_files} are taken")
    if site.project.overview()["pictures"] + len(files) > site.limits.pictures:
        raise HTTPException(413, f"a project holds at most {site.limits.pictures} pictures; make another for the rest")
    added, refused = [], []
    for file in files:
        try:
            added.append(uploads.store_upload(site.project, file.filename or "", file.file, site.limits))
        except (ValueError, OSError) as problem:
            refused.append(str(problem))
    if not added:
        raise HTTPException(415, "; ".join(refused) or "no file was sent")
    numbers = site.project.add_images(list(dict.fromkeys(added)))
    site.worker.corrected()
    site.tell_project()
    return {"pictures": site.tell_pictures(numbers), "refused": refused}


@router.post("/scan", response_model=schemas.Added)
def scan(site: SiteOf) -> dict[str, Any]:
    """Take in pictures that were put into the project's folder."""
    numbers, refused = uploads.scan_folder(site.project, site.limits)
    site.tell_project()
    site.worker.corrected()
    return {"pictures": site.tell_pictures(numbers), "refused": refused}


@router.put("/pictures/{number}", response_model=schemas.Overview)
def change_picture(site: SiteOf, number: Id, change: schemas.PictureChange) -> dict[str, Any]:
    """Take a picture out of the project, or back in; its file stays where it is."""
    site.project.remove_image(number, deleted=change.deleted)
    site.hub.publish("removed", {"picture": number}) if change.deleted else site.tell_pictures([number])
    site.worker.corrected()
    return site.tell_project()


@router.get("/pictures/{number}/file", response_class=FileResponse)
def read_file(site: SiteOf, number: Id) -> FileResponse:
    """The picture itself, in a format that browsers show."""
    return _file(uploads.shown_file(site.project, number, site.limits))


@router.get("/pictures/{number}/thumbnail", response_class=FileResponse)
def read_thumbnail(site: SiteOf, number: Id) -> FileResponse:
    """A small copy of the picture."""
    return _file(uploads.thumbnail(site.project, number, site.limits))


@router.put("/marks", response_model=list[schemas.Picture])
def change_marks(site: SiteOf, body: schemas.MarkChanges) -> list[dict[str, Any]]:
    """Place, confirm or remove marks, all or none; 409 where one is no longer what the person saw."""
    touched = site.project.mark([Change(**change.model_dump()) for change in body.changes])
    pictures = site.tell_pictures(touched)
    site.worker.corrected()
    return pictures


@router.post("/pictures/{number}/objects", status_code=201, response_model=schemas.Picture)
def add_object(site: SiteOf, number: Id, new: schemas.NewObject) -> dict[str, Any]:
    """Another animal in a picture, by its box."""
    site.project.add_object(number, new.box)
    return _changed(site, number)


@router.put("/objects/{number}", response_model=schemas.Picture)
def change_object(site: SiteOf, number: Id, change: schemas.ObjectChange) -> dict[str, Any]:
    """Give an object another box, remove it, or bring it back."""
    image = site.project.change_object(number, change.box, deleted=change.deleted, revision=change.revision)
    return _changed(site, image)


@router.get("/objects/{number}/views", response_model=schemas.Views)
def explain(site: SiteOf, number: Id) -> dict[str, Any]:
    """Maps that show why: saliency, its learnt shape, probability grids, similarity, as the model has them."""
    return site.worker.ask(lambda engine: explain_object(engine, number))


@router.get("/objects/{number}/views/at", response_model=schemas.Views)
def explain_at(
    site: SiteOf,
    number: Id,
    x: Annotated[float, Query(ge=-1e6, le=1e6, allow_inf_nan=False)],
    y: Annotated[float, Query(ge=-1e6, le=1e6, allow_inf_nan=False)],
) -> dict[str, Any]:
    """Maps from one place: where its patch looks (attention), and what resembles it (alike)."""
    return site.worker.ask(lambda engine: explain_place(engine, number, x, y))


@router.get("/export/{format}", response_class=FileResponse)
def export(site: SiteOf, format: str, only_marks: bool = False) -> FileResponse:
    """Everything that is marked and found, as a file; ``only_marks``: without what people did not confirm."""
    file = exports.export(site.project, format, only_marks=only_marks)
    remove = BackgroundTask(shutil.rmtree, file.parent, ignore_errors=True)
    return FileResponse(file, filename=file.name, headers={"cache-control": "no-store"}, background=remove)


@router.get("/pack", response_class=Response)
def read_pack(site: SiteOf) -> Response:
    """What the present marks teach, as a pack: `salvit detect` and other projects can use it."""
    from salvit.packs import save_pack

    pack = site.worker.ask(lambda engine: engine.named_pack())
    with tempfile.TemporaryDirectory(dir=site.project.home) as folder:
        content = save_pack(pack, Path(folder) / "pack.safetensors").read_bytes()
    return Response(content, media_type="application/octet-stream", headers=_download("pack.safetensors"))


def _changed(site: Site, image: int) -> dict[str, Any]:
    (picture,) = site.tell_pictures([image])
    site.worker.corrected()
    return picture


def _json(value: Any) -> Response:
    """Our own rows, as they are: checking thousands of them against their schema would only cost time."""
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")


def _file(path: Path) -> FileResponse:
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is not where it was; put it back, or remove it from the project")
    return FileResponse(path, headers=_KEPT)


def _download(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
