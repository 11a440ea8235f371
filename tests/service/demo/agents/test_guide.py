"""The guide quotes the right section, and says when it is not sure."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.demo.agents.guide import Guide, question_of
from agentbook.service.demo.manual import GLOSSARY, Manual, folder, manual, read_page
from agentbook.service.engines.base import Message
from service.engines.engine_runs import collect, finished_tools, reply, request, run

QUESTIONS = yaml.safe_load((Path(__file__).parents[1] / "questions.yaml").read_text("utf-8"))


def sources(answer: str) -> list[str]:
    """The sections that an answer quotes."""
    match = re.search(r"^\*Sources?: (.*)\*$", answer, re.MULTILINE)
    return match[1].split("; ") if match else []


def verdict(question: str, accepted: list[str]) -> str:
    """What an answer is: where the manual has none, it is right not to be sure."""
    quoted = sources(reply(Guide(), question))
    if not accepted:
        return "wrong" if quoted else "right"
    return "not sure" if not quoted else "right" if set(quoted) & set(accepted) else "wrong"


def test_newcomers_get_the_right_section_and_rarely_a_wrong_one() -> None:
    verdicts = {each["question"]: verdict(each["question"], each["sections"]) for each in QUESTIONS}
    score = Counter(verdicts.values())
    print(dict(score))
    wrong = [question for question, given in verdicts.items() if given == "wrong"]
    assert score["right"] >= 0.8 * len(QUESTIONS), score
    assert len(wrong) <= 0.05 * len(QUESTIONS), wrong


def test_the_accepted_sections_exist() -> None:
    accepted = {section for each in QUESTIONS for section in each["sections"]}
    assert accepted <= {section.source for section in manual().sections}


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("install", "Getting started"),
        ("windows", "Getting started"),
        ("latency by agent", "Analyses and charts"),
        ("ollama", "The embedded service and the command line"),
        ("jupyterhub", "Troubleshooting"),
        ("docker", "Deployment on PostgreSQL"),
    ],
)
def test_single_words_find_their_page(words: str, page: str) -> None:
    [source] = sources(reply(Guide(), words))
    assert source.startswith(f"{page} › ")


@pytest.mark.parametrize(
    "question", ["Best pizza in Rome", "Can I write a poem?", "zxqv bnmt", "Wie spät ist es?", "?"]
)
def test_a_question_about_something_else_is_not_answered(question: str) -> None:
    assert not sources(reply(Guide(), question))


def test_it_names_the_nearest_sections_when_it_is_not_sure() -> None:
    nearest, *_ = manual().search("Can I write a poem?")
    answer = reply(Guide(), "Can I write a poem?")
    assert nearest.section.source in answer
    assert nearest.section.blocks[0] not in answer


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


def test_of_a_long_paragraph_whole_sentences_are_quoted() -> None:
    page = f"# Page\n\n## Colours\n\nThey are many.\n\nRed. `a. b` {'Blue is one. ' * 200}\n"
    body = reply(Guide(Manual(read_page(page))), "colours").partition("\n\n*Source")[0]
    assert body.startswith("They are many.\n\nRed. `a. b` Blue is one.")
    assert body.endswith("Blue is one.")
    assert 1400 < len(body) < 1510
    page = f"# Page\n\n## Colours\n\nThey are many.\n\nIn `a. {'b' * 1500}` is none.\n"
    assert reply(Guide(Manual(read_page(page))), "colours").startswith("They are many.\n\n*Source")


def test_two_sections_that_are_near_are_both_quoted() -> None:
    page = "# Page\n\n## Red colours\n\nRed.\n\n## Blue colours\n\n| Blue |\n|---|\n\n## Other\n\nA colour.\n"
    answer = reply(Guide(Manual(read_page(page))), "which colours are on the page")
    assert sources(answer) == ["Page › Red colours", "Page › Blue colours"]
    assert "**Red colours**\n\nRed." in answer
    assert "**Blue colours**\n\n| Blue |\n|---|\n\n" in answer  # a table begins a paragraph


def test_quotes_are_in_the_pages_without_links_to_other_pages() -> None:
    pages = " ".join("\n".join(page.read_text("utf-8") for page in folder().glob("*.md")).split())
    pages = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", pages)
    for each in QUESTIONS:
        answer = reply(Guide(), each["question"])
        body = answer.partition("\n\n*Source")[0] if sources(answer) else ""
        assert body.count("```") % 2 == 0
        for block in body.split("\n\n"):
            block = " ".join(block.split()).strip("*")  # the titles of two sections are bold
            assert block in pages or block.startswith("… and "), block


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


def test_concurrent_questions() -> None:
    questions = [each["question"] for each in QUESTIONS[:20]]

    async def all_at_once() -> list[str]:
        turns = [collect(Guide(), request(question)) for question in questions]
        return [steps[-1].text for steps in await asyncio.gather(*turns)]  # type: ignore[union-attr]

    assert asyncio.run(all_at_once()) == [reply(Guide(), question) for question in questions]


def test_an_empty_manual_finds_nothing() -> None:
    assert not sources(reply(Guide(Manual([])), "What is a turn?"))
