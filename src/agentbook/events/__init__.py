"""One session's event stream: cursor, socket, reconnect, replay, and what the events mean."""
