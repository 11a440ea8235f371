"""What the OAuth endpoints and the pages share: requests, HTML and the style sheet."""
