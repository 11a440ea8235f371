"""What the platform understands: calls, credentials, errors, retries, pages."""
