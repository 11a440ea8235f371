"""`Explorer`: the turns of a history in linked views, with the conversation beside."""
