"""Who may call: the Host and Origin of a request, the token, and how much it may send.

Without these checks any web site that a person visits could talk to the server on their machine, by requests across
origins or by a name of its own that it lets point to 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from salvit.web.limits import Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "salvit_token"
SHORTEST_TOKEN = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
     b"form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]  # fmt: skip


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listening(host: str, token: str | None) -> None:
    """Refuse to listen beyond this machine without a token, and tokens that can be guessed."""
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise ValueError(f"the token must have at least {SHORTEST_TOKEN} plain characters; `--token new` makes one")
    if token is None and not is_loopback(host):
        raise ValueError(
            f"--host {host} can be reached from other machines, so a token is needed; add `--token new` to have one "
            "made, or listen on 127.0.0.1"
        )


class Guard:
    """ASGI middleware that lets good requests through and answers all others itself."""

    def __init__(self, app: App, *, host: str, token: str | None, limits: Limits) -> None:
        self._app, self._token, self._limits = app, token, limits
        self._hosts = _LOOPBACK_NAMES | {host.lower()}
        self._any_address = not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refuse(scope, headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        await self._limited(scope, receive, send)

    def _refuse(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._knows(host):
            return 421, f"this server is not known as {host!r}; open it under the address that it printed"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, f"requests from the site {origin!r} are not taken; use the server's own page"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "requests from other sites are not taken; use the server's own page"
        if self._token is not None and not self._has_token(scope, headers):
            return 401, "a token is needed: open the address that the server printed, or send Authorization: Bearer …"
        try:
            announced = int(headers.get("content-length") or 0)
        except ValueError:
            return 400, "the Content-Length header is not a number"
        if announced > self._most(scope):
            return 413, _too_large(self._most(scope))
        return None

    def _knows(self, host: str) -> bool:
        name = host.lower().rpartition(":")[0] if not host.endswith("]") and ":" in host else host.lower()
        if name in self._hosts:
            return True
        if not self._any_address:
            return False
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self._token is not None
        given = [headers.get("authorization", "").removeprefix("Bearer ")]
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
            given += [cookies[COOKIE].value] if COOKIE in cookies else []
        except CookieError:
            pass
        if scope["path"] == "/enter":
            given += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return any(secrets.compare_digest(one.encode(), self._token.encode()) for one in given)

    def _most(self, scope: Scope) -> int:
        is_upload = scope["path"] == "/api/pictures" and scope["method"] == "POST"
        return self._limits.upload_bytes if is_upload else self._limits.body_bytes

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what comes, because a length need not be announced, or may be false."""
        most, count, is_over, has_answered = self._most(scope), 0, False, False

        async def counting() -> Message:
            nonlocal count, is_over
            message = await receive()
            count += len(message.get("body", b""))
            if count > most:
                is_over = True
                return {"type": "http.disconnect"}
            return message

        async def answering(message: Message) -> None:
            nonlocal has_answered
            if is_over:
                if not has_answered:
                    has_answered = True
                    await _answer(send, 413, _too_large(most))
                return
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
                has_answered = True
            await send(message)

        await self._app(scope, counting, answering)
        if is_over and not has_answered:
            await _answer(send, 413, _too_large(most))


def _too_large(most: int) -> str:
    return f"the request is larger than the limit of {most / 2**20:.0f} MB; send less at once"


async def _answer(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
