"""The server: routes, the page's own files, and who may call. ``build_app`` is all that others need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

import salvit
from salvit.projects import Conflict, NotFound
from salvit.web import routes_pictures, routes_project, schemas
from salvit.web.engine import Unreadable
from salvit.web.guard import COOKIE, Guard
from salvit.web.site import Site

_STATIC = Path(__file__).parent / "static"
_REFUSALS = {409: "Somebody else changed it in the meantime", 404: "It is not in this project", 400: "Not possible"}


def build_app(site: Site, *, host: str = "127.0.0.1", token: str | None = None) -> FastAPI:
    """The ASGI application of one project; its worker runs while the application does."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        site.worker.start()
        yield
        site.worker.stop()
        site.project.store.close()

    app = FastAPI(
        title="salvit",
        version=salvit.__version__,
        summary="Mark keypoints on one picture, find them in all others, correct, teach.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        responses={status: {"model": schemas.Problem, "description": text} for status, text in _REFUSALS.items()},
    )
    app.state.site = site
    app.add_middleware(Guard, host=host, token=token, limits=site.limits)
    app.include_router(routes_project.router)
    app.include_router(routes_pictures.router)
    _answer_problems(app)
    _add_page(app)
    return app


def _answer_problems(app: FastAPI) -> None:
    """Errors that a person can mend, as answers."""
    statuses: tuple[tuple[type[Exception], int], ...] = (
        (NotFound, 404), (Conflict, 409), (Unreadable, 422), (ValueError, 400), (FileNotFoundError, 404),
        (OSError, 422),
    )  # fmt: skip

    def answer(request: Request, problem: Exception) -> JSONResponse:
        status = next(status for kind, status in statuses if isinstance(problem, kind))
        return JSONResponse({"detail": str(problem.args[0] if problem.args else problem)}, status)

    def name_fields(request: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, RequestValidationError)
        wrong = [f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}" for error in problem.errors()[:5]]
        return JSONResponse({"detail": "; ".join(wrong)}, 422)

    for kind, _ in statuses:
        app.add_exception_handler(kind, answer)
    app.add_exception_handler(RequestValidationError, name_fields)


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/docs", include_in_schema=False)
    def docs() -> FileResponse:
        return FileResponse(_STATIC / "api.html", headers={"cache-control": "no-cache"})

    @app.get("/enter", include_in_schema=False)
    def enter(token: str = "") -> RedirectResponse:
        """Only reached with the right token: keep it in a cookie, and out of the address."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", max_age=30 * 24 * 3600)
        return answer

    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
