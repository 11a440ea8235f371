"""The API reference, rendered from openapi.yaml.

Every operation and schema has an anchor (``docs#listAgents``, ``docs#schema-Agent``).
Everything is on one page, so the browser's search finds it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .. import contract
from .html import page, render

Node = Mapping[str, Any]
_CREDENTIALS = {
    "apiKey": "API key (Basic)",
    "bearerApiKey": "API key (Bearer)",
    "oauth2": "OAuth token",
    "triggerApiKey": "Trigger key",
}


async def show(request: Request) -> Response:
    """GET /docs; needs no credential."""
    return page(request, _text())


@functools.cache
def _text() -> str:
    document = contract.load().document
    about, _, limits = document["info"]["description"].partition("## Limits\n")
    groups = [
        (tag, [operation for operation in _operations(document) if tag["name"] in operation["node"]["tags"]])
        for tag in document["tags"]
    ]
    schemas = [(name, node, list(fields(document, node))) for name, node in document["components"]["schemas"].items()]
    return render(
        "docs.html",
        info=document["info"],
        about=about,
        limits=limits,
        schemes=document["components"]["securitySchemes"],
        credentials=_CREDENTIALS,
        groups=groups,
        schemas=schemas,
    )


def resolve(document: Node, node: Node) -> Node:
    """Follow a node's references within its document."""
    while "$ref" in node:
        target: Any = document
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        node = target
    return node


def _operations(document: Node) -> Iterator[dict[str, Any]]:
    for path, item in document["paths"].items():
        for method in contract.METHODS:
            if method in item:
                node = item[method]
                yield {
                    "method": method.upper(),
                    "path": path,
                    "node": node,
                    "credentials": _credentials(node["security"]),
                    "parameters": [
                        resolve(document, each) for each in (*item.get("parameters", ()), *node.get("parameters", ()))
                    ],
                    "bodies": [
                        (kind, list(fields(document, content["schema"])))
                        for kind, content in node.get("requestBody", {"content": {}})["content"].items()
                    ],
                    "responses": {status: resolve(document, each) for status, each in node["responses"].items()},
                }


def _credentials(security: list[Node]) -> dict[tuple[str, ...], list[str]]:
    """Group the accepted credentials by the scopes that they need."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for entry in security:
        for scheme, scopes in entry.items() or [("", ())]:
            grouped.setdefault(tuple(scopes), []).append(_CREDENTIALS.get(scheme, "no credential"))
    return grouped


def fields(document: Node, schema: Node, prefix: str = "") -> Iterator[tuple[str, bool, Node]]:
    """Yield each field of a schema, and of the unnamed objects in it.

    Examples
    --------
    >>> inner = {"required": ["id"], "properties": {"id": {"type": "string"}}}
    >>> schema = {"properties": {"tools": {"type": "array", "items": inner}}}
    >>> [(name, required) for name, required, _ in fields({}, schema)]
    [('tools', False), ('tools[].id', True)]
    """
    node = resolve(document, schema)
    for part in (*(resolve(document, each) for each in node.get("allOf", ())), node):
        for name, field in part.get("properties", {}).items():
            yield prefix + name, name in part.get("required", ()), field
            marks = ""
            while field.get("type") == "array":
                field, marks = field.get("items", {}), marks + "[]"
            if "properties" in field:
                yield from fields(document, field, f"{prefix}{name}{marks}.")
