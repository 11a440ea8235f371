"""Reads openapi.yaml: the operations and what each accepts. Validates requests.

Messages follow the specification's example (``Field required``), or are the validator's
own. Every invalid field is named with its location, as in
``body.name: Field required; query.limit: Input is greater than the maximum of 1000``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl

import jsonschema_rs
import msgspec
import yaml

from . import errors

METHODS = ("get", "post", "put", "patch", "delete")
_MAX_PARAMETERS = 100
# Bounds on a body, checked before it is validated: an array of 500,000 items takes at
# most 50 ms to decode, and 13 s to validate.
MAX_DEPTH = 64
MAX_ITEMS = 1_000
_INTEGER = re.compile(r"-?[0-9]{1,4000}")  # longer ones are not converted; no parameter's range has them
# What the patterns in openapi.yaml mean: Text, Message, and NewName.
_PATTERNS = {
    r"^[^\x00]*$": "Input must not contain a null character",
    r"^[^\x00]*[^\s\x00][^\x00]*$": "Input should not be blank or contain a null character",
}
_NEW_NAME = (
    "Input should not hold '~', '/', control characters, characters that hide or reorder others, or blanks at its ends, "
    "nor look like an id"
)


Check = Callable[[Mapping[str, Any]], Iterable[str]]  # what is wrong with a body, each with its location


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation in openapi.yaml.

    Attributes
    ----------
    id, method, path : str
        Names of the accepted security schemes in openapi.yaml.
    scopes : tuple of str
        The scopes that a credential needs, unless `anonymous`.
    anonymous : bool
        Whether the operation also answers without a credential.
    status : int
        The HTTP status of a success.
    """

    id: str
    method: str
    path: str
    schemes: frozenset[str]
    scopes: tuple[str, ...]
    anonymous: bool
    status: int
    has_body: bool
    body_required: bool
    _query_types: Mapping[str, str]
    _query_defaults: Mapping[str, Any]
    _body_defaults: Mapping[str, Any]
    _query: jsonschema_rs.Validator
    _body: jsonschema_rs.Validator | None

    def query(self, raw: bytes) -> dict[str, Any]:
        """Parse and validate the query string, and fill in defaults.

        A filter that is not set is None. Parameters that openapi.yaml does not list are
        ignored. Raises the 400 that names each invalid parameter.
        """
        try:
            pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            raise errors.invalid_input([f"query: more than {_MAX_PARAMETERS} parameters"]) from None
        values = {name: _coerced(text, self._query_types[name]) for name, text in pairs if name in self._query_types}
        problems = _problems(self._query, values, "query")
        if problems:
            raise errors.invalid_input(problems)
        return {**self._query_defaults, **values}

    def body(self, raw: bytes, content_type: bytes | None, check: Check | None = None) -> dict[str, Any]:
        """Parse and validate the body.

        Defaults are filled in for a POST only, so fields left out of an update stay
        out. Raises the matching 400: not sent as JSON, not valid JSON, too many items,
        or invalid fields, each named. `check` adds problems that openapi.yaml cannot
        express; it is called with any object, even one with fields of the wrong type.
        """
        if self._body is None or (not raw and not self.body_required):
            return {}
        if (content_type or b"").partition(b";")[0].strip().lower() != b"application/json":
            raise errors.invalid_input(["body: send it with Content-Type: application/json"])
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # NaN, numbers too large for a double, and lone surrogates end up here too.
            raise errors.bad_request() from None
        _check_size(value)
        problems = _problems(self._body, value, "body")
        if check is not None and isinstance(value, dict):
            problems += islice(check(value), errors.MAX_PROBLEMS)
        if problems:
            raise errors.invalid_input(problems)
        return {**self._body_defaults, **value}


def _check_size(value: Any) -> None:
    """Raise the 400 if a JSON value has too many items, or is nested too deep."""
    level, count = [value], 0
    for _ in range(MAX_DEPTH + 1):
        nested = [each for each in level if isinstance(each, dict | list)]
        if not nested:
            return
        level = [item for each in nested for item in (each.values() if isinstance(each, dict) else each)]
        count += len(level)
        if count > MAX_ITEMS:
            raise errors.invalid_input([f"body: Input should have at most {MAX_ITEMS} items in all"])
    raise errors.bad_request(f"The body is nested deeper than {MAX_DEPTH} levels.")


