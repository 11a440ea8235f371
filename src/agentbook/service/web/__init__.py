"""What the OAuth endpoints and the pages share with the API: forms and responses."""
