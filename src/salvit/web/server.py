"""Starts a project's server: one server for a project, an address to open, a clean end."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from filelock import FileLock, Timeout

from salvit.projects import Project
from salvit.web.app import build_app
from salvit.web.guard import check_listening
from salvit.web.limits import Limits
from salvit.web.site import build_site
from salvit.web.uploads import add_files, scan_folder


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8700,
    token: str | None = None,
    add: Sequence[Path] = (),
    models: Sequence[Path] = (),
    device: str = "auto",
    limits: Limits | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve a project until it is interrupted.

    Args:
        folder: The project; it is made where it does not exist, and pictures in it belong to it.
        host: The address to listen on.
        port: 0: any free one.
        token: What others must know; ``new`` makes one. Needed beyond this machine.
        add: Pictures and folders elsewhere that belong to the project and stay where they are.
        models: Folders with trained models.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
        limits: What is taken at most.
        ready: Told the address once the server listens.
    """
    token = secrets.token_urlsafe(24) if token == "new" else token
    check_listening(host, token)
    limits = limits or Limits()
    project = Project(folder)
    lock = FileLock(project.home / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"{folder} is open in another `salvit serve`; use that one, or end it first") from None
    try:
        _take_in(project, add, limits)
        app = build_app(build_site(project, limits, device=device, model_folders=models), host=host, token=token)
        listening = _listen(host, port)
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listening.getsockname()[1]}"
        ready(f"{address}/enter?token={token}" if token else address)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        lock.release()


def _take_in(project: Project, add: Sequence[Path], limits: Limits) -> None:
    from salvit.predict import find_images

    scan_folder(project, limits)
    paths, failures = find_images([str(path) for path in add])
    if failures:
        raise ValueError(failures[0].reason)
    files = ((str(path.resolve()), path.resolve()) for path in paths)
    add_files(project, files, project.known_paths(), limits)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)  # who opens the printed address at once waits, and is not turned away
    except OSError as problem:
        listening.close()
        raise OSError(f"cannot listen on {host}:{port} ({problem.strerror}); choose another with --port") from problem
    return listening
