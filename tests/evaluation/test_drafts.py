"""Drafts, which change nothing for anyone else; pauses; and what runs cost."""

from __future__ import annotations

import asyncio

import pytest

import agentbook as ab
from agentbook.api.errors import NotOffered
from agentbook.api.policy import RateLimit
from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.asking import Budget, reported_pauses
from agentbook.events import loop
from chat.prompt_lab.lab_platform import LabPlatform, limited, make_lab

from .test_run import on_loop, start, wait_until

DRAFTS = ("type", "agent_version_id")


def committed(platform: LabPlatform, agent: str = "acme~writer") -> list[str]:
    versions = platform.history[platform.find(agent)]
    return [version["system_prompt"] for version in versions if version["type"] == "COMMITTED"]


def test_variants_run_as_drafts_and_the_agent_stays_as_it_is(platform: LabPlatform, lab: PromptLab) -> None:
    platform.offered = DRAFTS
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("now")
    lab.add_variant("same", "original")
    lab.add_variant("brief", "Be brief.")
    with pytest.warns(UserWarning, match="now.*same"):
        frame = lab.run(["one"], progress=False).set_index("variant")
    assert frame["reply"].to_dict() == {
        "kind": "Be kind.: one", "now": "original: one", "same": "original: one", "brief": "Be brief.: one",
    }  # fmt: skip
    assert frame["version"].to_dict() == {
        "kind": "1.0.1-draft.1", "now": "1.0.0", "same": "1.0.0", "brief": "1.0.1-draft.2",
    }  # fmt: skip
    assert committed(platform) == ["original"]
    with pytest.warns(UserWarning, match="now.*same"):
        lab.run(["one", "two"], progress=False)
    assert platform.configured() == ["Be kind.", "Be brief."], "a draft of the same settings is used again"
    lab.apply("brief", even_if_open=True)
    assert committed(platform) == ["original", "Be brief."]
    assert lab.versions()[0].number == "1.0.1", "drafts use up no numbers"


def test_a_new_agent_is_left_without_a_version_and_its_drafts_are_used_again(platform: LabPlatform) -> None:
    platform.offered = DRAFTS
    platform.add_agent("acme~new")
    lab = make_lab(platform, "acme~new")
    lab.add_variant("kind", "Be kind.")  # it leaves to the platform what it does not name
    assert lab.run(["one"], progress=False)["reply"].tolist() == ["Be kind.: one"]
    lab.run(["one", "two"], progress=False)
    assert (platform.configured(), committed(platform, "acme~new"), lab._lab.notes) == (["Be kind."], [], [])


def test_all_variants_are_asked_at_the_same_time(platform: LabPlatform, lab: PromptLab) -> None:
    platform.offered = DRAFTS
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("now")
    platform.hold = on_loop(asyncio.Event)
    running = start(lab, ["one"])
    wait_until(lab, lambda: platform.open_now == 2)
    on_loop(platform.hold.set)
    running.result(60)


def test_without_drafts_variants_take_turns(platform: LabPlatform, lab: PromptLab) -> None:
    platform.offered = ("type",)
    lab.add_variant("kind", "Be kind.")
    with pytest.raises(NotOffered, match="offers no drafts, so nothing was sent"):
        lab.run(["one"], drafts=True, progress=False)
    assert platform.calls == []
    lab.run(["one"], progress=False)
    platform.offered = DRAFTS
    lab.run(["two"], drafts=False, progress=False)
    assert committed(platform) == ["original", *["Be kind.", "original"] * 2]


