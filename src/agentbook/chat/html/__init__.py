"""Agent text as safe HTML: Markdown, formulas, messages, static transcripts."""
