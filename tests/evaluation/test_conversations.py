"""Conversations as inputs: several messages in one session, scripted or simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation import checks
from agentbook.evaluation.check import check_data, read_check
from chat.prompt_lab.lab_platform import LabPlatform, make_lab

TALK = ["I want a refund.", "Order 12.", "Thanks."]
NAME = "I want a refund.\n→ Order 12.\n→ Thanks."


def remembering(platform: LabPlatform) -> LabPlatform:
    """The platform with an agent that counts the messages of its session."""
    seen: dict[str, int] = {}

    async def play(session_id: str, agent_id: str, prompt: str, version_id: str | None = None) -> None:
        seen[session_id] = seen.get(session_id, 0) + 1
        platform.reply = lambda settings, text: f"{settings['system_prompt']} {seen[session_id]}: {text}"
        await LabPlatform.play(platform, session_id, agent_id, prompt, version_id)

    platform.play = play  # type: ignore[method-assign]
    return platform


def run(lab: PromptLab, inputs: Any = None, **options: Any) -> pd.DataFrame:
    return lab.run(inputs, progress=False, restore=False, **options)


def test_the_messages_of_a_conversation_are_sent_in_one_session_each_after_its_reply() -> None:
    platform = remembering(LabPlatform())
    lab = make_lab(platform)
    lab.add_variant("a", system_prompt="A")
    (row,) = run(lab, [TALK]).to_dict("records")
    assert (row["input"], row["status"], row["reply"]) == (NAME, "answered", "A 3: Thanks.")
    answer = lab._lab.answered["a", NAME, 1]
    assert [(turn.prompt, turn.text) for turn in answer.turns] == [
        ("I want a refund.", "A 1: I want a refund."), ("Order 12.", "A 2: Order 12."), ("Thanks.", "A 3: Thanks."),
    ]  # fmt: skip
    assert {turn.session_id for turn in answer.turns} == {row["session_id"]}
    assert row["latency_s"] == max(turn.latency_s or 0 for turn in answer.turns)
    assert [call[0] for call in platform.calls if call[0] in ("start", "send")] == ["start", "send", "send"]


def test_checks_look_at_the_last_reply_or_at_the_turn_they_name() -> None:
    lab = make_lab(remembering(LabPlatform()))
    lab.add_variant("a", system_prompt="A")
    expected = {
        "last": ("thanks", True),
        "not the first": ("refund", False),
        "first": (checks.turn(1, "refund"), True),
        "from the end": (checks.turn(-2, "order"), True),
        "each": (checks.turn("every", checks.length(max=6)), True),
        "one too long": (checks.turn("every", checks.length(max=5)), False),
        "no such turn": (checks.turn(4, "x"), None),
        "nor before": (checks.turn(-4, "x"), None),
        "function": (checks.turn(2, lambda reply: "order" in reply.lower()), True),
    }
    (row,) = run(lab, [TALK], checks={name: check for name, (check, _) in expected.items()}).to_dict("records")
    found = {name: None if pd.isna(row[name]) else bool(row[name]) for name in expected}
    assert found == {name: passed for name, (_, passed) in expected.items()}
    assert "turn 1" in row["one too long_reason"]
    assert "3 replies" in row["check_error"]
    assert "no such turn_reason" not in row, "`check_error` says why it is undecided"


@pytest.mark.parametrize("number", [0, True, 1.5, "all", None])
def test_a_turn_that_there_cannot_be_is_refused(number: Any) -> None:
    with pytest.raises(ValueError, match="from 1"):
        checks.turn(number, "x")


@pytest.mark.parametrize(
    "line", ["turn 2: refund", "every turn: words <= 80", "turn -1: not: sorry", "late: turn 3: /a+/i"]
)
def test_a_check_of_a_turn_is_a_line_of_text(line: str) -> None:
    (check,) = checks.parse_checks(line).values()
    assert str(check) == line
    assert read_check(check_data(check)) == check


def test_a_failed_turn_ends_the_conversation_and_what_was_said_is_kept() -> None:
    platform = LabPlatform(lambda settings, text: RuntimeError("broken") if "12" in text else text)
    lab = make_lab(platform)
    lab.add_variant("a", system_prompt="A")
    (row,) = run(lab, [TALK], checks=["thanks"]).to_dict("records")
    assert row["status"] == "failed"
    assert "Turn 2" in row["reason"]
    assert pd.isna(row["passed"])
    assert [turn.text for turn in lab._lab.answered["a", NAME, 1].turns] == ["I want a refund."]
    platform.reply = lambda settings, text: text
    (row,) = run(lab, retry_failed=True).to_dict("records")  # from the start: its session is not continued
    assert row["status"] == "answered"
    assert [call[0] for call in platform.calls if call[0] in ("start", "send")] == [
        "start",
        "send",
        "start",
        "send",
        "send",
    ]


def test_a_question_without_reply_in_a_conversation_is_not_taken_for_the_whole() -> None:
    platform = LabPlatform(lambda settings, text: None if "12" in text else text)
    lab = make_lab(platform)
    lab.add_variant("a", system_prompt="A")
    run(lab, [TALK], timeout_s=0.05)
    platform.reply = lambda settings, text: f"again {text}"
    (row,) = run(lab, retry_failed=True).to_dict("records")
    assert (row["status"], row["reply"]) == ("answered", "again Thanks.")


def test_a_conversation_is_filled_from_rows_and_stored(tmp_path: Path) -> None:
    lab = make_lab(LabPlatform())
    lab.add_variant("a", system_prompt="A {{what}}")
    frame = run(lab, [["I want {{what}}.", "Now."], "And {{what}}?"], rows=[{"what": "tea"}, {"what": "coffee"}])
    assert set(frame["input"]) == {
        "I want tea.\n→ Now.", "I want coffee.\n→ Now.", "And tea?", "And coffee?",
    }  # fmt: skip
    again = PromptLab.load(lab.save(tmp_path / "lab.json"), LabPlatform())  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(again.results, lab.results)
    assert again._lab.input_set.find("I want tea.\n→ Now.").then == ("Now.",)
    stored = PromptLab.load(lab.save(tmp_path / "lab.yaml"), LabPlatform())  # type: ignore[arg-type]
    assert stored._lab.input_set.find("I want tea.\n→ Now.").then == ("Now.",)


@pytest.mark.parametrize("talk", [[], [""], ["Hi", "  "], ["Hi", 5], ["Hi", "\ud83d"]])
def test_a_conversation_without_a_message_is_refused(talk: Any) -> None:
    lab = make_lab()
    lab.add_variant("a", system_prompt="A")
    with pytest.raises((TypeError, ValueError), match="message"):
        run(lab, [talk])


def test_a_real_conversation_is_taken_masked_and_in_order() -> None:
    lab = make_lab()
    turns = pd.DataFrame(
        {
            "session_id": "s1",
            "prompt": ["I am ada@acme.test {{x}}", None, "Why?"],
            "reply": ["a", "b", "c"],
            "agent": "acme~x",
        }
    )
    added = lab.add_conversation(turns)
    assert lab.inputs == ["I am […] {{x}}\n→ Why?"]
    assert added[["masked", "session_id"]].values.tolist() == [["an e-mail address", "s1"]]
    with pytest.raises(ValueError, match="2"):
        lab.add_conversation(pd.concat([turns, turns.assign(session_id="s2")]))
    with pytest.raises(ValueError, match="no question"):
        lab.add_conversation(turns.assign(prompt=None))


def test_a_simulated_user_writes_until_it_stops_or_has_written_enough() -> None:
    platform = LabPlatform()
    user = platform.add_agent("acme~customer", system_prompt="user")
    said = iter(["I want tea.", "Green.", "###STOP###"])
    platform.reply = lambda settings, text: next(said) if settings["system_prompt"] == "user" else f"re: {text}"
    lab = make_lab(platform)
    lab.add_variant("a", system_prompt="A")
    lab.add_simulated_user("acme~customer", "You want tea.", max_turns=5)
    (row,) = run(lab).to_dict("records")
    (answer,) = lab._lab.answered.values()
    assert [(turn.prompt, turn.text) for turn in answer.turns] == [
        ("I want tea.", "re: I want tea."),
        ("Green.", "re: Green."),
    ]
    assert row["status"] == "answered"
    # The user gets what it is told, and then the replies, in a session of its own.
    started = [call for call in platform.calls if call[0] == "start"]
    assert [call[1] == user for call in started] == [True, False]
    assert "You want tea." in started[0][2]
    own = f"01900000-0000-7000-9000-{0:012x}"
    assert [call[2] for call in platform.calls if call[:2] == ("send", own)] == ["re: I want tea.", "re: Green."]

    platform.reply = lambda settings, text: "more" if settings["system_prompt"] == "user" else "no"
    lab.add_simulated_user("acme~customer", "You never stop.", max_turns=3)
    run(lab)
    assert len(lab._lab.answered["a", "acme~customer: You never stop.", 1].turns) == 3


def test_a_simulated_user_that_does_not_answer_leaves_the_reason() -> None:
    platform = LabPlatform(lambda settings, text: RuntimeError("no user") if "play a user" in text else "x")
    platform.add_agent("acme~customer", system_prompt="user")
    lab = make_lab(platform)
    lab.add_variant("a", system_prompt="A")
    lab.add_simulated_user("acme~customer", "You want tea.")
    (row,) = run(lab).to_dict("records")
    assert row["status"] == "failed"
    assert "no user" in row["reason"]
    with pytest.raises(ValueError, match="instructions"):
        lab.add_simulated_user("acme~customer", " ")


def test_a_judge_reads_the_whole_conversation() -> None:
    platform = LabPlatform()
    platform.add_agent("acme~judge", system_prompt="judge")
    asked: list[str] = []

    def reply(settings: Any, text: str) -> str:
        if settings["system_prompt"] != "judge":
            return f"re: {text}"
        asked.append(text)
        return '{"pass": true, "reason": "all is said"}'

    platform.reply = reply
    lab = make_lab(platform)
    lab.add_variant("a", system_prompt="A")
    frame = run(lab, [TALK], checks={"goal": checks.rubric(checks.GOAL_REACHED, agent="acme~judge")})
    assert frame["goal"].tolist() == [True]
    assert "<question>\nOrder 12.\n</question>\n\n<reply>\nre: Order 12.\n</reply>" in asked[0]
