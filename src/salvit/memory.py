"""Keeps memory that a network's layers have just freed, for the next ones."""

from __future__ import annotations

import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 1 << 30


def keep_freed_memory() -> bool:
    """Ask glibc not to give freed blocks back to the system; True where it agreed.

    By default it maps and unmaps every large block anew, and the system clears each page of it: half of the time that a
    small network takes on a CPU. This is a setting of the whole process, so only programs of ours ask for it, never an
    import of the library. On other systems nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_M_TRIM_THRESHOLD, _LARGE))
