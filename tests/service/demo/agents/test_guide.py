"""The guide quotes the right section, and says when it is not sure."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentbook._files import packaged
from agentbook.service.demo.agents.guide import Guide, question_of
from agentbook.service.demo.manual import GLOSSARY, Manual, manual, read_page
from agentbook.service.engines.base import Draft, Message, Reply, Step, TurnRequest
from service.engines.engine_runs import collect, finished_tools, reply, request, run

QUESTIONS = yaml.safe_load((Path(__file__).parents[1] / "questions.yaml").read_text("utf-8"))


def sources(answer: str) -> list[str]:
    """The sections that an answer quotes."""
    match = re.search(r"^\*Sources?: (.*)\*$", answer, re.MULTILINE)
    return match[1].split("; ") if match else []


def listed(answer: str) -> list[str]:
    """The nearest sections, where an answer quotes none."""
    return re.findall(r"^- \*\*(.+?)\*\*: .", answer, re.MULTILINE)


def test_newcomers_see_the_right_section_and_rarely_a_wrong_one_alone() -> None:
    answers = {each["question"]: reply(Guide(), each["question"]) for each in QUESTIONS}
    asked = {each["question"]: set(each["sections"]) for each in QUESTIONS if each["sections"]}
    missed = [
        text for text, accepted in asked.items() if not accepted & {*sources(answers[text]), *listed(answers[text])}
    ]
    wrong = [
        text for text, accepted in asked.items() if sources(answers[text]) and not accepted & {*sources(answers[text])}
    ]
    assert len(missed) <= 0.15 * len(asked), missed
    assert len(wrong) <= 2, wrong


def test_the_accepted_sections_exist() -> None:
    accepted = {section for each in QUESTIONS for section in each["sections"]}
    assert accepted <= {section.source for section in manual().sections}


@pytest.mark.parametrize(
    ("question", "source", "text"),
    [
        ("what is p_holm", "Python reference › ab.compare_periods", "(Holm)"),
        ("what is EmptyWarning", "Python reference › ab.EmptyWarning", ""),
        ("what does `ab.turns` do?", "Python reference › ab.turns", ""),
        ("lab.compare_variants", "Python reference › PromptLab.compare_variants", ""),
        ("ab.plot.latency", "Python reference › ab.plot.latency", ""),
        ("where do I set AGENTBOOK_PRICES", "Connecting › Environment variables", "AGENTBOOK_PRICES"),
        ("No module named 'altair'", "Troubleshooting › No module named ...: a package is missing", "pip install"),
        (
            'Traceback (most recent call last):\n  File "x.py", line 1\nagentbook.errors.PartialLoad: it stopped',
            "Python reference › ab.PartialLoad",
            "",
        ),
    ],
)
def test_an_exact_name_is_answered_from_what_defines_it(question: str, source: str, text: str) -> None:
    answer = reply(Guide(), question)
    assert sources(answer)[0] == source
    assert text in answer


def test_a_name_in_passing_is_listed_before_the_nearest_sections() -> None:
    answer = reply(Guide(), "my laptop slept during `ab.load_history`, must the whole download begin again?")
    assert listed(answer)[0] == "Python reference › ab.load_history"
    assert len(listed(answer)) == 3


@pytest.mark.parametrize(
    "question",
    [
        *[each["question"] for each in QUESTIONS if not each["sections"] and "How are" not in each["question"]][1:],
        *("Best pizza in Rome", "Can I write a poem?", "zxqv bnmt", "Wie spät ist es?", "?", "you stupid idiot"),
        *("x" * 10_000, "public static void main(String[] args) {}", "<h1>Welcome</h1>"),
    ],
)
def test_a_question_about_something_else_is_refused(question: str) -> None:
    answer = reply(Guide(), question)
    assert [*sources(answer), *listed(answer)] == []
    assert len(answer) < 800


def test_a_question_that_shares_only_words_with_the_manual_is_refused_beside_its_sections() -> None:
    answer = reply(Guide(), "How do I make a pivot table in a spreadsheet?")
    assert "found nothing" in answer
    assert 1 <= len(listed(answer)) <= 3
    assert "found nothing" not in reply(Guide(), "how long does an agent wait")


def test_it_lists_the_nearest_sections_and_quotes_the_one_whose_title_is_asked_next() -> None:
    answer = reply(Guide(), "how long does an agent wait")
    assert 1 < len(listed(answer)) <= 3
    for source in listed(answer):
        assert sources(reply(Guide(), source)) == [source]


def test_it_says_what_it_is() -> None:
    assert "not a language model" in reply(Guide(), "who are you?")


@pytest.mark.parametrize(
    ("question", "entries"),
    [
        ("What is a turn?", ["Turn"]),
        ("what's a workspace", ["Workspace"]),
        ("What does cursor mean?", ["Cursor"]),
        ("What is the difference between a session and a turn?", ["Session", "Turn"]),
        ("turn, event or session?", ["Turn", "Event", "Session"]),
        ("meaning of initiator", ["Initiator"]),
    ],
)
def test_the_glossary_answers_what_it_defines(question: str, entries: list[str]) -> None:
    definitions = {section.title: section for section in manual().sections if section.page == GLOSSARY}
    answer = reply(Guide(), question)
    assert sources(answer) == [definitions[entry].source for entry in entries]
    assert all(definitions[entry].blocks[0] in answer for entry in entries)


def test_of_a_long_table_only_the_first_rows_are_quoted() -> None:
    rows = "\n".join(f"| name{row} | value{row} |" for row in range(30))
    page = f"# Page\n\n## Long table of names\n\n| name | value |\n|---|---|\n{rows}\n"
    answer = reply(Guide(Manual(read_page(page))), "long table of names")
    assert answer.count("| name") == 9
    assert "22 more" in answer


def test_of_a_long_section_whole_paragraphs_are_quoted() -> None:
    page = f"# Page\n\n## Colours\n\nThey are many.\n\n{'Blue is one. ' * 200}\n"
    assert reply(Guide(Manual(read_page(page))), "colours").startswith("They are many.\n\n*… The")


def test_quotes_are_in_the_pages_without_links_to_other_pages() -> None:
    pages = " ".join("\n".join(page.read_text("utf-8") for page in packaged("docs").glob("*.md")).split())
    pages = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", pages)
    for each in QUESTIONS:
        answer = reply(Guide(), each["question"])
        body = answer.partition("\n\n*Source")[0] if sources(answer) else ""
        assert body.count("```") % 2 == 0
        for block in body.split("\n\n"):
            block = " ".join(block.split()).strip("*")  # the titles of two sections are bold
            assert block in pages or block.startswith("… ") or "Python reference" in answer, block


def test_a_follow_up_continues_the_question_before_it() -> None:
    history = [Message("user", "How do I stream a session?"), Message("assistant", "…")]
    assert "```" in reply(Guide(), "Show me an example", history=history)
    assert question_of("and in more detail?", history) == "How do I stream a session?"
    assert question_of("How do I revoke a key?", history) == "How do I revoke a key?"
    first = reply(Guide(), history[0].text)
    more = reply(Guide(), "Tell me more", history=[history[0], Message("assistant", first)])
    assert sources(more) != sources(first)


def test_one_search_runs_as_a_tool() -> None:
    assert finished_tools(run(Guide(), "What is a turn?")) == ["search_documentation"]


@given(st.text(max_size=200) | st.text(alphabet='"*()^:{}-+ANDORNOTNEAR events', max_size=80))
def test_a_question_is_never_read_as_search_syntax(question: str) -> None:
    assert reply(Guide(), question, history=[Message("user", question)])


def test_a_language_model_answers_from_the_sections_and_they_are_cited() -> None:
    class Model:
        async def run(self, turn: TurnRequest) -> AsyncIterator[Step]:
            for text in ("Call ", "`ab.export`."):
                yield Draft(text)
            yield Reply(f"Call `ab.export`.{'' if 'Export a frame' in (turn.system_prompt or '') else ' ?'}")

    answer = reply(Guide(model=Model()), "export to excel")
    assert answer.startswith("Call `ab.export`.\n\n*Sources: Export and reports › Export a frame; ")
    assert "found nothing" in reply(Guide(model=Model()), "Best pizza in Rome")


def test_concurrent_questions() -> None:
    questions = [each["question"] for each in QUESTIONS[:20]]

    async def all_at_once() -> list[str]:
        turns = [collect(Guide(), request(question)) for question in questions]
        return [steps[-1].text for steps in await asyncio.gather(*turns)]  # type: ignore[union-attr]

    assert asyncio.run(all_at_once()) == [reply(Guide(), question) for question in questions]
