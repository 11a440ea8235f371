"""The columns of each resource: one table per noun of the specification.

A schema says, for every column, where it stands on the wire, its dtype, its unit and what it means. Everything that
reads, documents or checks frames works from these tables; a field that none of them names is kept as JSON text in
``extra``. Columns marked as not given rest on no type in the specification ("Gaps in this part"): a value of another
shape is no error there, it goes to ``extra`` as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

# The dtype of texts. Plain "str" means something else when pandas' option
# `future.infer_string` is off: a null then becomes the text "nan".
STR = pd.StringDtype(na_value=np.nan)
DTYPES: dict[str, str] = {
    "id": "str",
    "text": "str",
    "json": "str",
    "label": "str",
    "host": "str",
    "masked": "str",
    "enum": "category",
    "time": "datetime64[us, UTC]",
    "int": "Int64",
    "bool": "boolean",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a resource's frame.

    Attributes
    ----------
    name : str
        The column's name.
    kind : str
        A key of `DTYPES`. ``label`` reads a string, or the name inside an object; ``host`` keeps the host of a URL;
        ``masked`` keeps the keys of an object and masks its values; ``json`` keeps JSON text.
    wire : str or None
        Where the value stands in an item, with a dot into nested objects; None where it is derived.
    meaning : str
    unit : str
    given : bool
        Whether the specification gives the field and its type.
    """

    name: str
    kind: str
    wire: str | None
    meaning: str
    unit: str = ""
    given: bool = True

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
        Documented fields without a column of their own; kept in ``extra`` like unknown ones.
    secret : bool
        Whether unknown values may be secrets, so that they are masked in ``extra`` and in problems.
    """

    resource: str
    columns: tuple[Column, ...]
    opaque: tuple[str, ...] = ()
    secret: bool = False


def _id(name: str, meaning: str, *, wire: str | None = None, given: bool = True) -> Column:
    return Column(name, "id", wire or name, meaning, given=given)


def _text(name: str, meaning: str, *, wire: str | None = None, given: bool = True) -> Column:
    return Column(name, "text", wire or name, meaning, given=given)


def _enum(name: str, meaning: str, *, wire: str | None = None, given: bool = True) -> Column:
    return Column(name, "enum", wire or name, meaning, given=given)


def _time(name: str, meaning: str, *, given: bool = True) -> Column:
    return Column(name, "time", name, meaning, given=given)


def _bool(name: str, meaning: str, *, given: bool = True) -> Column:
    return Column(name, "bool", name, meaning, given=given)


def _json(name: str, meaning: str, *, given: bool = False) -> Column:
    return Column(name, "json", name, meaning, given=given)


_CREATED = _time("created_at", "when the platform wrote it")
_UPDATED = _time("updated_at", "when it last changed")
_EXTRA = Column(
    "extra", "json", None, "opaque and unknown fields, and values that could not be read, as one JSON object"
)
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
        # The fields of agents, versions and skills are not shown: these are the ones their create calls accept.
        _schema(
            "agents",
            _ID,
            _text("name", "its name", given=False),
            _text("description", "what it does", given=False),
            _id("owner_id", "the owning account", given=False),
            _text("owner_name", "name of the owning account", wire="owner.name", given=False),
            _enum("owner_type", "user or organization", wire="owner.type", given=False),
            _id("creator_id", "who created it", given=False),
            _id("maintainer_id", "who maintains it", given=False),
            Column("category", "label", "category", "its category", given=False),
            _json("tags", "its tags"),
            _enum("template", "what it was created from", given=False),
            _enum("setup_state", "READY once it can be configured", given=False),
            _bool("is_public", "anybody may read it", given=False),
            _bool("is_archived", "out of use", given=False),
            _bool("is_pinned", "pinned by its owner", given=False),
            _time("created_at", "when the platform wrote it", given=False),
            _time("updated_at", "when it last changed", given=False),
        ),
        _schema(
            "agent_versions",
            _ID,
            _id("agent_id", "the agent", given=False),
            _enum("type", "EPHEMERAL or COMMITTED", given=False),
            _text("version_number", "such as 1.0.0", given=False),
            _text("description", "what the agent does", given=False),
            _text("summary", "what changed", given=False),
            _enum("mode", "one-shot or multi-turn", given=False),
            _text("system_prompt", "the prompt of an LLM agent", given=False),
            _json("tools", "integrations and their tools"),
            _id("creator_id", "who committed it", given=False),
            _time("published_at", "when it was published; null until then", given=False),
            _time("created_at", "when the platform wrote it", given=False),
            _time("updated_at", "when it last changed", given=False),
        ),
        _schema(
            "skills",
            _ID,
            _text("name", "its name", given=False),
            _text("overview", "what it teaches", given=False),
            _id("owner_id", "the owning account", given=False),
            _text("owner_name", "name of the owning account", wire="owner.name", given=False),
            _enum("owner_type", "user or organization", wire="owner.type", given=False),
            _id("creator_id", "who created it", given=False),
            _bool("is_public", "anybody may read it", given=False),
            _time("archived_at", "when it was archived", given=False),
            _time("created_at", "when the platform wrote it", given=False),
            _time("updated_at", "when it last changed", given=False),
        ),
        _schema(
            "credentials",
            _ID,
            _text("name", "its name, where the platform says it", given=False),
            Column("integration", "label", "integration", "the service it opens", given=False),
            _id("owner_id", "the account or member it belongs to"),
            _id("creator_id", "who connected it"),
            _id("target_id", "what it points at"),
            _id("auth_config_id", "how it was obtained"),
            Column("params", "masked", "params", "its parameters: keys, masked values"),
            Column("extra_data", "masked", "extra_data", "what the integration added: keys, masked values"),
            Column("config_params", "masked", "config_params", "its configuration: keys, masked values", given=False),
            Column(
                "params_fingerprint",
                "text",
                None,
                "equal for equal params within one process; null where there are none; says nothing else about them",
            ),
            _bool("webhook_enabled", "whether it receives webhooks", given=False),
            Column("webhook_url", "host", "webhook_url", "host of the webhook address", given=False),
            Column("signature_type", "label", "signature_type", "how webhooks are signed", given=False),
            _bool("has_active_webhook_triggers", "whether a webhook starts anything", given=False),
            _text("webhook_owner_identifier", "whom the integration sends webhooks for"),
            _json("policy_resources", "what its policy names"),
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
            Column("type", "label", "type", "its type", given=False),
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
            Column("type", "label", "type", "its type", given=False),
            _CREATED,
            _UPDATED,
            opaque=("invitee",),
        ),
        _schema(
            "sessions",
            _ID,
            _id("workspace_id", "the workspace it runs in"),
            _id("agent_id", "the agent, where the platform says it", given=False),
            _enum("type", "chat, time, webhook, api_trigger or agent_test, where the platform says it", given=False),
            _id("initiator_id", "who began it; the key's id for a key"),
            _enum("initiator_type", "api_key for a key", wire="initiator.type", given=False),
            _text("name", "its name"),
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
            _text("text", "content.text; the message or the reply", wire="content.text"),
            Column("content", "json", "content", "what else the content holds; {} where nothing else"),
            _id("task_id", "the task it belongs to"),
            _CREATED,
            _UPDATED,
        ),
        _schema(
            "workspace_agents",
            _ID,
            _id("workspace_id", "the workspace", given=False),
            _id("agent_id", "the agent installed in it", given=False),
            _text("agent_name", "name of the agent", wire="agent.name", given=False),
            _id("creator_id", "who installed it", given=False),
            _enum("required_credentials_mode", "its own declaration; overrides the workspace's", given=False),
            _time("created_at", "when the platform wrote it", given=False),
            _time("updated_at", "when it last changed", given=False),
        ),
    )
}


def schema_of(resource: str) -> Schema:
    """The schema of a resource, or a `ValueError` that names those there are."""
    try:
        return SCHEMAS[resource]
    except KeyError:
        raise ValueError(f"There is no resource {resource!r}: choose one of {', '.join(SCHEMAS)}.") from None


def describe(resource: str) -> pd.DataFrame:
    """The columns of a resource's frame as a table.

    Parameters
    ----------
    resource : str
        Such as ``"events"`` or ``"credentials"``.

    Returns
    -------
    DataFrame
        One row per column, indexed by its name:

        ======== ====== =============================================================
        column   dtype  meaning
        ======== ====== =============================================================
        wire     str    where it stands in an item; null where it is derived
        dtype    str    its pandas dtype
        unit     str    its unit, empty where it has none
        meaning  str    what it says
        given    bool   whether the specification gives the field and its type
        ======== ====== =============================================================

    Raises
    ------
    ValueError
        There is no such resource.

    Notes
    -----
    Specification: "Resources and their fields".

    Examples
    --------
    >>> describe("events").loc["at", ["dtype", "meaning"]].to_list()
    ['datetime64[us, UTC]', 'the millisecond its UUIDv7 carries; null on drafts']
    """
    columns = schema_of(resource).columns
    return pd.DataFrame(
        {
            "wire": pd.array([column.wire for column in columns], dtype="str"),
            "dtype": pd.array([column.dtype for column in columns], dtype="str"),
            "unit": pd.array([column.unit for column in columns], dtype="str"),
            "meaning": pd.array([column.meaning for column in columns], dtype="str"),
            "given": [column.given for column in columns],
        },
        index=pd.Index([column.name for column in columns], name="column", dtype="str"),
    )
