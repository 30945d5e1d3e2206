"""What the exit code of a command says beyond 0, all went well, and 1, an error (README.md)."""

from __future__ import annotations

NOTHING_DONE = 1
"""Nothing could be done."""
SOME_FAILED = 3
"""Some pictures, marks or jobs could not be used or done (each is named), and the rest were."""
INTERRUPTED = 130
"""Ctrl-C; what was done until then is saved."""
