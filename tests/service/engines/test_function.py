"""Functions that answer as agents: what they may give, and that none does harm."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbook.service.engines.base import Draft, Failure, LlmUsage, Message, Reply, Step, ToolDone, ToolStarted
from agentbook.service.engines.function import FunctionEngine, check_function
from agentbook.service.engines.meter import RUN_FAILURES
from agentbook.service.errors import OperatorError
from service.engines.engine_runs import collect, request

MODULE = """
import asyncio, os, sys, threading
from agentbook.agents import LlmUsage, Request, ToolDone, ToolStarted

def text(request: Request):
    return f"{request.message} {len(request.messages)} {request.messages[-1]['role']} {request.system_prompt}"

async def awaited(request):
    await asyncio.sleep(0)
    return "awaited"

async def pieces(request):
    async with asyncio.timeout(30):  # is left in the task that entered it
        yield "a"
        await asyncio.sleep(0)
        yield None
        yield "b \\ud83d"

def steps(request):
    print("printed,", end=" ")
    os.system("echo by another program")
    yield ToolStarted("find", {"id": 7})
    yield ToolDone("find", {"when": object, "mean": float("nan")})
    yield LlmUsage(30, "not-an-agent", model="m", input_tokens=20, output_tokens=10, cached_tokens=5)
    yield "found"
    return "!"

def pid(request):
    return str(os.getpid())

def harm(request):
    kind = request.message
    if kind == "raise": raise ValueError("no: sk-abcdefghijklmnopqrstuvwxyz123456")
    if kind == "exit": sys.exit("bye")
    if kind == "end": os._exit(3)
    if kind == "input": input()
    if kind == "nothing": return
    if kind == "wrong": yield {"text": "hi"}
    if kind == "name": yield ToolStarted(7)
    if kind == "tokens": yield LlmUsage(10 ** 20)
    if kind == "long": yield ToolDone("t", "x" * (9 << 20))
    while kind == "text": yield "many pieces "
    while kind == "tools": yield ToolDone("t")
    if kind == "block":
        open(__file__ + ".pid", "w").write(str(os.getpid()))
        while True: pass
    yield "harmless"
