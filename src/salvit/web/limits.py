"""What one server takes at most; more is refused with a message that names the limit."""

from __future__ import annotations

from dataclasses import dataclass

from salvit.data.images import MAX_PIXELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what comes in and on what is kept."""

    pictures: int = 20_000
    """Pictures in a project."""
    upload_files: int = 100
    """Files in one upload; the page sends more in several."""
    file_bytes: int = 64 * 2**20
    """Bytes of one picture."""
    upload_bytes: int = 256 * 2**20
    """Bytes of one upload."""
    body_bytes: int = 2 * 2**20
    """Bytes of any other request."""
    pixels: int = MAX_PIXELS
    """Pixels of one picture."""
    streams: int = 100
    """Pages that listen at once."""
    memory_bytes: int = 256 * 2**20
    """Features that are held in memory."""
    disk_bytes: int = 4 * 2**30
    """Features that are kept in the project's folder."""
