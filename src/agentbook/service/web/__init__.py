"""What the OAuth endpoints and the pages share: requests, HTML and its style sheet."""
