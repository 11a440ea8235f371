"""Looks up what the specification leaves open in the platform's live openapi.yaml.

These are the operations whose paths the specification does not show, and the wire names
of two fields. If the platform does not offer one, the error says so. The document is
read once per client, and only when it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from .calls import Call, Reply
from .errors import NotOffered

T = TypeVar("T")

MAX_DEPTH = 100  # of a description's YAML; libyaml's binding recurses in C, and would crash


def read_openapi(reply: Reply) -> Mapping[str, Any]:
    """The platform's openapi.yaml; empty if it is another kind of document.

    Raises
    ------
    msgspec.DecodeError
        If it is not YAML, or is nested too deeply.

    Examples
    --------
    >>> read_openapi(Reply(200, {}, b"paths: {/me: {}}"))
    {'paths': {'/me': {}}}
    """
    import yaml  # takes 20 ms

    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    try:
        for event in yaml.parse(reply.body, loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise msgspec.DecodeError("the document is nested too deeply")
        document = yaml.load(reply.body, loader)  # noqa: S506 - both loaders are safe
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise msgspec.DecodeError(" ".join(str(error).split())) from None
    return document if isinstance(document, dict) else {}


def operation(openapi: Mapping[str, Any], method: str, template: str, *, name: str) -> Mapping[str, Any]:
    """The description of an operation, by a path like ``/workspaces/{}/sessions``.

    Raises
    ------
    NotOffered
        If the platform does not describe it. The message refers to it by `name`.
    """
    for path, described in _mapping(openapi.get("paths")).items():
        plain = re.sub(r"{[^{}]*}", "{}", str(path))
        # Many documents put the version into the path and name only the host as server.
        if plain == template or plain.endswith(f"/v1{template}"):
            item = dereference(openapi, described)
            details = item.get(method.lower())
            if isinstance(details, Mapping):
                return {**details, "parameters": [*_list(details.get("parameters")), *_list(item.get("parameters"))]}
    raise _not_offered(
        name,
        f"does not describe {method} {template}, which this call needs. client.openapi() lists what it offers; "
        "client.request() sends to any path.",
    )


def _not_offered(operation: str, reason: str) -> NotOffered:
    return NotOffered(f"{operation}: this platform's openapi.yaml {reason}", operation=operation)


def _completed(call: Call[T], complete: Callable[[Mapping[str, Any], Call[T]], Call[T]]) -> Call[T]:
    """The call, completed from the live openapi.yaml before it is sent."""
    return replace(call, completions=(*call.completions, complete))


def offered(call: Call[T], template: str) -> Call[T]:
    """The call, sent only if the live openapi.yaml has its path."""

    def complete(openapi: Mapping[str, Any], call: Call[T]) -> Call[T]:
        operation(openapi, call.method, template, name=call.operation)
        return call

    return _completed(call, complete)


def discovered_field(call: Call[T], template: str, *, known: Set[str], suffix: str, value: Any) -> Call[T]:
    """The call with one more body field, whose wire name carries the platform's brand.

    It is the only field that is not `known` and ends in `suffix`.
    """

    def complete(openapi: Mapping[str, Any], call: Call[T]) -> Call[T]:
        fields = _body_fields(openapi, operation(openapi, call.method, template, name=call.operation))
        names = [name for name in fields if name not in known and name.endswith(suffix) and name != suffix]
        if len(names) != 1:
            raise _not_offered(call.operation, "shows no field for built-in tools. Leave the argument out.")
        return replace(call, body={**call.body, names[0]: value})

    return _completed(call, complete)


def offered_fields(call: Call[T], template: str, fields: Mapping[str, Any]) -> Call[T]:
    """The call with more body fields, sent only if the live openapi.yaml has them."""

    def complete(openapi: Mapping[str, Any], call: Call[T]) -> Call[T]:
        require_fields(openapi, call.method, template, fields, name=call.operation)
        return replace(call, body={**call.body, **fields})

    return _completed(call, complete) if fields else call


def require_fields(openapi: Mapping[str, Any], method: str, template: str, fields: Iterable[str], *, name: str) -> None:
    """Check that the body of an operation has these fields.

    Raises
    ------
    NotOffered
        If one is missing; the message calls the operation `name`.
    """
    offered = _body_fields(openapi, operation(openapi, method, template, name=name))
    missing = [field for field in fields if field not in offered]
    if missing:
        raise _not_offered(
            name,
            f"shows no {' and no '.join(missing)}, so nothing was sent. Leave out what it does not offer; the platform "
            "then decides.",
        )


def offers_fields(openapi: Mapping[str, Any], method: str, template: str, fields: Iterable[str]) -> bool:
    """Whether the body of an operation has these fields."""
    try:
        require_fields(openapi, method, template, fields, name="")
    except NotOffered:
        return False
    return True


def field_values(openapi: Mapping[str, Any], method: str, template: str, field: str) -> list[Any]:
    """The values a body field is limited to; empty if unlimited or absent."""
    try:
        described = operation(openapi, method, template, name="")
    except NotOffered:
        return []
    schemas = (_mapping(part.get("properties")).get(field) for part in _body_parts(openapi, described))
    return [value for schema in schemas if schema is not None for value in _enum(openapi, schema)]


def discovered_selector(call: Call[T], template: str, *, value: str) -> Call[T]:
    """The call with one more query parameter: the one whose enum has `value`."""

    def complete(openapi: Mapping[str, Any], call: Call[T]) -> Call[T]:
        for parameter in operation(openapi, call.method, template, name=call.operation)["parameters"]:
            shape = dereference(openapi, parameter)
            schema = dereference(openapi, shape.get("schema", shape))
            if shape.get("in") == "query" and value in _enum(openapi, schema):
                return replace(call, query={**call.query, str(shape["name"]): value})
        raise _not_offered(call.operation, f"shows no parameter that takes {value!r}. Leave it out.")

    return _completed(call, complete)


def dereference(openapi: Mapping[str, Any], node: Any) -> Mapping[str, Any]:
    """Follow a local ``$ref``; other nodes are returned as they are."""
    for _ in range(8):
        if not isinstance(node, Mapping):
            return {}
        target = node.get("$ref")
        if not isinstance(target, str) or not target.startswith("#/"):
            return node
        resolved: Any = openapi
        for step in target[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            resolved = resolved.get(key, {}) if isinstance(resolved, Mapping) else {}
        node = resolved
    return {}


def _enum(openapi: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Any]:
    parts = list(_parts(openapi, schema, set()))
    return [value for part in parts for value in (*_list(part.get("enum")), part.get("const"))]


def _body_fields(openapi: Mapping[str, Any], described: Mapping[str, Any]) -> list[str]:
    parts = _body_parts(openapi, described)
    return list(dict.fromkeys(name for part in parts for name in _mapping(part.get("properties"))))


def _body_parts(openapi: Mapping[str, Any], described: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    body = dereference(openapi, described.get("requestBody", {}))
    shapes = [
        shape for kind, shape in _mapping(body.get("content")).items() if str(kind).startswith("application/json")
    ]
    return [part for shape in shapes for part in _parts(openapi, _mapping(shape).get("schema"), set())]


def _parts(openapi: Mapping[str, Any], schema: Any, visited: set[int]) -> Iterator[Mapping[str, Any]]:
    """A schema and its parts, each once: schemas may refer to each other in circles."""
    schema = dereference(openapi, schema)
    if id(schema) not in visited:
        visited.add(id(schema))
        yield schema
        for union in ("anyOf", "oneOf", "allOf"):
            for part in _list(schema.get(union)):
                yield from _parts(openapi, part, visited)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
