"""The program of the process that draws charts, which `drawing` starts.

It reads calls of vl-convert as lines of JSON and writes each reply as a line of JSON
with its length, followed by its bytes. It ends when its input does. It is run as a file
and imports nothing from agentbook, which would load pandas into this process.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Reply to calls until the input ends."""
    import vl_convert

    responses = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by JavaScript must not get in between the replies
    for line in sys.stdin.buffer:
        function, arguments = json.loads(line)
        try:
            reply = getattr(vl_convert, function)(**arguments)
            kind = "text" if isinstance(reply, str) else "bytes"
        except Exception as error:
            reply, kind = str(error), "error"
        content = reply.encode() if isinstance(reply, str) else bytes(reply)
        responses.write(json.dumps([kind, len(content)]).encode() + b"\n" + content)
        responses.flush()


if __name__ == "__main__":
    main()