def test_a_pause_and_its_end_are_said(platform: LabPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.asking.POLL_S", 0.001)
    clock = iter([0.0, 0.0, *[60.0] * 10])
    limit = RateLimit(lambda: next(clock))
    limit.on_429(None)
    monkeypatch.setattr(platform, "rate_limit", limit, raising=False)

    async def run() -> list[str]:
        sentences: list[str] = []
        ended = asyncio.Event()

        def notify(sentence: str) -> None:
            sentences.append(sentence)
            if sentence:  # a request goes out as a probe, and is answered
                limit.delay_s()
                limit.on_reply()
            else:
                ended.set()

        async with reported_pauses(platform, notify):  # type: ignore[arg-type]
            await ended.wait()
        return sentences

    begun, ended = loop.run(run(), 60)
    assert (begun.startswith("paused until "), ended) == (True, "")


def test_a_refused_question_fails_its_cell(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    platform.start_refusals = [limited()]
    frame = lab.run(["one"], progress=False)
    assert frame["status"].tolist() == ["failed"]
    assert "exceeded an allotted request count" in frame.loc[0, "reason"]


def test_a_spent_budget_stops_the_run_and_the_next_continues(platform: LabPlatform, lab: PromptLab) -> None:
    spent = [RuntimeError("AGENT budget exceeded for 'writer'")]
    platform.reply = lambda settings, text: spent.pop() if text == "two" and spent else f"fine: {text}"
    lab.add_variant("now")
    with pytest.warns(UserWarning, match=r"AGENT budget exceeded for 'writer'.*2 questions were not asked"):
        frame = lab.run(["one", "two", "three"], concurrency=1, progress=False)
    assert frame["status"].tolist() == ["answered", "stopped"]
    again = lab.run(progress=False)
    assert again["reply"].tolist() == ["fine: one", "fine: two", "fine: three"]
    assert platform.questions() == ["one", "two", "two", "three"]


USAGE = {"usage": {"prompt_tokens": 60, "completion_tokens": 40, "model": "small"}}
PRICES = {"small": (10_000.0, 10_000.0)}  # so that a reply costs 1


def test_a_run_stops_before_it_costs_more_than_its_limit(platform: LabPlatform, lab: PromptLab) -> None:
    platform.usage = USAGE
    lab.add_variant("now")
    inputs = [f"question {n}" for n in range(6)]
    with pytest.warns(UserWarning, match=r"before max_cost=3.5: 3 is spent.*may cost 1\. 3 questions were not asked"):
        frame = lab.run(inputs, max_cost=3.5, prices=PRICES, concurrency=6, progress=False)
    assert frame["cost"].tolist() == [1.0] * 3
    assert frame[["model", "tokens"]].to_numpy().tolist() == [["small", 100]] * 3
    assert len(platform.questions()) == 3
    assert len(lab.run(progress=False)) == 6


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        ({}, "without tokens on the events of a reply"),
        ({"usage": {"total_tokens": 5, "model": "x"}}, "a price for the model 'x'"),
        (
            {"usage": {"prompt_tokens": 5, "completion_tokens": 1, "model": "small", "cached_tokens": 2}},
            "a price for cached tokens of the model 'small'",
        ),
        (
            {"usage": {"total_tokens": 5, "model": "small", "estimated": True}},
            "without tokens on the events of a reply",
        ),
    ],
)
def test_a_limit_that_cannot_be_kept_stops_after_one_question(
    platform: LabPlatform, lab: PromptLab, usage: dict[str, object], reason: str
) -> None:
    platform.usage = usage
    lab.add_variant("now")
    with pytest.warns(UserWarning, match=reason):
        lab.run(["one", "two", "three"], max_cost=5, prices=PRICES, progress=False)
    assert len(platform.questions()) == 1


def test_what_a_simulated_user_costs_must_be_known_too() -> None:
    budget = Budget(5.0, {"small": (1.0, 1.0)})
    budget.count(2.0, {}, answered=True)
    assert (budget.spent, budget.reason) == (2.0, None)
    budget.count(None, {"tokens": 5, "model": "x"}, answered=True)
    assert "a price for the model 'x'" in str(budget.reason)


def test_prices_that_come_later_give_the_replies_their_cost(platform: LabPlatform, lab: PromptLab) -> None:
    platform.usage = USAGE
    lab.add_variant("now")
    judged: list[str] = []
    mine = lambda reply: judged.append(reply) is None  # noqa: E731
    frame = lab.run(["one"], checks={"cheap": ab.checks.cost(0.5), "mine": mine}, progress=False)
    assert frame[["cost", "cheap"]].isna().all(axis=None)
    lab.price({"small": PRICES["small"], "other": (1, 1)})
    assert lab.results.loc[0, ["cost", "cheap", "mine"]].tolist() == [1.0, False, True]
    frame = lab.run(["one"], prices={"small": (5000.0, 5000.0)}, progress=False)
    assert frame.loc[0, ["cost", "cheap"]].tolist() == [0.5, True]
    assert (len(platform.questions()), len(judged)) == (1, 1), "nothing is sent, and no other check is repeated"
    lab.price({"other": (1, 1)})
    assert lab.results.loc[0, "cost"] == 0.5
    with pytest.raises(ValueError, match="prices needs two numbers"):
        lab.price({"small": 3})


def test_a_broken_question_fails_its_cell_alone(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.inputs = ["one", "two"]
    original = lab._lab.record

    def record(answer: object) -> None:
        if answer.input == "one" and answer.status == "answered":  # type: ignore[attr-defined]
            raise RuntimeError("broken")
        original(answer)  # type: ignore[arg-type]

    lab._lab.record = record  # type: ignore[method-assign]
    frame = lab.run(progress=False).set_index("input")
    assert frame["status"].to_dict() == {"one": "failed", "two": "answered"}
    assert frame.loc["one", "reason"] == "RuntimeError: broken"
