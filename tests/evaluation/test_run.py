"""Runs: what is asked, in which order, what is recorded, and how agents get back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import agentbook as ab
from agentbook.api.errors import Conflict, NotFound, NotOffered
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation import asking
from agentbook.evaluation.check import Check
from agentbook.evaluation.variant import Variant
from agentbook.events import loop
from chat.prompt_lab.lab_platform import LabPlatform, refused


def on_loop(work: Callable[[], Any]) -> Any:
    async def call() -> Any:
        return work()

    return loop.run(call(), 60)


def test_variants_take_turns_and_the_agent_is_restored(platform: LabPlatform, lab: PromptLab) -> None:
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
    assert lab._lab.notes == []


def test_missing_settings_are_the_agents_own(platform: LabPlatform, lab: PromptLab) -> None:
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


@pytest.mark.filterwarnings("ignore:.*same configuration:UserWarning")
def test_identical_configurations_are_committed_once_and_the_current_one_not_at_all(
    platform: LabPlatform, lab: PromptLab
) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("brief", "Be brief.")
    lab.add_variant("friendly", "Be kind.")
    lab.run(["one"], restore=False, progress=False)
    assert platform.prompts() == ["original", "Be kind.", "Be brief."]
    frame = lab.run(["one", "two"], restore=False, progress=False)
    assert platform.prompts() == ["original", "Be kind.", "Be brief.", "Be kind."]
    assert frame.groupby("variant")["version"].nunique().to_dict() == {"brief": 1, "friendly": 2, "kind": 2}


@pytest.mark.parametrize("description", ["what it is for", None])
def test_a_run_leaves_the_description_of_an_agent_as_it_was(
    platform: LabPlatform, lab: PromptLab, description: str | None
) -> None:
    writer = platform.find("acme~writer")
    platform.history[writer][0].pop("description")
    platform.records[writer]["description"] = description
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], progress=False)
    sent = [call[2]["description"] for call in platform.calls if call[0] == "configure"]
    assert sent == [description or ""] * 2  # the variant, and the agent as it was


def test_running_again_asks_only_missing_questions(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.run(["one", "two"], progress=False)
    lab.add_variant("kind", "Be kind.")
    frame = lab.run("two\nthree", progress=False)
    assert len(frame) == 4
    assert sorted(platform.questions()) == ["one", "three", "three", "two", "two"]
    assert len(lab.results) == 5
    lab.run(progress=False)
    assert len(platform.questions()) == 5
    assert len(lab.run(["two"], repeats=3, progress=False)) == 6
    assert len(platform.questions()) == 9


def test_the_concurrency_limit_holds_over_all_agents(platform: LabPlatform, lab: PromptLab) -> None:
    platform.add_agent("acme~other", system_prompt="other")
    lab.add_variant("now")
    lab.add_variant("other", agent="acme~other")
    tasks: list[int] = []
    platform.reply = lambda settings, text: tasks.append(len(asyncio.all_tasks())) or text
    lab.run([f"question {n}" for n in range(20)], concurrency=3, progress=False)
    assert platform.max_open == 3
    assert len(lab.results) == 40
    assert max(tasks) < 20, "only what is open is a task"


def test_agents_run_at_the_same_time(platform: LabPlatform, lab: PromptLab) -> None:
    platform.add_agent("acme~other", system_prompt="other")
    lab.add_variant("now")
    lab.add_variant("other", agent="acme~other")
    platform.hold = on_loop(asyncio.Event)
    running = start(lab, ["one"])
    wait_until(lab, lambda: platform.open_now == 2)
    on_loop(platform.hold.set)
    running.result(60)
    assert sorted(lab.results["reply"]) == ["original: one", "other: one"]


def start(lab: PromptLab, inputs: list[str]) -> Any:
    """Start a run on the toolkit's thread without waiting for it."""
    return loop.submit(lab._lab.ask(lab._lab.plan(inputs)))


def statuses(lab: PromptLab) -> list[str]:
    return [answer.status for answer in lab._lab.answers]


def wait_until(lab: PromptLab, condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    done = threading.Event()

    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.005)
        done.set()

    polling = loop.submit(poll())
    assert done.wait(60), "the condition did not hold within 60 s"
    polling.result(60)


