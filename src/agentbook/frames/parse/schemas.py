"""The columns of each resource: one table for each of the specification's.

A schema gives the wire name, dtype and meaning of every column. Everything that reads
or checks frames works from these tables. Fields that no column names are kept as JSON
text in ``extra``.

The specification does not give a type for columns marked ``documented=False`` ("Gaps in
this part"). There, a value of another shape is not an error: it goes to ``extra``
unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

# The dtype of texts. Plain "str" means something else when pandas' option
# `future.infer_string` is off: a null then becomes the text "nan".
STR = pd.StringDtype(na_value=np.nan)
DTYPES: dict[str, str] = {
    **dict.fromkeys(("id", "text", "json", "label", "host", "masked"), "str"),
    "enum": "category",
    "time": "datetime64[us, UTC]",
    "bool": "boolean",
    "list": "list<item: large_string>[pyarrow]",
}
TEXT = pa.large_string()  # the type in which pandas keeps strings, so no copy is needed
INSTANT = pa.timestamp("us", tz="UTC")
ARROW_TYPES: dict[str, Any] = {
    "category": pa.dictionary(pa.int32(), pa.string()),
    "datetime64[us, UTC]": INSTANT,
    "boolean": pa.bool_(),
    "str": TEXT,
    "list<item: large_string>[pyarrow]": pa.list_(TEXT),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a resource's frame.

    Attributes
    ----------
    name : str
        The column's name.
    kind : str
        A key of `DTYPES`. ``label`` reads a string, or the name inside an object;
        ``host`` keeps the host of a URL; ``masked`` keeps the keys of an object and
        masks its values; ``json`` keeps JSON text; ``list`` keeps the items of a list,
        those that are not strings as JSON text.
    wire : str or None
        Path of the value in an item, with a dot for nested objects. None for a derived
        column.
    meaning : str
        What it holds.
    documented : bool
        Whether the specification gives the field and its type.
    """

    name: str
    kind: str
    wire: str | None
    meaning: str
    documented: bool = True

    @property
    def dtype(self) -> str:
        """The pandas dtype, as text."""
        return DTYPES[self.kind]


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a resource, in order.

    Attributes
    ----------
    resource : str
    columns : tuple of Column
    opaque : tuple of str
        Documented fields without a column. They are kept in ``extra``, like unknown
        fields.
    secret : bool
        Whether unknown values may be secrets. They are then masked in ``extra`` and in
        problems.
    """

    resource: str
    columns: tuple[Column, ...]
    opaque: tuple[str, ...] = ()
    secret: bool = False


def _column(kind: str, name: str, meaning: str, *, wire: str | None = None, documented: bool = True) -> Column:
    return Column(name, kind, wire or name, meaning, documented=documented)


_id, _text, _enum, _time, _bool = (partial(_column, kind) for kind in ("id", "text", "enum", "time", "bool"))
_list = partial(_column, "list", documented=False)
_label = partial(_column, "label", documented=False)
_CREATED = _time("created_at", "when the platform wrote it")
_UPDATED = _time("updated_at", "when it last changed")
_UNDOCUMENTED_TIMES = tuple(replace(column, documented=False) for column in (_CREATED, _UPDATED))
_UNDOCUMENTED_OWNER = (
    _id("owner_id", "the owning account", documented=False),
    _text("owner_name", "name of the owning account", wire="owner.name", documented=False),
    _enum("owner_type", "user or organization", wire="owner.type", documented=False),
)
_EXTRA = Column("extra", "json", None, "opaque, unknown and unreadable fields, as one JSON object")
_ID = _id("id", "its id")


def _schema(resource: str, *columns: Column, opaque: tuple[str, ...] = (), secret: bool = False) -> Schema:
    return Schema(resource, (*columns, _EXTRA), opaque, secret)


SCHEMAS: dict[str, Schema] = {
    schema.resource: schema
    for schema in (
        _schema(
            "workspaces",
            _ID,
            _text("name", "its name"),
            _text("full_name", "<owner_name>~<workspace_name>"),
            _id("owner_id", "the owning account"),
            _text("owner_name", "name of the owning account", wire="owner.name"),
            _enum("owner_type", "user or organization", wire="owner.type"),
            _id("creator_id", "who created it; a key-created workspace has the key"),
            _bool("restrict_account_credentials", "tasks may not fall back to the account's shared credentials"),
            _bool("should_restrict_members", "only members may enter it"),
            _bool("unlimited_power_mode", "fan-out limits raised to the platform's ceilings"),
            _enum("required_credentials_mode", "SHARED, MEMBER, or null for no requirement"),
            _time("archived_at", "when it was archived; null while in use"),
            _id("archived_by_id", "who archived it"),
            _CREATED,
            _UPDATED,
            opaque=("unlimited_power_mode_enabled", "archived_by", "creator", "is_viewer_member"),
        ),
        # The specification does not show the fields of agents, versions and skills.
        # These are the fields that the create calls accept.
        _schema(
            "agents",
            _ID,
            _text("name", "its name", documented=False),
            _text("full_name", "<owner_name>~<agent_name>", documented=False),
            _text("description", "what it does", documented=False),
            *_UNDOCUMENTED_OWNER,
            _id("creator_id", "who created it", documented=False),
            _id("maintainer_id", "who maintains it", documented=False),
            _label("category", "its category"),
            _list("tags", "its tags"),
            _enum("template", "what it was created from", documented=False),
            _enum("setup_state", "READY once it can be configured", documented=False),
            _bool("is_public", "anybody may read it", documented=False),
            _bool("is_archived", "out of use", documented=False),
            _bool("is_pinned", "pinned by its owner", documented=False),
            _text("latest_version", "number of its newest committed version", documented=False),
            *_UNDOCUMENTED_TIMES,
        ),
        _schema(
            "agent_versions",
            _ID,
            _id("agent_id", "the agent", documented=False),
            _enum("type", "EPHEMERAL or COMMITTED", documented=False),
            _text("version_number", "such as 1.0.0", documented=False),
            _text("description", "what the agent does", documented=False),
            _text("summary", "what changed", documented=False),
            _enum("mode", "one-shot or multi-turn", documented=False),
            _text("system_prompt", "the prompt of an LLM agent", documented=False),
            _list("tools", "its integrations with their tools, each as JSON text"),
            _list("platform_tools", "the platform's own tools that it may call"),
            _text("model", "the language model; null for the platform's own", documented=False),
            _id("creator_id", "who committed it", documented=False),
            _time("published_at", "when it was published; null until then", documented=False),
            *_UNDOCUMENTED_TIMES,
        ),
        _schema("models", _text("id", "its name"), _bool("is_default", "versions that name no model run on it")),
        _schema(
            "skills",
            _ID,
            _text("name", "its name", documented=False),
            _text("full_name", "<owner_name>~<skill_name>", documented=False),
            _text("overview", "what it teaches", documented=False),
            *_UNDOCUMENTED_OWNER,
            _id("creator_id", "who created it", documented=False),
            _bool("is_public", "anybody may read it", documented=False),
            _time("archived_at", "when it was archived", documented=False),
            *_UNDOCUMENTED_TIMES,
        ),
        _schema(
            "credentials",
            _ID,
            _text("name", "its name, where the platform says it", documented=False),
            _label("integration", "the service it opens"),
            _id("owner_id", "the account or member it belongs to"),
            _id("creator_id", "who connected it"),
            _id("target_id", "what it points at"),
            _id("auth_config_id", "how it was obtained"),
            Column("params", "masked", "params", "its parameters: keys, masked values"),
            Column("extra_data", "masked", "extra_data", "what the integration added: keys, masked values"),
            Column(
                "config_params", "masked", "config_params", "its configuration: keys, masked values", documented=False
            ),
            Column(
                "params_fingerprint",
                "text",
                None,
                "equal for equal params within one process; null where there are none; says nothing else about them",
            ),
            _bool("webhook_enabled", "whether it receives webhooks", documented=False),
            Column("webhook_url", "host", "webhook_url", "host of the webhook address", documented=False),
            _label("signature_type", "how webhooks are signed"),
            _bool("has_active_webhook_triggers", "whether a webhook starts anything", documented=False),
            _text("webhook_owner_identifier", "whom the integration sends webhooks for, masked"),
            _list("policy_resources", "what its policy names; objects as JSON text"),
            _CREATED,
            _UPDATED,
            opaque=("creator", "target"),
            secret=True,
        ),
        _schema(
            "contexts",
            _ID,
            _id("workspace_id", "the workspace"),
            _id("task_id", "the task that wrote it"),
            _enum("status", "DRAFT and others"),
            _label("type", "its type"),
            _text("summary", "its summary"),
            _text("generated_context", "text an agent wrote"),
            _text("manual_context", "text a person wrote"),
            _id("published_by_id", "who published it; null until then"),
            _CREATED,
            _UPDATED,
            opaque=("task",),
        ),
        _schema(
            "invitations",
            _ID,
            _id("organization_id", "the organization"),
            _id("invitee_id", "who is invited"),
            _id("creator_id", "who invited"),
            _enum("role", "ADMIN and others"),
            _enum("status", "PENDING and others"),
            _label("type", "its type"),
            _CREATED,
            _UPDATED,
            opaque=("invitee",),
        ),
        _schema(
            "sessions",
            _ID,
            _id("workspace_id", "the workspace it runs in"),
            _id("agent_id", "the agent, where the platform says it", documented=False),
            _text("agent_version", "id of its version, where said", wire="agent_version_id", documented=False),
            _enum(
                "type", "chat, time, webhook, api_trigger or agent_test, where the platform says it", documented=False
            ),
            _id("initiator_id", "who began it; the key's id for a key"),
            _enum("initiator_type", "api_key for a key", wire="initiator.type", documented=False),
            _text("initiator_name", "name of who began it", wire="initiator.name", documented=False),
            _text("name", "its name"),
            _enum("status", "such as RUNNING, where the platform says it", documented=False),
            _CREATED,
            _UPDATED,
        ),
        _schema(
            "events",
            _ID,
            _id("session_id", "the session, known from the request where the item does not say it"),
            Column("at", "time", None, "the millisecond its UUIDv7 carries; null on drafts"),
            _enum("type", "runtime_done and others"),
            _enum(
                "author_type",
                "who wrote it: api_key for a key; null where the platform names no author",
                wire="author.type",
            ),
            _id("author_id", "id of who wrote it", wire="author.id"),
            _enum("author_name", "name of who wrote it", wire="author.name"),
            _text(
                "text", "content.text; the message or the reply; parts that are texts, one a line", wire="content.text"
            ),
            Column("content", "json", "content", "what else the content holds; {} where nothing else"),
            _id("task_id", "the task it belongs to"),
            _CREATED,
            _UPDATED,
        ),
        _schema(
            "workspace_agents",
            _ID,
            _id("workspace_id", "the workspace", documented=False),
            _id("agent_id", "the agent installed in it", documented=False),
            _text("agent_name", "name of the agent", wire="agent.name", documented=False),
            _id("creator_id", "who installed it", documented=False),
            _enum("required_credentials_mode", "its own declaration; overrides the workspace's", documented=False),
            *_UNDOCUMENTED_TIMES,
        ),
    )
}


def schema_of(resource: str) -> Schema:
    """The schema of a resource; a `ValueError` lists the resources that exist."""
    try:
        return SCHEMAS[resource]
    except KeyError:
        raise ValueError(f"Unknown resource {resource!r}. Choose one of: {', '.join(SCHEMAS)}.") from None


def arrow_schema(schema: Schema) -> Any:
    """The `pyarrow.Schema` of a resource."""
    return pa.schema([(column.name, ARROW_TYPES[column.dtype]) for column in schema.columns])
