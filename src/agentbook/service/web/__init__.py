"""What the OAuth endpoints and the pages share: forms, and HTML with its style sheet."""
