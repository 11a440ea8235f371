"""Conversations without widgets: exchanges, transcripts, subscriptions."""
