"""``GET /_proof?nonce=...``: the service proves that it is the one in ``service.json``.

This is an extension for the processes of this user that find the service by that file.
It is not part of the public API, needs no credential and reveals nothing: anyone who
cannot read the file can neither make nor check the answer.
"""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from .. import discovery_file

PATH = "/_proof"
_NONCE = re.compile(rb"nonce=([A-Za-z0-9_-]{16,128})")


class ProofOfIdentity:
    """Answers the challenge; passes every other request on.

    Parameters
    ----------
    app
        The service.
    token, base_url
        As ``service.json`` has them.
    """

    def __init__(self, app: ASGIApp, token: str, base_url: str) -> None:
        self.app = app
        self._token = token
        self._base_url = base_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _NONCE.fullmatch(scope["query_string"]) if scope.get("path") == PATH else None
        if scope["type"] != "http" or scope["method"] != "GET" or match is None:
            return await self.app(scope, receive, send)
        body = discovery_file.proof(self._token, match[1].decode(), self._base_url).encode()
        headers = [
            (b"content-type", b"text/plain"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
