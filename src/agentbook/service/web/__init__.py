"""What the OAuth endpoints and pages share with the API: forms, responses, errors."""
