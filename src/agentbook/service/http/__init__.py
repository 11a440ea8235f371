"""The HTTP side: application, middleware, rate limit, WebSocket, server."""
