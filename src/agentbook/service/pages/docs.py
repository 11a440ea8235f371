"""The API reference, rendered from openapi.yaml.

Every operation and schema has an anchor (``docs#listAgents``, ``docs#schema-Agent``).
Everything is on one page, so the browser's search finds it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from markdown_it import MarkdownIt
from starlette.requests import Request
from starlette.responses import Response

from .. import contract
from ..web.html import Child, Html, el, header_bar, page, row, table

Node = Mapping[str, Any]
_CREDENTIALS = {
    "apiKey": "API key (Basic)",
    "bearerApiKey": "API key (Bearer)",
    "oauth2": "OAuth token",
    "triggerApiKey": "Trigger key",
}
_markdown = MarkdownIt("commonmark", {"html": False})


async def show(request: Request) -> Response:
    """GET /docs; needs no credential."""
    return page(request, "API", *_render())


@functools.cache
def _render() -> tuple[Html, ...]:
    document = contract.load().document
    nav = el(
        "nav",
        el("a", "API", href="docs", aria_current="page"),
        el("a", "Settings", href="settings"),
        aria_label="Pages",
    )
    file = el("a", "openapi.yaml", href="openapi.yaml")
    return (header_bar(nav, file), el("div", _side(document), _main(document), class_="docs"))


def _operations(document: Node) -> Iterator[tuple[str, str, Node, Node]]:
    for path, item in document["paths"].items():
        for method in contract.METHODS:
            if method in item:
                yield method.upper(), path, item, item[method]


def _side(document: Node) -> Html:
    groups: list[Child] = [
        el("ul", (el("li", el("a", title, href=f"#{anchor}")) for anchor, title in _CHAPTERS.items())),
    ]
    for tag in document["tags"]:
        listed = [op for *_, op in _operations(document) if tag["name"] in op["tags"]]
        links = (el("li", el("a", op["summary"], href=f"#{op['operationId']}")) for op in listed)
        groups += [el("h2", tag["name"]), el("ul", links)]
    names = (el("li", el("a", name, href=f"#schema-{name}")) for name in document["components"]["schemas"])
    groups += [el("h2", "Schemas"), el("ul", names)]
    return el("nav", groups, class_="side", aria_label="Contents")


_CHAPTERS = {"about": "About", "authentication": "Authentication", "errors": "Errors", "socket": "Live events"}


def _main(document: Node) -> Html:
    info = document["info"]
    about = el(
        "section",
        el("h1", info["title"], id="about"),
        _prose(info.get("description", "")),
        _choice(info),
        class_="card",
    )
    sections = []
    for tag in document["tags"]:
        operations = [entry for entry in _operations(document) if tag["name"] in entry[3]["tags"]]
        anchor = f"tag-{tag['name'].replace(' ', '-')}"
        heading = el("h2", tag["name"], id=anchor)
        intro = _prose(tag["description"]) if tag.get("description") else None
        cards = [_operation(document, *operation) for operation in operations]
        sections.append(el("section", heading, intro, cards, aria_labelledby=anchor))
    schemas = [_schema_card(document, name, node) for name, node in document["components"]["schemas"].items()]
    last = el("section", el("h2", "Schemas", id="schemas"), schemas, aria_labelledby="schemas")
    return el("main", about, _authentication(document), _errors(), _socket(), sections, last)


def _authentication(document: Node) -> Html:
    schemes = document["components"]["securitySchemes"]
    rows = (
        el("tr", el("td", _CREDENTIALS[name]), el("td", _prose(node["description"]))) for name, node in schemes.items()
    )
    scopes = schemes["oauth2"]["flows"]["authorizationCode"]["scopes"]
    meanings = (row(el("code", scope), meaning) for scope, meaning in scopes.items())
    return el(
        "section",
        el("h2", "Authentication", id="authentication"),
        table(["Credential", "How it is sent"], rows),
        el("p", "Scopes; write includes read:"),
        table(["Scope", "What it allows"], meanings),
        class_="card",
    )


def _errors() -> Html:
    return el(
        "section",
        el("h2", "Errors", id="errors"),
        _prose(
            "Errors are JSON `{error, message}`; a request without an `Accept` header gets an HTML page. "
            "Branch on the HTTP status. Every response has an `X-Request-ID`. "
            "A missing scope is named in `WWW-Authenticate`, which on every 401 links to the "
            "protected resource metadata. A denied read is a 404, as if the entity did not exist."
        ),
        class_="card",
    )


def _socket() -> Html:
    return el(
        "section",
        el("h2", "Live events", id="socket"),
        _endpoint("GET", "/sessions/{session_id}/events/ws"),
        _prose(
            "A WebSocket, so it is not in openapi.yaml. Send `Authorization: Basic` with the handshake. "
            "Each message is one event of the session.\n\n"
            "- `from_id`: deliver the stored events after this one first, then live ones; without it, live ones only.\n"
            "- `types`: event types, separated by commas; without it, all of them."
        ),
        class_="card",
    )


def _operation(document: Node, method: str, path: str, item: Node, op: Node) -> Html:
    parameters = [contract.resolve(document, p) for p in (*item.get("parameters", ()), *op.get("parameters", ()))]
    extension = el("span", "extension", class_="tag", title="The specification does not show its path") if op.get(
        "x-agentbook-extension"
    ) else None  # fmt: skip
    return el(
        "article",
        el("h3", el("a", op["summary"], href=f"#{op['operationId']}"), extension),
        _endpoint(method, path),
        _prose(op["description"]) if op.get("description") else None,
        _choice(op),
        _security(op["security"]),
        _parameters(document, parameters),
        _body(document, op.get("requestBody")),
        _responses(document, op["responses"]),
        id=op["operationId"],
        class_="card op",
    )


def _endpoint(method: str, path: str) -> Html:
    return el("p", el("span", method, class_="method"), path, class_="way")


def _prose(text: str) -> Html:
    return Html(_markdown.render(text))


def _choice(node: Node) -> Html | None:
    text = node.get("x-agentbook-choice")
    if not text:
        return None
    lead = el("strong", "Where the specification leaves room: ")
    return el("div", lead, Html(_markdown.renderInline(text)), class_="choice-note")


def _security(security: list[Node]) -> Html:
    named: dict[str, list[str]] = {name: scopes for entry in security for name, scopes in entry.items()}
    scopes = dict.fromkeys(scope for names in named.values() for scope in names)
    kinds = [el("span", _CREDENTIALS[name], class_="tag") for name in named]
    if {} in security:
        kinds.insert(0, el("span", "no credential", class_="tag"))
    codes = [el("code", scope) for scope in scopes]
    return el("p", el("strong", "Credentials: "), kinds, [" with ", codes] if codes else None)


def _parameters(document: Node, parameters: list[Node]) -> Html | None:
    if not parameters:
        return None
    rows = []
    for parameter in parameters:
        name = [el("code", parameter["name"]), el("strong", " required") if parameter.get("required") else None]
        described = _prose(parameter["description"]) if parameter.get("description") else None
        rows.append(row(name, parameter["in"], _kind(document, parameter["schema"]), described))
    return el("div", el("h4", "Parameters"), table(["Name", "In", "Type", ""], rows))


def _body(document: Node, body: Node | None) -> Html | None:
    if body is None:
        return None
    kind, content = next(iter(body["content"].items()))
    return el("div", el("h4", "Body ", el("code", kind)), _fields(document, content["schema"]))


def _responses(document: Node, responses: Node) -> Html:
    rows = []
    for status, node in responses.items():
        response = contract.resolve(document, node)
        schemas = [_kind(document, content["schema"]) for content in response.get("content", {}).values()][:1]
        rows.append(row(el("strong", str(status)), _prose(response["description"]), schemas))
    return el("div", el("h4", "Responses"), table(["Status", "When", "Schema"], rows))


def _schema_card(document: Node, name: str, node: Node) -> Html:
    inner = _fields(document, node) if {"properties", "allOf"} & set(node) else el("p", _kind(document, node))
    described = _prose(node["description"]) if node.get("description") else None
    heading = el("h3", el("a", name, href=f"#schema-{name}"))
    return el("article", heading, described, _choice(node), inner, id=f"schema-{name}", class_="card op")


def _fields(document: Node, schema: Node) -> Html:
    node = contract.resolve(document, schema)
    rows = []
    for part in (*(contract.resolve(document, each) for each in node.get("allOf", ())), node):
        required = part.get("required", ())
        for name, field in part.get("properties", {}).items():
            mark = el("strong", " required") if name in required else None
            described = _prose(field["description"]) if field.get("description") else None
            rows.append(row([el("code", name), mark], _kind(document, field), described))
    return table(["Field", "Type", ""], rows)


def _kind(document: Node, schema: Node) -> Html:
    """Describe a schema by its name if it has one, else by its type and bounds."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return el("a", name, href=f"#schema-{name}")
    if "anyOf" in schema:
        parts = [_kind(document, part) for part in schema["anyOf"]]
        return el("span", [[" or " if index else None, part] for index, part in enumerate(parts)], _default(schema))
    if schema.get("type") == "array":
        return el("span", "array of ", _kind(document, schema.get("items", {"type": "anything"})))
    types = schema.get("type", "object")
    words = " or ".join(types) if isinstance(types, list) else str(types)
    if schema.get("format"):
        words = str(schema["format"])
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    values = schema.get("enum", ())
    descending = {f"-{value}" for value in values}  # `sort_by`: its description explains the minus
    options = [el("code", str(value)) for value in values if value not in descending]
    choices = [": ", [[", " if index else None, option] for index, option in enumerate(options)]] if options else None
    return el("span", words, f" ({', '.join(bounds)})" if bounds else None, choices, _default(schema))


_BOUNDS = {"minimum": "from", "maximum": "to", "minLength": "at least", "maxLength": "at most"}


def _default(schema: Node) -> Html | None:
    if schema.get("default") is None:
        return None
    return el("small", " default ", el("code", json.dumps(schema["default"])))
