"""Runs: what is asked of whom, in which order, what is kept, and what the agent is left with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook.api.errors import Conflict, NotFound, OutcomeUnknown, ServerError
from agentbook.chat.prompt_lab import configurator
from agentbook.chat.prompt_lab.configurator import NotReady
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.variant import Variant
from agentbook.events import loop

from .lab_platform import LabPlatform, not_ready, refused


@pytest.fixture
def platform() -> LabPlatform:
    return LabPlatform()


@pytest.fixture
def lab(platform: LabPlatform) -> PromptLab:
    return make(platform)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configurator, "WAITS_S", (0.0,))


def make(platform: LabPlatform) -> PromptLab:
    return PromptLab(platform, agent="acme~writer", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]


def on_loop(work: Callable[[], Any]) -> Any:
    async def call() -> Any:
        return work()

    return loop.run(call(), 60)


def test_variants_on_one_agent_take_turns_and_the_agent_gets_back_what_it_had(
    platform: LabPlatform, lab: PromptLab
) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("now")
    lab.add_variant("brief", "Be brief.")
    frame = lab.run(["one", "two"], progress=False)
    assert frame["reply"].tolist() == [
        "Be kind.: one", "Be kind.: two", "original: one", "original: two", "Be brief.: one", "Be brief.: two",
    ]  # fmt: skip
    assert frame["variant"].tolist() == ["kind", "kind", "now", "now", "brief", "brief"]
    assert frame["version"].tolist() == ["1.0.1", "1.0.1", "1.0.0", "1.0.0", "1.0.2", "1.0.2"]
    assert frame["status"].eq("answered").all()
    assert frame["session_id"].is_unique
    assert platform.prompts() == ["original", "Be kind.", "Be brief.", "original"]
    assert lab.notes == []


def test_what_a_variant_leaves_out_stays_as_the_agent_has_it(platform: LabPlatform, lab: PromptLab) -> None:
    tools = [{"integration": "orders", "tools": ["find_order"]}]
    platform.add_agent(
        "acme~desk", system_prompt="Help.", description="helps", tools=tools, mode="multi-turn", brand_tools=["now"]
    )
    lab.add_variant("brief", "Be brief.", agent="acme~desk")
    lab.add_variant(
        "plain", "Be plain.", agent="acme~desk", tools=[], platform_tools=["calculator"], mode="one-shot", version="7.0"
    )
    lab.run(["hello"], progress=False)
    first, second, restored = (settings for kind, _, settings in platform.calls if kind == "configure")
    assert first == {
        "system_prompt": "Be brief.", "description": "helps", "tools": tools, "mode": "multi-turn", "platform_tools": ["now"],
        "summary": "brief", "version_number": "1.0.1",
    }  # fmt: skip
    assert (second["tools"], second["platform_tools"], second["mode"]) == ((), ("calculator",), "one-shot")
    assert (second["version_number"], restored["version_number"]) == ("7.0", "7.1")
    assert (restored["system_prompt"], restored["tools"], restored["platform_tools"]) == ("Help.", tools, ["now"])


def test_a_configuration_that_stands_already_is_not_committed_again(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("same", "original")
    assert lab.run(["hello"], progress=False)["version"].tolist() == ["1.0.0"]
    assert platform.configured() == []


def test_running_again_asks_only_what_is_missing(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.run(["one", "two"], progress=False)
    lab.add_variant("kind", "Be kind.")
    frame = lab.run("two\nthree", progress=False)
    assert len(frame) == 4
    assert sorted(platform.asked()) == ["one", "three", "three", "two", "two"]
    assert len(lab.results) == 5
    lab.run(progress=False)
    assert len(platform.asked()) == 5
    assert len(lab.run(["two"], repeats=3, progress=False)) == 6
    assert len(platform.asked()) == 9


def test_the_bound_on_open_questions_holds_over_all_agents(platform: LabPlatform, lab: PromptLab) -> None:
    platform.add_agent("acme~other", system_prompt="other")
    lab.add_variant("now")
    lab.add_variant("other", agent="acme~other")
    lab.run([f"question {n}" for n in range(20)], concurrency=3, progress=False)
    assert platform.most_open == 3
    assert len(lab.results) == 40


def test_agents_go_side_by_side(platform: LabPlatform, lab: PromptLab) -> None:
    platform.add_agent("acme~other", system_prompt="other")
    lab.add_variant("now")
    lab.add_variant("other", agent="acme~other")
    platform.hold = on_loop(asyncio.Event)
    running = loop.submit(lab._go(lab._plan(["one"], None, None, lab_options())))
    wait_until(lab, lambda: platform.open_now == 2)
    on_loop(platform.hold.set)
    running.result(60)
    assert sorted(lab.results["reply"]) == ["original: one", "other: one"]


def lab_options(**how: Any) -> Any:
    from agentbook.chat.prompt_lab.run import Options

    return Options(**how)


def wait_until(lab: PromptLab, condition: Callable[[], bool]) -> None:
    """Until the lab's state, or the platform's a moment later, meets the condition."""
    done = threading.Event()

    async def look() -> None:
        while not condition():
            await asyncio.sleep(0.005)
        done.set()

    looking = loop.submit(look())
    assert done.wait(60), "it never came to that"
    looking.result(60)


def test_an_interrupt_keeps_what_arrived_and_the_next_run_finds_what_came_late(
    platform: LabPlatform, lab: PromptLab
) -> None:
    platform.reply = lambda settings, text: None if text == "slow" else f"{settings['system_prompt']}: {text}"
    lab.add_variant("kind", "Be kind.")
    running = loop.submit(lab._go(lab._plan(["quick", "slow"], None, None, lab_options())))
    wait_until(
        lab,
        lambda: (
            [each.status for each in lab._answers.values()].count("answered") == 1
            and [each.session_id is not None for each in lab._answers.values()] == [True, True]
        ),  # the platform's word is here
    )
    running.cancel()
    # The agent is put back all the same, by the toolkit's own thread.
    wait_until(
        lab,
        lambda: (
            platform.prompts()[-1] == "original" and "asking" not in {each.status for each in lab._answers.values()}
        ),
    )
    kept = lab.results.set_index("input")["status"].to_dict()
    assert kept == {"quick": "answered", "slow": "stopped"}
    session = lab.results.set_index("input").loc["slow", "session_id"]
    on_loop(lambda: platform.answer(str(session), "late, and right"))
    frame = lab.run(progress=False).set_index("input")
    assert frame.loc["slow", ["reply", "status", "version"]].tolist() == ["late, and right", "answered", "1.0.1"]
    assert platform.asked() == ["quick", "slow"], "nothing was asked twice"


def test_an_interrupt_of_run_reaches_the_caller_at_once(
    platform: LabPlatform, lab: PromptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.reply = lambda settings, text: None
    lab.add_variant("now")

    def interrupted(work: Any, *args: Any, **kwargs: Any) -> None:
        future = loop.submit(work)
        wait_until(lab, lambda: len(platform.asked()) == 1)
        future.cancel()
        raise KeyboardInterrupt

    monkeypatch.setattr("agentbook.chat.prompt_lab.prompt_lab.loop.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lab.run(["slow"], progress=False)
    monkeypatch.undo()
    wait_until(lab, lambda: [each.status for each in lab._answers.values()] == ["stopped"])


def test_a_reply_that_does_not_come_in_time_is_a_failed_row_and_looked_for_on_retry(
    platform: LabPlatform, lab: PromptLab
) -> None:
    platform.reply = lambda settings, text: None
    lab.add_variant("now")
    frame = lab.run(["slow"], timeout_s=0.05, progress=False)
    assert frame.loc[0, "status"] == "failed"
    assert "No reply within 0.05 s" in frame.loc[0, "reason"]
    assert len(lab.run(progress=False)) == 1
    assert platform.asked() == ["slow"], "what failed is retried on demand only"
    on_loop(lambda: platform.answer(str(frame.loc[0, "session_id"]), "late"))
    again = lab.run(retry_failed=True, progress=False)
    assert again.loc[0, ["status", "reply"]].tolist() == ["answered", "late"]
    assert pd.isna(again.loc[0, "reason"])
    assert platform.asked() == ["slow"]


def test_a_failed_turn_is_a_row_with_its_reason_and_is_asked_anew_on_demand(
    platform: LabPlatform, lab: PromptLab
) -> None:
    fails = [RuntimeError("Something went wrong")]
    platform.reply = lambda settings, text: fails.pop() if text == "bad" and fails else f"fine: {text}"
    lab.add_variant("now")
    frame = lab.run(["bad", "good"], progress=False).set_index("input")
    assert frame.loc["bad", ["status", "reason"]].tolist() == ["failed", "Something went wrong"]
    assert frame.loc["good", "status"] == "answered"
    again = lab.run(retry_failed=True, progress=False).set_index("input")
    assert again.loc["bad", "reply"] == "fine: bad"
    assert platform.asked().count("bad") == 2
    assert platform.asked().count("good") == 1


def test_a_variant_that_cannot_be_applied_fails_and_the_others_go_on(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("bad", "Be bad.")
    lab.add_variant("lost", agent="acme~nowhere")
    lab.add_variant("good", "Be good.")
    platform.refusals = [refused(Conflict, 409, "No such tool")]
    frame = lab.run(["hello"], progress=False).set_index("variant")
    assert frame["status"].to_dict() == {"bad": "failed", "lost": "failed", "good": "answered"}
    assert frame.loc["bad", "request_id"] == "req-9"
    assert "No such tool" in frame.loc["bad", "reason"]
    assert "Agent not found" in frame.loc["lost", "reason"]
    assert platform.prompts() == ["original", "Be good.", "original"]


def test_apply_is_one_call_and_waits_until_the_agent_is_ready(platform: LabPlatform, lab: PromptLab) -> None:
    platform.refusals = not_ready(3)
    lab.add_variant("kind", "Be kind.", version="2.0.0")
    version = lab.apply("kind")
    assert (version.number, version.system_prompt) == ("2.0.0", "Be kind.")
    assert len(platform.configured()) == 4, "refused three times, taken once"
    assert platform.prompts() == ["original", "Be kind."], "and it stays"
    assert [each.label for each in lab.versions()] == ["2.0.0", "1.0.0"]


def test_the_first_question_waits_until_the_agent_has_taken_the_version_in(
    platform: LabPlatform, lab: PromptLab
) -> None:
    agent = platform.records[platform.find("acme~writer")]
    states = ["CONFIGURING", "CONFIGURING", "READY"]
    seen: list[str] = []
    get = platform.agents.get

    async def get_slowly(which: Any) -> Any:
        if platform.configured():
            agent["setup_state"] = states.pop(0) if len(states) > 1 else "READY"
            seen.append(agent["setup_state"])
            assert platform.asked() == []
        return await get(which)

    platform.agents.get = get_slowly  # type: ignore[method-assign]
    lab.add_variant("kind", "Be kind.")
    loop.run(lab._apply(lab.variants["kind"]), 60)
    assert seen == ["CONFIGURING", "CONFIGURING", "READY"]


def test_an_agent_that_never_gets_ready_ends_with_a_clear_error(
    platform: LabPlatform, lab: PromptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configurator, "WAITS_S", (0.02,))
    platform.refusals = not_ready(10_000)
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(NotReady, match=r"acme~writer was not READY within 0\.1 s"):
        lab.apply("kind", ready_timeout_s=0.1)
    frame = lab.run(["hello"], ready_timeout_s=0.1, progress=False)
    assert frame.loc[0, "status"] == "failed"
    assert "not READY" in frame.loc[0, "reason"]
    assert platform.prompts() == ["original"]


def test_other_conflicts_are_not_waited_out(platform: LabPlatform, lab: PromptLab) -> None:
    platform.refusals = [refused(Conflict, 409, "Version is already published")]
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(Conflict, match="already published"):
        lab.apply("kind")
    assert len(platform.configured()) == 1


def test_a_lost_reply_is_read_back_and_not_sent_again(platform: LabPlatform, lab: PromptLab) -> None:
    configure = platform.agents.configure_llm

    async def taken_but_lost(agent: Any, **settings: Any) -> Any:
        await configure(agent, **settings)
        raise OutcomeUnknown("the reply was lost", operation="agents.configure_llm")

    platform.agents.configure_llm = taken_but_lost  # type: ignore[method-assign]
    lab.add_variant("kind", "Be kind.")
    assert lab.apply("kind").number == "1.0.1"
    assert platform.prompts() == ["original", "Be kind."]


def test_what_could_not_be_put_back_is_not_overwritten(platform: LabPlatform, lab: PromptLab) -> None:
    platform.hides_prompts = True
    own = platform.add_agent("acme~own", system_prompt="mine")
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(ValueError, match=r"configuration of acme~writer cannot be read.*restore=False"):
        lab.run(["hello"], progress=False)
    assert (platform.calls, lab.answers) == ([], [])
    lab.add_variant("now")
    assert lab.run(variants=["now"], progress=False)["status"].tolist() == ["answered"], "nothing is configured for it"
    frame = lab.run(restore=False, progress=False)
    assert frame["reply"].tolist()[0] == "Be kind.: hello"
    assert platform.prompts() == ["original", "Be kind."]
    assert platform.prompts(own) == ["mine"]
    lab.add_variant("mode", mode="multi-turn")
    frame = lab.run(variants=["mode"], restore=False, progress=False)
    assert "cannot be read with this key" in frame.loc[0, "reason"]


def test_an_agent_whose_versions_may_not_be_read_is_not_overwritten(platform: LabPlatform, lab: PromptLab) -> None:
    def forbidden(agent: Any, *, limit: int | None = None) -> Any:
        raise refused(NotFound, 404, "Agent not found")

    platform.agents.versions = forbidden  # type: ignore[method-assign]
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(ValueError, match="Nothing was changed"):
        lab.run(["hello"], progress=False)
    assert platform.calls == []


def test_an_agent_that_had_no_configuration_keeps_the_last_and_says_so(platform: LabPlatform, lab: PromptLab) -> None:
    platform.add_agent("acme~new")
    lab.add_variant("kind", "Be kind.", agent="acme~new")
    with pytest.warns(UserWarning, match=r"acme~new keeps version .*it had none before"):
        lab.run(["hello"], progress=False)


def test_restore_off_keeps_the_last(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.run(["hello"], restore=False, progress=False)
    assert platform.prompts() == ["original", "Be kind."]


def test_a_failure_to_put_back_is_said(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")

    def breaks(settings: Any, text: str) -> str:
        platform.refusals = [refused(ServerError, 503, "Something went wrong")]
        return "hello"

    platform.reply = breaks
    with pytest.warns(UserWarning, match="could not be put back as it was"):
        lab.run(["hello"], progress=False)


def test_arun_on_another_loop(lab: PromptLab) -> None:
    lab.add_variant("now")
    frame = asyncio.run(lab.arun(["hello"], checks=["original"], progress=False))
    assert frame["passed"].tolist() == [True]


def test_progress_counts_what_is_missing(lab: PromptLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.add_variant("now")
    lab.run(["one"], progress=False)
    lab.run(["one", "two", "three"])
    assert "2/2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda lab: lab.run(["x"]), "no variant yet"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], variants=[])), "No variant was chosen.*there are a"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], variants=[Variant("a", "Other.")])), "says something else"),
        (lambda lab: lab.add_variant("a", "cut \ud83d"), "system prompt of variant 'a' is no valid Unicode"),
        (lambda lab: (lab.add_variant("a"), lab.run()), "no inputs yet"),
        (lambda lab: (lab.add_variant("a"), lab.run([" "])), "There are no inputs"),
        (lambda lab: lab.add_variant("a", " "), "is empty"),
        (lambda lab: lab.add_variant(" "), "needs a name"),
        (lambda lab: lab.add_variant("a", mode="loud"), "one-shot, multi-turn"),
        (lambda lab: lab.add_variant("a", tools=[{"name": "x"}]), "must look like"),
        (lambda lab: (lab.add_variant("a", "x"), lab.add_variant("a", "y")), "says something else"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], variants=["b"])), "no variant 'b'; there are: a"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], checks={"reply": "x"})), "cannot be called 'reply'"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], concurrency=0)), "must be 1 or more"),
        (lambda lab: lab.chart(), "no reply yet"),
        (lambda lab: lab.diff("a", "b"), "no 'a'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(lab: PromptLab, call: Callable[[PromptLab], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(lab)


def test_a_variant_may_be_given_whole(platform: LabPlatform, lab: PromptLab) -> None:
    kind, terse = Variant("kind", "Be kind."), Variant("terse", "Be terse.")
    lab.add_variant(kind)
    frame = lab.run(["hello"], variants=[kind, terse], progress=False)
    assert frame["reply"].tolist() == ["Be kind.: hello", "Be terse.: hello"]
    assert list(lab.variants) == ["kind", "terse"]
    assert lab.run(["hello"], variants=terse, progress=False)["variant"].tolist() == ["terse"]
    lab.apply(Variant("firm", "Be firm."))
    assert platform.prompts()[-1] == "Be firm."


def test_a_prompt_that_is_a_path_is_refused_in_words(lab: PromptLab) -> None:
    for given in ({"system_prompt": Path("prompt.md")}, {"description": Path("prompt.md")}):
        with pytest.raises(TypeError, match=r"of variant 'a' must be a text, not \w*Path: .*read_text"):
            lab.add_variant("a", **given)  # type: ignore[arg-type]


def test_the_same_variant_may_be_added_again(lab: PromptLab) -> None:
    assert lab.add_variant("a", "x") == lab.add_variant("a", "x")
    assert list(lab.variants) == ["a"]


def test_a_lab_without_a_workspace_says_what_it_needs(platform: LabPlatform) -> None:
    lab = PromptLab(platform, agent="acme~writer")  # type: ignore[arg-type]
    lab.add_variant("now")
    with pytest.raises(ValueError, match="needs workspace="):
        lab.run(["x"])


def test_removing_a_variant_drops_its_results(lab: PromptLab) -> None:
    lab.add_variant("a")
    lab.add_variant("b", "Be b.")
    lab.run(["x"], progress=False)
    lab.remove_variant("a")
    assert lab.results["variant"].tolist() == ["b"]
