"""What the specification leaves open is looked up in the platform's live openapi.yaml, never guessed.

Two things are: operations whose paths the specification does not show, and the wire names of two fields. A platform that does
not offer one gets an error that says so. The document is read once for each client, and only when it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Any, TypeVar

from .calls import Call
from .errors import NotOffered

T = TypeVar("T")


def operation(openapi: Mapping[str, Any], method: str, template: str, *, wanted: str) -> Mapping[str, Any]:
    """The description of an operation, by its path with the parameter names left out (``/workspaces/{}/sessions``).

    Raises
    ------
    NotOffered
        If the platform does not describe it; `wanted` names it.
    """
    for path, described in _mapping(openapi.get("paths")).items():
        plain = re.sub(r"{[^}]*}", "{}", str(path))
        # Many documents count the version among the path, and name the host alone as their server.
        if plain == template or plain.endswith(f"/v1{template}"):
            item = dereference(openapi, described)
            found = item.get(method.lower())
            if isinstance(found, Mapping):
                return {**found, "parameters": [*_list(found.get("parameters")), *_list(item.get("parameters"))]}
    raise NotOffered(
        f"{wanted}: this platform's openapi.yaml offers no {method} {template}, and the specification shows no path for it. "
        "client.openapi() has what it does offer; client.request() reaches any path.",
        operation=wanted,
    )


def offered(call: Call[T], template: str) -> Call[T]:
    """The call, made only where the live openapi.yaml offers its path."""

    def resolve(openapi: Mapping[str, Any]) -> Call[T]:
        operation(openapi, call.method, template, wanted=call.operation)
        return replace(call, resolve=None)

    return replace(call, resolve=resolve)


def wire_field(call: Call[T], template: str, *, known: Set[str], suffix: str, value: Any) -> Call[T]:
    """The call with a body field whose wire name carries the platform's brand: the one that is not `known`."""

    def resolve(openapi: Mapping[str, Any]) -> Call[T]:
        described = operation(openapi, call.method, template, wanted=call.operation)
        fields = _body_fields(openapi, described)
        names = [name for name in fields if name not in known and name.endswith(suffix) and name != suffix]
        if len(names) != 1:
            raise NotOffered(
                f"{call.operation}: this platform's openapi.yaml shows no field for built-in tools. Leave the argument out.",
                operation=call.operation,
            )
        return replace(call, body={**call.body, names[0]: value}, resolve=None)

    return replace(call, resolve=resolve)


def wire_selector(call: Call[T], template: str, *, value: str) -> Call[T]:
    """The call with a query parameter whose name is not shown: the one whose enum has `value`."""

    def resolve(openapi: Mapping[str, Any]) -> Call[T]:
        described = operation(openapi, call.method, template, wanted=call.operation)
        for parameter in described["parameters"]:
            shape = dereference(openapi, parameter)
            schema = dereference(openapi, shape.get("schema", shape))
            if shape.get("in") == "query" and value in _enum(openapi, schema):
                return replace(call.with_query(**{str(shape["name"]): value}), resolve=None)
        raise NotOffered(
            f"{call.operation}: this platform's openapi.yaml shows no parameter that takes {value!r}. Leave it out.",
            operation=call.operation,
        )

    return replace(call, resolve=resolve)


def dereference(openapi: Mapping[str, Any], node: Any) -> Mapping[str, Any]:
    """Follow a local ``$ref``; anything else as it is."""
    for _ in range(8):
        if not isinstance(node, Mapping):
            return {}
        target = node.get("$ref")
        if not isinstance(target, str) or not target.startswith("#/"):
            return node
        found: Any = openapi
        for step in target[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
        node = found
    return {}


def _enum(openapi: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Any]:
    parts = list(_parts(openapi, schema, set()))
    return [value for part in parts for value in (*_list(part.get("enum")), part.get("const"))]


def _body_fields(openapi: Mapping[str, Any], described: Mapping[str, Any]) -> list[str]:
    body = dereference(openapi, described.get("requestBody", {}))
    shapes = [
        shape for kind, shape in _mapping(body.get("content")).items() if str(kind).startswith("application/json")
    ]
    parts = [part for shape in shapes for part in _parts(openapi, _mapping(shape).get("schema"), set())]
    return list(dict.fromkeys(name for part in parts for name in _mapping(part.get("properties"))))


def _parts(openapi: Mapping[str, Any], schema: Any, seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """A schema and those it is made of, each once: they may go round in circles."""
    schema = dereference(openapi, schema)
    if id(schema) not in seen:
        seen.add(id(schema))
        yield schema
        for union in ("anyOf", "oneOf", "allOf"):
            for part in _list(schema.get(union)):
                yield from _parts(openapi, part, seen)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
