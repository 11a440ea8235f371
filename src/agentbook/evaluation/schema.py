"""JSON schemas as promptfoo applies them: draft 7, strictly, with formats (Ajv)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import yaml

from .files.source import YamlLoader
from .javascript import to_json
from .patterns import schema_error

DRAFT_7 = ("http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/schema#")
_KEYWORDS = frozenset(
    (
        *("$schema", "$id", "$ref", "$comment", "$defs", "definitions", "title", "description"),
        *("default", "examples", "readOnly", "writeOnly", "nullable", "type", "enum", "const"),
        *("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength"),
        *("minLength", "pattern", "format", "items", "additionalItems", "maxItems", "minItems"),
        *("uniqueItems", "contains", "maxProperties", "minProperties", "required", "properties"),
        *("patternProperties", "additionalProperties", "dependencies", "propertyNames", "if", "then"),
        *("else", "allOf", "anyOf", "oneOf", "not", "contentEncoding", "contentMediaType"),
    )
)
_SCHEMAS = ("additionalItems", "contains", "additionalProperties", "propertyNames", "if", "then", "else", "not")
_LISTS = ("allOf", "anyOf", "oneOf")
_MAPS = ("properties", "patternProperties", "definitions", "$defs")


def _refuse(address: str) -> Any:
    raise ValueError("only a part of the schema itself can be referred to")


# A schema may come from somebody else: it reads no file and asks no server.
LIMITS: dict[str, Any] = {"retriever": _refuse, "pattern_options": jsonschema_rs.FancyRegexOptions()}


class InvalidSchema(ValueError):
    """A schema that cannot be compiled."""


def schema_errors(schema: Any, value: Any) -> str:
    """Why a value does not conform to a schema; empty if it does.

    Parameters
    ----------
    schema : mapping, bool or str
        A string is YAML or JSON.
    value : object

    Raises
    ------
    InvalidSchema, SearchFailed

    Examples
    --------
    >>> schema_errors({"type": "object", "required": ["answer"]}, {"answer": 1})
    ''
    >>> schema_errors("type: number", "1")
    '"1" is not of type "number"'
    """
    if isinstance(schema, str):
        try:
            schema = yaml.load(schema, YamlLoader)  # noqa: S506 - a safe loader
        except (yaml.YAMLError, ValueError) as error:
            raise InvalidSchema(str(error)) from error
    if not isinstance(schema, Mapping | bool | list) and schema is not None:
        raise InvalidSchema(f"it must be an object, not {to_json(schema)}.")
    if not isinstance(schema, Mapping | bool):
        raise InvalidSchema("it must be an object.")
    unknown = next(_unknown_keywords(schema), None)
    if unknown is not None:
        raise InvalidSchema(f"unknown keyword {unknown!r}.")
    draft = schema.get("$schema") if isinstance(schema, Mapping) else None
    if draft is not None and draft not in DRAFT_7:
        raise InvalidSchema(f"{draft} is not draft 7.")
    schema = dict(schema) if isinstance(schema, Mapping) else schema
    try:
        jsonschema_rs.Draft7Validator(schema, validate_formats=True, **LIMITS)
    except (ValueError, jsonschema_rs.ValidationError) as problem:
        raise InvalidSchema(str(problem).splitlines()[0]) from problem
    return schema_error("Draft7Validator", schema, value, validate_formats=True)


def _unknown_keywords(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    yield from (str(name) for name in schema if name not in _KEYWORDS)
    parts = [schema[name] for name in _SCHEMAS if name in schema]
    parts += [part for name in _LISTS for part in schema.get(name) or ()]
    parts += [part for name in _MAPS for part in (schema.get(name) or {}).values()]
    items = schema.get("items")
    parts += items if isinstance(items, list) else [items]
    for part in parts:
        yield from _unknown_keywords(part)