def test_an_interrupt_keeps_replies_and_the_next_run_collects_late_ones(platform: LabPlatform, lab: PromptLab) -> None:
    platform.reply = lambda settings, text: None if text == "slow" else f"{settings['system_prompt']}: {text}"
    lab.add_variant("kind", "Be kind.")
    running = start(lab, ["quick", "slow"])
    wait_until(
        lab, lambda: statuses(lab).count("answered") == 1 and all(answer.session_id for answer in lab._lab.answers)
    )
    running.cancel()
    # The agent is restored all the same, on the toolkit's thread.
    wait_until(lab, lambda: platform.prompts()[-1] == "original" and "asking" not in statuses(lab))
    assert lab.results.set_index("input")["status"].to_dict() == {"quick": "answered", "slow": "stopped"}
    session = lab.results.set_index("input").loc["slow", "session_id"]
    on_loop(lambda: platform.answer(str(session), "late, and right"))
    frame = lab.run(progress=False).set_index("input")
    assert frame.loc["slow", ["reply", "status", "version"]].tolist() == ["late, and right", "answered", "1.0.1"]
    assert platform.questions() == ["quick", "slow"], "no question is asked twice"


def test_an_interrupt_of_run_reaches_the_caller_at_once(
    platform: LabPlatform, lab: PromptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.reply = lambda settings, text: None
    lab.add_variant("now")

    def interrupted(work: Any, *args: Any, **kwargs: Any) -> None:
        future = loop.submit(work)
        wait_until(lab, lambda: len(platform.questions()) == 1)
        future.cancel()
        raise KeyboardInterrupt

    monkeypatch.setattr("agentbook.chat.prompt_lab.prompt_lab.loop.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lab.run(["slow"], progress=False)
    monkeypatch.undo()
    wait_until(lab, lambda: statuses(lab) == ["stopped"])


def test_a_late_reply_is_a_failed_row_and_collected_on_retry(platform: LabPlatform, lab: PromptLab) -> None:
    platform.reply = lambda settings, text: None
    lab.add_variant("now")
    frame = lab.run(["slow"], timeout_s=0.05, progress=False)
    assert frame.loc[0, "status"] == "failed"
    assert "No reply within 0.05 s" in frame.loc[0, "reason"]
    assert len(lab.run(progress=False)) == 1
    assert platform.questions() == ["slow"], "failed questions are asked again only on request"
    on_loop(lambda: platform.answer(str(frame.loc[0, "session_id"]), "late"))
    again = lab.run(retry_failed=True, progress=False)
    assert again.loc[0, ["status", "reply"]].tolist() == ["answered", "late"]
    assert pd.isna(again.loc[0, "reason"])
    assert platform.questions() == ["slow"]


def test_a_failed_turn_is_a_row_and_asked_again_on_request(platform: LabPlatform, lab: PromptLab) -> None:
    failures = [RuntimeError("Something went wrong")]
    platform.reply = lambda settings, text: failures.pop() if text == "bad" and failures else f"fine: {text}"
    lab.add_variant("now")
    frame = lab.run(["bad", "good"], progress=False).set_index("input")
    assert frame.loc["bad", ["status", "reason"]].tolist() == ["failed", "Something went wrong"]
    assert frame.loc["good", "status"] == "answered"
    again = lab.run(retry_failed=True, progress=False).set_index("input")
    assert again.loc["bad", "reply"] == "fine: bad"
    assert platform.questions().count("bad") == 2
    assert platform.questions().count("good") == 1


def test_a_variant_that_cannot_be_applied_fails_and_the_others_continue(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("bad", "Be bad.")
    lab.add_variant("good", "Be good.")
    platform.refusals = [refused(Conflict, 409, "No such tool")]
    frame = lab.run(["hello"], progress=False).set_index("variant")
    assert frame["status"].to_dict() == {"bad": "failed", "good": "answered"}
    assert frame.loc["bad", "request_id"] == "req-9"
    assert "No such tool" in frame.loc["bad", "reason"]
    assert platform.prompts() == ["original", "Be good.", "original"]


def test_an_agent_or_a_judge_that_is_not_there_is_found_before_anything_is_sent(
    platform: LabPlatform, lab: PromptLab
) -> None:
    lab.add_variant("now")
    for rubric, error in (("acme~nosuch", NotFound), (None, ValueError)):
        with pytest.raises(error, match=rubric):
            lab.run(["hello"], checks={"kind": Check("llm-rubric", "It is kind.", agent=rubric)}, progress=False)
    lab.add_variant("lost", "Be lost.", agent="acme~nosuch")
    with pytest.raises(NotFound, match="acme~nosuch"):
        lab.run(["hello"], checks={}, progress=False)
    assert platform.calls == []


def test_arun_on_another_loop(lab: PromptLab) -> None:
    lab.add_variant("now")
    frame = asyncio.run(lab.arun(["hello"], checks=["original"], progress=False))
    assert frame["passed"].tolist() == [True]


def test_progress_counts_missing_questions(lab: PromptLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.add_variant("now")
    lab.run(["one"], progress=False)
    lab.run(["one", "two", "three"])
    assert "2/2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda lab: lab.run(["x"]), "no variant yet"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], variants=[])), "variants= is empty.*Choose from a"),
        (
            lambda lab: (lab.add_variant("a"), lab.run(["x"], variants=[Variant("a", "Other.")])),
            "already a different variant",
        ),
        (lambda lab: lab.add_variant("a", "cut \ud83d"), "system prompt of variant 'a' is .*valid Unicode"),
        (lambda lab: (lab.add_variant("a"), lab.run()), "no inputs yet"),
        (lambda lab: (lab.add_variant("a"), lab.run([" "])), "There are no inputs"),
        (lambda lab: lab.add_variant("a", " "), "is empty"),
        (lambda lab: lab.add_variant(" "), "needs a name"),
        (lambda lab: lab.add_variant("a", mode="loud"), "one-shot, multi-turn"),
        (lambda lab: lab.add_variant("a", tools=[{"name": "x"}]), "must look like"),
        (lambda lab: (lab.add_variant("a", "x"), lab.add_variant("a", "y")), "already a different variant"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], variants=["b"])), "no variant 'b'; there are: a"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], checks={"reply": "x"})), "cannot be called 'reply'"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], concurrency=0)), "must be 1 or more"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], max_cost=1)), "max_cost= needs prices="),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], max_cost=0, prices={"m": (1, 1)})), "a number above 0"),
        (lambda lab: (lab.add_variant("a"), lab.run(["x"], prices={"small": 3})), "prices needs two numbers"),
        (lambda lab: lab.chart(), "no reply yet"),
        (lambda lab: lab.diff("a", "b"), "no 'a'"),
    ],
)
def test_invalid_calls_raise(lab: PromptLab, call: Callable[[PromptLab], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(lab)


def test_why_a_reply_ended_is_a_fact_beside_it(platform: LabPlatform, lab: PromptLab, tmp_path: Path) -> None:
    lab.add_variant("now")
    for reason in ("length", "content_filter", "stop", 7, None):
        platform.usage = {"finish_reason": reason}
        lab.run([f"{reason}"], checks={"short": lambda reply: len(reply) < 30}, progress=False)
    frame = lab.results.set_index("input")
    assert frame["finish_reason"].dropna().to_dict() == {
        "length": "length", "content_filter": "content_filter", "stop": "stop",
    }  # fmt: skip
    assert frame.loc["length", "reply"] == "original: length"
    assert frame["passed"].all()
    again = ab.PromptLab.load(lab.save(tmp_path / "lab.json"), platform, follow=platform.follow)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(again.results, lab.results)


def test_variants_may_be_objects(platform: LabPlatform, lab: PromptLab) -> None:
    kind, terse = Variant("kind", "Be kind."), Variant("terse", "Be terse.")
    lab.add_variant(kind)
    assert lab.add_variant("kind", "Be kind.") == kind, "a cell may run again"
    frame = lab.run(["hello"], variants=[kind, terse], progress=False)
    assert frame["reply"].tolist() == ["Be kind.: hello", "Be terse.: hello"]
    assert list(lab.variants) == ["kind", "terse"]
    assert lab.run(["hello"], variants=terse, progress=False)["variant"].tolist() == ["terse"]
    lab.apply(Variant("firm", "Be firm."))
    assert platform.prompts()[-1] == "Be firm."


def test_a_lab_without_a_workspace_raises(platform: LabPlatform) -> None:
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


def test_parameters_are_sent_where_the_platform_offers_them(platform: LabPlatform, lab: PromptLab) -> None:
    platform.offered = ("model", "temperature", "max_tokens", "top_p")
    lab.add_variant("cold", "Be kind.", model="small", temperature=0)
    lab.add_variant("warm", model="small", temperature=1)
    lab.run(["one"], progress=False)
    sent = [settings for kind, _, settings in platform.calls if kind == "configure"]
    assert [(each.get("model"), each.get("temperature")) for each in sent] == [("small", 0), ("small", 1), (None, None)]
    assert platform.prompts() == ["original", "Be kind.", "original", "original"]


def test_a_parameter_that_is_not_offered_is_refused_before_anything_is_sent(
    platform: LabPlatform, lab: PromptLab
) -> None:
    platform.offered = ("model",)
    lab.add_variant("now")
    lab.add_variant("cold", "Be kind.", model="small", temperature=0, top_p=1)
    with pytest.raises(NotOffered, match="shows no temperature and no top_p, so nothing was sent"):
        lab.run(["one"], progress=False)
    assert platform.calls == []
    lab.run(["one"], "now", progress=False)
    assert platform.questions() == ["one"]


def test_a_misspelt_setting_says_which_one_is_meant(lab: PromptLab) -> None:
    with pytest.raises(TypeError, match="no argument 'sytem_prompt'; did you mean 'system_prompt'"):
        lab.add_variant("brief", sytem_prompt="Be brief.")  # type: ignore[call-arg]


def test_a_model_that_is_shown_and_cannot_be_chosen_is_no_setting(platform: LabPlatform, lab: PromptLab) -> None:
    platform.history[platform.find("acme~writer")][0]["model"] = "theirs"
    lab.add_variant("kind", "Be kind.")
    lab.run(["one"], progress=False)
    sent = [settings for kind, _, settings in platform.calls if kind == "configure"]
    assert [settings.keys() & {"model"} for settings in sent] == [set(), set()]


INPUTS = [f"question {n}" for n in range(40)]


@pytest.fixture
def slowing(monkeypatch: pytest.MonkeyPatch) -> LabPlatform:
    """A platform with drafts that takes longer with every question, by a fake clock."""
    now, asked = 0.0, 20

    def reply(settings: Any, text: str) -> str:
        nonlocal now, asked
        asked += 1
        now += asked / 100
        return "Hello."

    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: now))
    platform = LabPlatform(reply)
    platform.offered = ("type", "agent_version_id")
    platform.add_agent("acme~other", system_prompt="Be old.")
    return platform


