"""Where the service keeps its data, and the key that notebooks find there.

This is a separate module because notebooks need it without the store.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

KEY_FILE = "local-key.json"


def default_data() -> Path:
    """Return ``AGENTBOOK_DATA``, or else the user's data directory on this system."""
    named = os.environ.get("AGENTBOOK_DATA")
    return Path(named).expanduser() if named else Path(platformdirs.user_data_dir("agentbook"))
