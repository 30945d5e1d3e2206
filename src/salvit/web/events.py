"""Server-sent events: what changes is told to every page that listens, in order, with bounded memory."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

_HEARTBEAT_SECONDS = 15.0
_MOST_WAITING = 200
"""Messages that may wait for one page; a page that is slower than that is told to load everything anew."""


class _Listener:
    def __init__(self) -> None:
        self.waiting: deque[str] = deque()
        self.loop = asyncio.get_running_loop()
        self.ready = asyncio.Event()

    def wake(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self.ready.set)
        except RuntimeError:  # the server is shutting down and its loop is closed
            self.waiting.clear()


class Hub:
    """Passes messages from any thread to all pages."""

    def __init__(self, most_listeners: int) -> None:
        self._lock = threading.Lock()
        self._listeners: set[_Listener] = set()
        self._most = most_listeners

    @property
    def is_full(self) -> bool:
        """Whether no further page may listen."""
        return len(self._listeners) >= self._most

    def publish(self, kind: str, data: Any) -> None:
        """Tell all pages."""
        message = f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
        with self._lock:
            for listener in self._listeners:
                if len(listener.waiting) >= _MOST_WAITING:
                    listener.waiting.clear()
                    listener.waiting.append("event: reload\ndata: {}\n\n")
                else:
                    listener.waiting.append(message)
                listener.wake()

    async def listen(self) -> AsyncIterator[str]:
        """Messages for one page, as they come; a comment now and then shows a dead connection."""
        listener = _Listener()
        with self._lock:
            self._listeners.add(listener)
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while True:
                try:
                    await asyncio.wait_for(listener.ready.wait(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                listener.ready.clear()
                with self._lock:
                    messages = "".join(listener.waiting)
                    listener.waiting.clear()
                if messages:
                    yield messages
        finally:
            with self._lock:
                self._listeners.discard(listener)
