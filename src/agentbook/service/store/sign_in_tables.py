"""The tables for OAuth and for the pages where people sign in.

A ``*sha256`` column is the hash of a secret that only its holder has.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from .tables import id_column, metadata, time_columns

oauth_clients = Table(
    "oauth_clients",
    metadata,
    id_column(),
    Column("name", Text, nullable=False),
    Column("metadata_json", Text, nullable=False),  # as accepted, and as returned
    Column("registered_from", Text, nullable=False),  # IP address
    *time_columns(),
    Index("oauth_clients_by_address", "registered_from", "created_at"),
)

# What a person allowed a client, with the authorization code that was issued for it.
oauth_authorizations = Table(
    "oauth_authorizations",
    metadata,
    id_column(),
    Column("client_id", Text, ForeignKey("oauth_clients.id"), nullable=False),
    Column("person_id", Text, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("account_id", Text, ForeignKey("accounts.id"), nullable=False),  # acting as: the person, or an organization
    Column("scopes_json", Text, nullable=False),
    Column("redirect_uri", Text, nullable=False),
    Column("code_sha256", Text, nullable=False, unique=True),
    Column("code_challenge", Text, nullable=False),
    Column("code_expires_at", Text, nullable=False),
    Column("code_used_at", Text),
    Column("revoked_at", Text),
    *time_columns(),
)

oauth_tokens = Table(
    "oauth_tokens",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("authorization_id", Text, ForeignKey("oauth_authorizations.id"), nullable=False, index=True),
    Column("kind", Text, nullable=False),  # access | refresh
    Column("scopes_json", Text, nullable=False),
    Column("expires_at", Text, nullable=False, index=True),
    Column("spent_at", Text),  # refresh tokens: kept until they expire, to detect a second use
    Column("created_at", Text, nullable=False),
)

signin_links = Table(
    "signin_links",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("account_id", Text, ForeignKey("accounts.id"), nullable=False),
    Column("expires_at", Text, nullable=False),
)

page_sessions = Table(
    "page_sessions",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("account_id", Text, ForeignKey("accounts.id"), nullable=False),
    Column("expires_at", Text, nullable=False),
)
