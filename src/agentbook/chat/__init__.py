"""What a person sees: the conversation and the panel that draws it."""
