"""A judge and embeddings that answer what the case says, for promptfoo and for us.

A rubric ``judge:{...}`` is answered by what stands after the colon; the text
``vector 1 2`` has the embedding [1, 2].
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def answer_judge(message: str) -> str:
    """The scripted verdict in a message to the judge."""
    match = re.search(
        r"<(?:Rubric|criterion)>\s*judge:(.*?)\s*</(?:Rubric|criterion)>", message, re.DOTALL | re.IGNORECASE
    )
    return match[1] if match else "no script"


def embed(texts: Sequence[str]) -> list[list[float]]:
    """The vectors that the texts name; [1, 1] for other texts."""
    return [list(map(float, text.split()[1:])) if text.startswith("vector ") else [1.0, 1.0] for text in texts]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/embeddings"):
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            reply = {"data": [{"index": n, "embedding": vector} for n, vector in enumerate(embed(texts))]}
        else:
            content = answer_judge(str(body["messages"][-1]["content"]))
            message = {"role": "assistant", "content": content}
            reply = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        data = json.dumps({**reply, "model": body["model"], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve() -> Iterator[str]:
    """The address of a server that speaks as OpenAI's API does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
