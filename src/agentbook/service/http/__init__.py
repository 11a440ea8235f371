"""The HTTP side of the service: application, middleware, rate limit, WebSocket, server."""
