"""The prompt lab: variants of an agent's configuration that answer the same inputs."""
