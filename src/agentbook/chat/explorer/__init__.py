"""`Explorer`: the turns of a history in linked views, next to the conversation."""
