"""The REST reference: openapi.yaml as Markdown, in place of a directive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sphinx.application import Sphinx

from agentbook.service import contract
from agentbook.service.pages.docs import fields

DIRECTIVE = "```{rest-reference}\n```"
Node = Mapping[str, Any]
_CREDENTIALS = {
    "apiKey": "API key",
    "bearerApiKey": "API key as a bearer token",
    "oauth2": "OAuth token",
    "triggerApiKey": "trigger key",
}
_BOUNDS = {"minimum": "from", "maximum": "to", "minLength": "at least", "maxLength": "at most"}


def fill_reference(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the reference in place of the directive."""
    if DIRECTIVE in source[0]:
        source[0] = source[0].replace(DIRECTIVE, "\n\n".join(_reference(contract.load().document)))


def _reference(document: Node) -> Iterator[str]:
    about, _, limits = document["info"]["description"].partition("## Limits\n")
    yield about
    for tag in document["tags"]:
        yield f"## {tag['name']}"
        if "description" in tag:
            yield tag["description"]
        for path, item in document["paths"].items():
            for method in contract.METHODS:
                if tag["name"] in item.get(method, {}).get("tags", ()):
                    yield from _operation(document, method, path, item)
    yield "## Schemas"
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(document, name, schema)
    yield "## Limits"
    yield limits
    yield from _choice(document["info"])


def _operation(document: Node, method: str, path: str, item: Node) -> Iterator[str]:
    operation = item[method]
    yield f"(rest-{operation['operationId']})=\n### {operation['summary']}"
    yield f"```http\n{method.upper()} {path}\n```"
    if operation.get("x-agentbook-extension"):
        yield "*An extension of the embedded service: the specification does not show this path.*"
    if "description" in operation:
        yield operation["description"]
    yield from _choice(operation)
    yield f"Operation `{operation['operationId']}`. Credentials: {_security(operation['security'])}."
    parameters = [
        contract.resolve(document, node) for node in (*item.get("parameters", ()), *operation.get("parameters", ()))
    ]
    if parameters:
        yield _table(["Parameter", "In", "Type", "Meaning"], (_parameter(node) for node in parameters))
    if "requestBody" in operation:
        kind, content = next(iter(operation["requestBody"]["content"].items()))
        yield f"Body, `{kind}`:"
        yield _table(["Field", "Type", "Meaning"], _fields(document, content["schema"]))
    yield _table(["Status", "When", "Body"], _responses(document, operation["responses"]))


def _schema(document: Node, name: str, schema: Node) -> Iterator[str]:
    yield f"(schema-{name})=\n### {name}"
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
    scopes = dict.fromkeys(scope for entry in security for names in entry.values() for scope in names)
    kinds = [*(["none"] if {} in security else []), *(_CREDENTIALS[name] for name in schemes)]
    return ", or ".join(kinds) + (f"; scope {', '.join(f'`{scope}`' for scope in scopes)}" if scopes else "")


def _parameter(node: Node) -> list[str]:
    return [_name(node["name"], node.get("required")), node["in"], _kind(node["schema"]), node.get("description", "")]


def _fields(document: Node, schema: Node) -> Iterator[list[str]]:
    for name, required, field in fields(document, schema):
        extension = " *extension*" if field.get("x-agentbook-extension") else ""
        yield [_name(name, required) + extension, _kind(field), field.get("description", "")]


def _responses(document: Node, responses: Node) -> Iterator[list[str]]:
    for status, node in responses.items():
        response = contract.resolve(document, node)
        kinds = [_kind(content["schema"]) for content in response.get("content", {}).values()][:1]
        yield [str(status), response["description"], *(kinds or [""])]


def _name(name: str, required: object) -> str:
    return f"`{name}`{' (required)' if required else ''}"


def _kind(schema: Node) -> str:
    """A schema in words: its name if it has one, else its type and bounds."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name})"
    default = f", default `{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"]) + default
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {'type': 'anything'}))}"
    types = schema.get("format") or schema.get("type", "object")
    words = " or ".join(types) if isinstance(types, list) else str(types)
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    values = [f"`{value}`" for value in schema.get("enum", ())]
    words += f" ({', '.join(bounds)})" if bounds else ""
    return words + (f": {', '.join(values)}" if values else "") + default


def _table(headers: list[str], rows: Iterable[list[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", fill_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
