"""The tables of the store, for SQLite and PostgreSQL.

Ids are canonical UUID text and ``*_at`` columns fixed-width ISO text (see
`agentbook.service.ids`), so both sort and compare as text. Columns that end in
``_json`` contain JSON text. An event stores the exact JSON that is sent (``wire``) in
addition to the few columns it is filtered by, so a page of events is just joined text.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SCHEMA_VERSION = 6

metadata = MetaData()


def id_column() -> Column[str]:
    return Column("id", Text, primary_key=True)


def time_columns() -> tuple[Column[str], Column[str]]:
    return Column("created_at", Text, nullable=False), Column("updated_at", Text, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


# Facts about the store: schema_version, seed, clock, created_at, demo.
meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

accounts = Table(
    "accounts",
    metadata,
    id_column(),
    Column("type", Text, nullable=False),  # user | organization
    Column("name", Text, nullable=False, unique=True),
    Column("full_name", Text, nullable=False),
    Column("creator_id", Text),
    Column("bio", Text),
    Column("avatar_url", Text),
    Column("banner_url", Text),
    Column("email_domain", Text),
    Column("links_json", Text, nullable=False, server_default="{}"),  # website_url and the six <network>_url fields
    Column("closure_requested_at", Text),
    Column("closure_requested_by_id", Text),
    *time_columns(),
)

memberships = Table(
    "memberships",
    metadata,
    id_column(),
    Column("organization_id", Text, ForeignKey("accounts.id"), nullable=False),
    Column("user_id", Text, ForeignKey("accounts.id"), nullable=False),
    Column("role", Text, nullable=False),  # ADMIN | MEMBER
    _flag("is_public"),
    *time_columns(),
    UniqueConstraint("organization_id", "user_id"),
)

api_keys = Table(
    "api_keys",
    metadata,
    id_column(),
    Column("kind", Text, nullable=False, server_default="account"),  # account | trigger
    Column("account_id", Text, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("workspace_id", Text),  # trigger keys: the only workspace they can access
    Column("agent_id", Text),  # trigger keys: the only agent they run
    Column("authorization_id", Text, index=True),  # of keys that earlier versions made with a token
    Column("name", Text, nullable=False),
    Column("secret_sha256", Text, nullable=False),
    Column("scopes_json", Text, nullable=False, server_default="[]"),
    Column("revoked_at", Text),
    *time_columns(),
)

workspaces = Table(
    "workspaces",
    metadata,
    id_column(),
    Column("owner_id", Text, ForeignKey("accounts.id"), nullable=False),
    Column("creator_id", Text, nullable=False),
    Column("creator_type", Text, nullable=False, server_default="user"),  # user | organization | api_key
    Column("name", Text, nullable=False),
    _flag("restrict_account_credentials"),
    _flag("should_restrict_members"),
    _flag("unlimited_power_mode"),
    Column("required_credentials_mode", Text),  # SHARED | MEMBER | null
    Column("archived_at", Text),
    Column("archived_by_id", Text),
    *time_columns(),
    UniqueConstraint("owner_id", "name"),
)

# Who has access to a workspace with `should_restrict_members`, besides the admins of
# the organization that owns it.
workspace_members = Table(
    "workspace_members",
    metadata,
    id_column(),
    Column("workspace_id", Text, ForeignKey("workspaces.id"), nullable=False),
    Column("user_id", Text, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("creator_id", Text),  # who added the member; null: the command line
    *time_columns(),
    UniqueConstraint("workspace_id", "user_id"),
)

agents = Table(
    "agents",
    metadata,
    id_column(),
    Column("owner_id", Text, ForeignKey("accounts.id"), nullable=False),
    Column("creator_id", Text, nullable=False),
    Column("maintainer_id", Text),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("avatar_url", Text),
    Column("category", Text),
    Column("tags_json", Text, nullable=False, server_default="[]"),
    Column("template", Text),  # the specification's template enum
    Column("engine", Text, nullable=False),  # which Engine runs it: guide, analyst, llm, ...
    Column("setup_state", Text, nullable=False, server_default="READY"),
    Column("forked_from_version", Text),
    _flag("is_public"),
    _flag("is_archived"),
    _flag("is_pinned"),
    *time_columns(),
    UniqueConstraint("owner_id", "name"),
)

agent_versions = Table(
    "agent_versions",
    metadata,
    id_column(),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False, index=True),
    Column("creator_id", Text, nullable=False),
    Column("type", Text, nullable=False),  # EPHEMERAL | COMMITTED
    Column("version_number", Text, nullable=False),
    Column("description", Text),
    Column("summary", Text),
    Column("system_prompt", Text),
    # Who wrote the prompt, if a fork copied it from another account's agent.
    Column("prompt_owner_id", Text),
    Column("mode", Text, nullable=False, server_default="one-shot"),
    Column("tools_json", Text, nullable=False, server_default="[]"),
    Column("platform_tools_json", Text, nullable=False, server_default="[]"),
    Column("model", Text),
    Column("temperature", Double),
    Column("max_tokens", Integer),
    Column("top_p", Double),
    Column("validation", Text, nullable=False, server_default="PASSED"),  # PENDING | PASSED | FAILED
    Column("published_at", Text),
    *time_columns(),
)

workspace_agents = Table(
    "workspace_agents",
    metadata,
    id_column(),
    Column("workspace_id", Text, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False, index=True),
    Column("creator_id", Text, nullable=False),
    Column("required_credentials_mode", Text),
    *time_columns(),
    UniqueConstraint("workspace_id", "agent_id"),
)

skills = Table(
    "skills",
    metadata,
    id_column(),
    Column("owner_id", Text, ForeignKey("accounts.id"), nullable=False),
    Column("creator_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("overview", Text),
    Column("avatar_url", Text),
    _flag("is_public"),
    Column("archived_at", Text),
    *time_columns(),
    UniqueConstraint("owner_id", "name"),
)

skill_versions = Table(
    "skill_versions",
    metadata,
    id_column(),
    Column("skill_id", Text, ForeignKey("skills.id"), nullable=False, index=True),
    Column("creator_id", Text, nullable=False),
    Column("version_number", Text, nullable=False),
    Column("overview", Text),
    *time_columns(),
)

credentials = Table(
    "credentials",
    metadata,
    id_column(),
    Column("owner_id", Text, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("creator_id", Text),
    Column(
        "account_id", Text, nullable=False, index=True
    ),  # the account whose list shows it (a member's own is shown too)
    Column("target_id", Text),
    Column("auth_config_id", Text),
    Column("integration", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("params_json", Text, nullable=False, server_default="{}"),
    Column("extra_data_json", Text, nullable=False, server_default="{}"),
    Column("config_params_json", Text, nullable=False, server_default="{}"),
    Column("policy_resources_json", Text, nullable=False, server_default="[]"),
    Column("webhook_owner_identifier", Text),
    Column("webhook_url", Text),
    Column("signature_type", Text),
    _flag("webhook_enabled"),
    _flag("has_active_webhook_triggers"),
    *time_columns(),
)

# The workspace agents that a credential is granted to, for the filters `workspace_id`
# and `grant_candidates`.
credential_grants = Table(
    "credential_grants",
    metadata,
    Column("credential_id", Text, ForeignKey("credentials.id"), primary_key=True),
    Column("workspace_agent_id", Text, ForeignKey("workspace_agents.id", ondelete="CASCADE"), primary_key=True),
)

contexts = Table(
    "contexts",
    metadata,
    id_column(),
    Column("workspace_id", Text, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("task_id", Text),
    Column("published_by_id", Text),
    Column("type", Text),
    Column("status", Text, nullable=False),  # DRAFT | PUBLISHED
    Column("generated_context", Text),
    Column("manual_context", Text),
    Column("summary", Text),
    *time_columns(),
)

invitations = Table(
    "invitations",
    metadata,
    id_column(),
    Column("organization_id", Text, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("invitee_id", Text, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("creator_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("type", Text),
    *time_columns(),
)

sessions = Table(
    "sessions",
    metadata,
    id_column(),
    Column("workspace_id", Text, ForeignKey("workspaces.id"), nullable=False),
    Column("agent_id", Text),
    Column("agent_version_id", Text),  # null: the newest committed version at the time of each turn
    Column("type", Text, nullable=False),  # chat | time | webhook | api_trigger | agent_test
    Column("initiator_id", Text, nullable=False),
    Column("initiator_type", Text, nullable=False),  # api_key | user | organization | trigger
    Column("name", Text),
    *time_columns(),
    Index("sessions_by_workspace", "workspace_id", "id"),
)

# No foreign key on session_id: bulk histories are written table by table, and sessions
# are never deleted.
events = Table(
    "events",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("task_id", Text),
    Column("author_type", Text),
    Column("created_at", Text, nullable=False),
    Column("size_bytes", Integer, nullable=False),  # of the text; placed before it: SQLite reads all in between
    Column("wire", Text, nullable=False),
    # SQLite reads a whole row of the table to see whether a range ends with it.
    Index("events_by_size", "session_id", "id", "size_bytes").ddl_if(dialect="sqlite"),
    # Clustered by (session, id): a page is one range scan of neighbouring rows.
    sqlite_with_rowid=False,
)

# Turns that were accepted and are not finished. On SQLite, a row that exists at
# start-up was interrupted by a crash. On PostgreSQL, `owner` is the process that runs
# it.
pending_turns = Table(
    "pending_turns",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("session_id", Text, nullable=False, index=True),
    Column("message_id", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("owner", Text),
)

# The processes that share this PostgreSQL database, and until when each is known to be
# alive, in seconds since the epoch by the database's clock (see `cluster.lease`).
processes = Table(
    "processes",
    metadata,
    id_column(),
    Column("lease_until", Double, nullable=False),
)

# What an agent keeps between the turns of one session, in its own encoding.
agent_states = Table(
    "agent_states",
    metadata,
    Column("session_id", Text, ForeignKey("sessions.id"), primary_key=True),
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("state", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
)

# Tokens that agents used in a calendar month, one row for each budget they count
# against.
spending = Table(
    "spending",
    metadata,
    Column("scope", Text, primary_key=True),  # WORKSPACE | AGENT | USER
    Column("spender_id", Text, primary_key=True),
    Column("month", Text, primary_key=True),  # as in 2026-11, UTC
    Column("tokens", BigInteger, nullable=False),
)
