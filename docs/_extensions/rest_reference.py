"""The REST reference: openapi.yaml as Markdown, a page for each of its tags.

A schema is on the page of the tag that uses it, or of that it is named after. What
several use besides is on a page of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from agentbook.service import contract
from agentbook.service.pages.docs import fields, resolve

OVERVIEW = "```{rest-overview}\n```"
FOLDER = "generated/rest"
SHARED = "Shared records"
Node = Mapping[str, Any]
_CREDENTIALS = {
    "apiKey": "API key",
    "bearerApiKey": "API key as a bearer token",
    "oauth2": "OAuth token",
    "triggerApiKey": "trigger key",
}
_BOUNDS = {
    "minimum": "from",
    "maximum": "to",
    "minLength": "at least",
    "maxLength": "at most",
}


def write_pages(app: Sphinx) -> None:
    """Write the pages, unless they are there already: Sphinx reads what is new."""
    document = contract.load().document
    operations: dict[str, list[tuple[str, str]]] = {
        tag["name"]: [] for tag in document["tags"]
    }
    users: dict[str, set[str]] = {
        name: set() for name in document["components"]["schemas"]
    }
    for path, item in document["paths"].items():
        for method in filter(item.__contains__, contract.METHODS):
            (tag,) = item[method]["tags"]
            operations[tag].append((method, path))
            for name in _schemas_of(document, [item.get("parameters"), item[method]]):
                users[name].add(tag)
    folder = Path(app.srcdir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    for tag in [
        *document["tags"],
        {"name": SHARED, "description": "What several operations send and return."},
    ]:
        name = tag["name"]
        schemas = [each for each, tags in users.items() if _home(each, tags) == name]
        text = "\n\n".join(_page(document, tag, operations.get(name, []), schemas))
        page = folder / f"{name.lower().replace(' ', '-')}.md"
        if not page.exists() or page.read_text("utf-8") != text:
            page.write_text(text, "utf-8")


def fill_overview(app: Sphinx, name: str, source: list[str]) -> None:
    """Put what holds for all operations in place of the directive."""
    if OVERVIEW in source[0]:
        document = contract.load().document
        operations = _table(
            ["Operation", "Request"],
            (
                [
                    f"[{item[method]['summary']}](#rest-{item[method]['operationId']})",
                    f"`{method.upper()} {path}`",
                ]
                for path, item in document["paths"].items()
                for method in filter(item.__contains__, contract.METHODS)
            ),
        )
        parts = [
            operations,
            "## What holds for all",
            document["info"]["description"],
            *_choice(document["info"]),
        ]
        source[0] = source[0].replace(OVERVIEW, "\n\n".join(parts))


def _schemas_of(document: Node, node: Any) -> set[str]:
    """The schemas to which a part of the document refers, directly or not."""
    found: set[str] = set()
    parts = [node]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, Mapping):
            parts += part.values()
            if "$ref" in part:
                *_, kind, name = part["$ref"].split("/")
                if kind != "schemas" or name not in found:
                    found |= {name} if kind == "schemas" else set()
                    parts.append(document["components"][kind][name])
    return found


def _home(schema: str, tags: set[str]) -> str:
    """The tag on whose page a schema is, by the tags of the operations that use it."""
    namesakes = [
        tag
        for tag in tags
        if len(tags) == 1 or schema.startswith(tag.removesuffix("s"))
    ]
    return namesakes[0] if namesakes else SHARED


def _page(
    document: Node, tag: Node, operations: list[tuple[str, str]], schemas: list[str]
) -> Iterator[str]:
    yield f"# {tag['name']}"
    yield tag["description"]
    for method, path in operations:
        yield from _operation(document, method, path, document["paths"][path])
    if operations and schemas:
        yield "## Records"
    for name in schemas:
        yield from _schema(
            document,
            name,
            document["components"]["schemas"][name],
            "###" if operations else "##",
        )


def _operation(document: Node, method: str, path: str, item: Node) -> Iterator[str]:
    operation = item[method]
    yield f"(rest-{operation['operationId']})=\n## {operation['summary']}"
    yield f"```http\n{method.upper()} {path}\n```"
    if operation.get("x-agentbook-extension"):
        yield "*An extension of the embedded service: the specification does not show this path.*"
    if "description" in operation:
        yield operation["description"]
    yield from _choice(operation)
    yield f"Operation `{operation['operationId']}`. Credentials: {_security(operation['security'])}."
    parameters = [
        resolve(document, node)
        for node in (*item.get("parameters", ()), *operation.get("parameters", ()))
    ]
    if parameters:
        yield _table(
            ["Parameter", "In", "Type", "Meaning"],
            (_parameter(node) for node in parameters),
        )
    if "requestBody" in operation:
        kind, content = next(iter(operation["requestBody"]["content"].items()))
        yield f"Body, `{kind}`:"
        yield _table(["Field", "Type", "Meaning"], _fields(document, content["schema"]))
    yield _table(
        ["Status", "When", "Body"], _responses(document, operation["responses"])
    )


def _schema(document: Node, name: str, schema: Node, heading: str) -> Iterator[str]:
    yield f"(schema-{name})=\n{heading} {name}"
    if "description" in schema:
        yield schema["description"]
    yield from _choice(schema)
    fields = list(_fields(document, schema))
    yield _table(["Field", "Type", "Meaning"], fields) if fields else _kind(schema)


def _choice(node: Node) -> Iterator[str]:
    if node.get("x-agentbook-choice"):
        yield f":::{{note}}\nWhere the specification leaves room: {node['x-agentbook-choice']}\n:::"


def _security(security: list[Node]) -> str:
    schemes = dict.fromkeys(name for entry in security for name in entry)
    scopes = dict.fromkeys(
        scope for entry in security for names in entry.values() for scope in names
    )
    kinds = [
        *(["none"] if {} in security else []),
        *(_CREDENTIALS[name] for name in schemes),
    ]
    return ", or ".join(kinds) + (
        f"; scope {', '.join(f'`{scope}`' for scope in scopes)}" if scopes else ""
    )


def _parameter(node: Node) -> list[str]:
    return [
        _name(node["name"], node.get("required")),
        node["in"],
        _kind(node["schema"]),
        node.get("description", ""),
    ]


def _fields(document: Node, schema: Node) -> Iterator[list[str]]:
    for name, required, field in fields(document, schema):
        extension = " *extension*" if field.get("x-agentbook-extension") else ""
        yield [
            _name(name, required) + extension,
            _kind(field),
            field.get("description", ""),
        ]


def _responses(document: Node, responses: Node) -> Iterator[list[str]]:
    for status, node in responses.items():
        response = resolve(document, node)
        kinds = [
            _kind(content["schema"]) for content in response.get("content", {}).values()
        ][:1]
        yield [str(status), response["description"], *(kinds or [""])]


def _name(name: str, required: object) -> str:
    return f"`{name}`{' (required)' if required else ''}"


def _kind(schema: Node) -> str:
    """A schema in words: its name if it has one, else its type and bounds."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name})"
    default = (
        f", default `{json.dumps(schema['default'])}`"
        if schema.get("default") is not None
        else ""
    )
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"]) + default
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {'type': 'anything'}))}"
    types = schema.get("format") or schema.get("type", "object")
    words = " or ".join(types) if isinstance(types, list) else str(types)
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    choices = [str(value) for value in schema.get("enum", ())]
    # Descriptions say that a leading `-` turns the order around.
    values = [
        f"`{value}`"
        for value in choices
        if value.removeprefix("-") not in choices or value[0] != "-"
    ]
    words += f" ({', '.join(bounds)})" if bounds else ""
    return words + (f": {', '.join(values)}" if values else "") + default


def _table(headers: list[str], rows: Iterable[list[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("source-read", fill_overview)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
