"""Signing in: OAuth 2.0 with PKCE, the loopback redirect, and the token store."""