"""
ENDLESS = RUN_FAILURES["synchronous_steps"].message


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "my_agent.py"
    path.write_text(MODULE)
    return path


@pytest.fixture
def run(module: Path) -> Callable[..., list[list[Step]]]:
    """Runs turns of one function, one after another."""

    def run(name: str, *messages: str, **options: Any) -> list[list[Step]]:
        async def turns() -> list[list[Step]]:
            engine = FunctionEngine(f"{module}:{name}")
            try:
                return [await collect(engine, request(message, **options)) for message in messages]
            finally:
                await engine.aclose()

        return asyncio.run(turns())

    return run


def test_a_function_may_give_its_text_in_four_ways(
    run: Callable[..., list[list[Step]]], capfd: pytest.CaptureFixture[str]
) -> None:
    history = [Message("user", "hi"), Message("assistant", "hello")]
    [plain] = run("text", "really?", history=history, system_prompt="Be brief.")
    assert plain == [Draft("really? 3 user Be brief."), Reply("really? 3 user Be brief.")]
    assert run("awaited", "hi") == [[Draft("awaited"), Reply("awaited")]]
    assert run("pieces", "hi")[0][-1] == Reply("ab ?")
    capfd.readouterr()
    [steps] = run("steps", "hi")
    assert steps[:2] == [ToolStarted("find", {"id": 7}), ToolDone("find", {"when": "<class 'object'>", "mean": None})]
    assert steps[2] == LlmUsage(30, model="m", input_tokens=20, output_tokens=10, cached_tokens=5)
    assert steps[-1] == Reply("found!")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "by another program" in printed.err
    assert "printed," in printed.err


def test_a_process_answers_further_turns(run: Callable[..., list[list[Step]]]) -> None:
    [first], [second] = ([step for step in steps if isinstance(step, Reply)] for steps in run("pid", "a", "b"))
    assert first == second != Reply(str(os.getpid()))


WRONG = {
    "raise": "ValueError: no: […]",
    "exit": "SystemExit: bye",
    "end": "ended with code 3",
    "input": "EOFError",
    "nothing": "no text",
    "wrong": "gave dict",
    "name": "ValidationError",
    "tokens": "ValidationError",
    "long": "8 MiB",
    "text": ENDLESS,
    "tools": ENDLESS,
}


def test_what_goes_wrong_ends_the_turn_and_no_other(run: Callable[..., list[list[Step]]]) -> None:
    *failed, after = run("harm", *WRONG, "fine")
    for kind, steps in zip(WRONG, failed, strict=True):
        end = steps[-1]
        assert isinstance(end, Failure), kind
        assert WRONG[kind] in end.message
        assert end.status == (429 if WRONG[kind] == ENDLESS else 500)
    assert after[-1] == Reply("harmless")


@pytest.mark.anyio
async def test_a_function_that_never_ends_is_ended_with_its_turn(module: Path) -> None:
    """The wall-clock ceiling cancels a turn: see `test_runner`."""
    engine = FunctionEngine(f"{module}:harm")
    endless = asyncio.ensure_future(anext(aiter(engine.run(request("block")))))
    pid = Path(f"{module}.pid")
    while not pid.exists() or not pid.read_text():
        await asyncio.sleep(0.01)
    assert (await collect(engine, request("fine")))[-1] == Reply("harmless")
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    await engine.aclose()


@pytest.mark.anyio
async def test_code_that_changed_is_loaded_for_the_next_turn(module: Path) -> None:
    engine = FunctionEngine(f"{module}:text", reload=True)
    assert (await collect(engine, request("hi")))[-1] == Reply("hi 1 user None")
    module.write_text("def text(request) return 'broken'")
    failed = (await collect(engine, request("hi")))[-1]
    assert isinstance(failed, Failure)
    assert "my_agent.py, line 1" in failed.message
    module.write_text("import helper\n\ndef text(request): return helper.name")
    for name in ("mended", "imported"):
        (module.parent / "helper.py").write_text(f"name = {name!r}")
        assert (await collect(engine, request("hi")))[-1] == Reply(name)
    await engine.aclose()


@pytest.mark.anyio
async def test_a_process_that_ended_while_it_waited_is_replaced(module: Path) -> None:
    engine = FunctionEngine(f"{module}:pid")
    [_, first] = await collect(engine, request("a"))
    assert isinstance(first, Reply)
    os.kill(int(first.text), 9)
    await engine._idle[0].wait()
    assert isinstance((await collect(engine, request("b")))[-1], Reply)
    await engine.aclose()


def test_a_function_that_cannot_be_loaded_is_named_at_the_start(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(module.parent)
    module.write_text("MODULE = 1\ndef text(request): return 'hi'")
    Path("broken.py").write_text("def text(")
    Path("ends.py").write_text("import os; os._exit(5)")
    for function, part in {
        "my_agent.py:missing": "has no attribute 'missing'",
        "my_agent.py:MODULE": "is not a function",
        "my_agnt:text": "No module named 'my_agnt'",
        "broken.py:text": "broken.py, line 1",
        "ends.py:text": "code 5",
    }.items():
        with pytest.raises(OperatorError, match="'acme~mine' cannot be loaded") as raised:
            check_function("acme~mine", function)
        assert part in str(raised.value)
        assert "\n" not in str(raised.value)
    check_function("acme~mine", "my_agent:text")


def test_a_module_that_starts_a_platform_where_it_is_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The platform's service would import the module too, and so on without end.
    monkeypatch.setenv("AGENTBOOK_DATA", str(tmp_path / "data"))
    module = tmp_path / "script.py"
    module.write_text("import agentbook\n\ndef answer(request): return 'hi'\n\nagentbook.connect()\n")
    with pytest.raises(OperatorError, match=r"cannot be loaded.*if __name__ =="):
        check_function("acme~mine", f"{module}:answer")
    assert not (tmp_path / "data" / "service.json").exists()