def make_lab(platform: LabPlatform, *agents: str) -> ab.PromptLab:
    lab = ab.PromptLab(platform, agent="acme~writer", workspace="acme~lab", follow=platform.follow)  # type: ignore[arg-type]
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("other", agent="acme~other")
    return lab


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_platform_that_gets_slower_makes_no_variant_slower(slowing: LabPlatform, concurrency: int) -> None:
    lab = make_lab(slowing)
    frame = lab.run(INPUTS, concurrency=concurrency, progress=False)
    in_time = frame.sort_values("latency_s")["latency_s"]
    assert in_time.iloc[0] > 0.2, "the clock of the test counts"
    assert in_time.iloc[-1] > 4 * in_time.iloc[0], "the platform did get slower"
    verdicts = lab.compare_variants("now").query("metric == 'latency_s'")
    assert verdicts["verdict"].tolist() == ["open", "open"]


def asked(platform: LabPlatform) -> list[tuple[str, str]]:
    return [(platform.find(call[1]), call[2]) for call in platform.calls if call[0] == "start"]


def test_each_input_is_asked_of_all_variants_before_the_next(slowing: LabPlatform) -> None:
    lab = make_lab(slowing)
    lab.run(INPUTS, repeats=2, concurrency=1, progress=False)
    frame = lab.results.sort_values("asked_at")
    rounds = [frame.iloc[start : start + 3] for start in range(0, len(frame), 3)]
    assert all(each["variant"].nunique() == 3 and each["input"].nunique() == 1 for each in rounds)
    assert len({tuple(each["variant"]) for each in rounds}) > 2, "the order within a round is random"


def test_a_run_that_continues_keeps_the_order(slowing: LabPlatform) -> None:
    make_lab(slowing).run(INPUTS, concurrency=1, progress=False)
    whole = asked(slowing)
    slowing.calls.clear()
    slowing.usage = {"usage": {"input_tokens": 0, "output_tokens": 100, "total_tokens": 100, "model": "small"}}
    lab = make_lab(slowing)
    with pytest.warns(UserWarning, match="max_cost"):
        lab.run(INPUTS, concurrency=1, max_cost=31.5, prices={"small": (0, 10_000)}, progress=False)
    assert len(asked(slowing)) == 31
    lab.run(concurrency=1, progress=False)
    assert asked(slowing) == whole
