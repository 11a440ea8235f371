"""Measures langgraph-sdk, which reads threads page by page from ``langgraph dev``.

`tests/benchmarks/peers.py` runs this script in LangGraph's environment.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pandas as pd
from common import free_port, measured, report, served
from langgraph_sdk import get_client, get_sync_client

PAGE = 1000  # the maximum that it accepts
GRAPH = """
from langgraph.graph import END, START, StateGraph

def answer(state: dict) -> dict:
    return state

graph = StateGraph(dict).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END).compile()
"""


def main(rows: int, folder: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    (folder / "graph.py").write_text(GRAPH)
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}))
    command = [
        *(str(Path(sys.executable).with_name("langgraph")), "dev", "--host", "127.0.0.1", "--port", str(port)),
        *("--no-browser", "--no-reload"),
    ]
    with served(command, f"{url}/ok", folder / "serve.log", {"LANGSMITH_TRACING": "false"}):
        asyncio.run(seed(url, rows))
        client = get_sync_client(url=url)

        def read() -> pd.DataFrame:
            threads: list[object] = []
            while page := client.threads.search(limit=PAGE, offset=len(threads)):
                threads += page
            return pd.json_normalize(threads)

        report(measured(f"langgraph-sdk `threads.search`, pages of {PAGE:,}, `json_normalize`", rows, read))


async def seed(url: str, rows: int) -> None:
    client = get_client(url=url)
    limit = asyncio.Semaphore(16)

    async def create_thread(n: int) -> None:
        async with limit:
            await client.threads.create(metadata={"session": "s1", "text": "word " * 17, "n": n})

    await asyncio.gather(*(create_thread(n) for n in range(rows)))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
