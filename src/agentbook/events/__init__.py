"""The event stream of a session: cursor, WebSocket, reconnecting, replay, turns."""