@dataclass(frozen=True, slots=True)
class Contract:
    """openapi.yaml as served (`text`), parsed (`document`), and its operations by id.

    `oauth_operations` are not JSON operations with a credential; the OAuth package has
    its own endpoints for them.
    """

    text: bytes
    document: Mapping[str, Any]
    operations: Mapping[str, Operation]
    oauth_operations: Mapping[str, Operation]
    _names: jsonschema_rs.Validator


@functools.cache
def load() -> Contract:
    """Return the contract that ships in the package."""
    text = files("agentbook.service").joinpath("openapi.yaml").read_bytes()
    document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    operations: dict[str, Operation] = {}
    oauth_operations: dict[str, Operation] = {}
    for path, item in _inlined(document["paths"], document).items():
        for method in METHODS:
            if method in item:
                operation = _operation(path, method, item)
                (oauth_operations if "OAuth" in item[method]["tags"] else operations)[operation.id] = operation
    names = _validator(_inlined({"$ref": "#/components/schemas/NewName"}, document))
    return Contract(text, document, operations, oauth_operations, names)


def _inlined(node: Any, document: Mapping[str, Any]) -> Any:
    """A node of openapi.yaml with every ``$ref`` replaced by what it refers to.

    jsonschema-rs has a function for it, of which releases differ in what they replace.
    The file has no circles, and its references point into `document`.
    """
    if isinstance(node, list):
        return [_inlined(each, document) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        steps = node["$ref"].removeprefix("#/").split("/")
        return _inlined(functools.reduce(lambda part, step: part[step], steps, document), document)
    return {name: _inlined(each, document) for name, each in node.items()}


def is_name(text: str) -> bool:
    """Whether `text` is a valid name for a new entity (NewName in openapi.yaml)."""
    return load()._names.is_valid(text)


def _operation(path: str, method: str, item: dict[str, Any]) -> Operation:
    definition = item[method]
    parameters = (*item.get("parameters", ()), *definition.get("parameters", ()))
    query = {p["name"]: p["schema"] for p in parameters if p["in"] == "query"}
    body = definition.get("requestBody")
    schema = next(iter(body["content"].values()))["schema"] if body else {}
    security = definition["security"]
    named = {name: scopes for requirement in security for name, scopes in requirement.items()}
    return Operation(
        id=definition["operationId"],
        method=method.upper(),
        path=path,
        schemes=frozenset(named),
        scopes=tuple(dict.fromkeys(scope for scopes in named.values() for scope in scopes)),
        anonymous={} in security,
        status=next(int(code) for code in definition["responses"] if str(code) < "400"),
        has_body=body is not None,
        body_required=bool(body and body.get("required")),
        _query_types={name: s["type"] for name, s in query.items()},
        _query_defaults=dict.fromkeys(query) | _defaults(query),
        _body_defaults=_defaults(schema.get("properties", {})) if method == "post" else {},
        _query=_validator({"type": "object", "properties": query}),
        _body=_validator(schema) if schema else None,
    )


def _defaults(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {name: schema["default"] for name, schema in schemas.items() if "default" in schema}


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    # The mask keeps values out of the library's messages: a repr of 1 MB takes 100 ms.
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, mask="Input")


def _coerced(text: str, kind: str) -> Any:
    """Convert a query value; invalid text is kept, for the validator to report."""
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    # In upper or lower case, because `requests` writes Python's True as "True".
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _problems(validator: jsonschema_rs.Validator, value: Any, where: str) -> list[str]:
    """List ``<location>: <reason>`` for the first invalid fields."""
    problems = (problem for error in validator.iter_errors(value) for problem in _explain(error, where))
    return list(islice(problems, errors.MAX_PROBLEMS))


def _explain(error: jsonschema_rs.ValidationError, where: str) -> Iterator[str]:
    """Yield ``<location>: <reason>`` for each invalid field.

    They are generated lazily, because a thousand take long and only a few are needed.
    """
    kind: Any = error.kind
    if kind.name == "anyOf":  # of a schema and null: "or null" does not help the sender
        for each in kind.context[0]:
            yield from _explain(each, where)
        return
    location, reason = [where, *(str(step)[:80] for step in error.instance_path)], error.message
    if kind.name == "required":
        location.append(kind.property)
        reason = "Field required"
    elif kind.name == "pattern":
        reason = _PATTERNS.get(kind.pattern, _NEW_NAME)
    yield f"{'.'.join(location)}: {reason}"
