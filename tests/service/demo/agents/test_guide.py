"""The guide finds the right section, quotes it, and says when it is not sure."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.demo.agents.docstrings import REFERENCE
from agentbook.service.demo.agents.documentation import GLOSSARY, Library, library, manual, read_page
from agentbook.service.demo.agents.guide import Guide, is_sure, understand
from agentbook.service.engines.base import Message
from service.engines.engine_runs import collect, finished_tools, reply, request, run

# What people ask who have read only the README. Each has the sections that answer it;
# none if the manual does not say. Questions are never changed to fit the manual.
ASKED: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("guide_questions.yaml").read_text("utf-8"))


def test_few_answers_are_wrong() -> None:
    """A wrong answer costs more than none: the bound on wrong ones is the tighter."""
    verdicts = {question: verdict(question, sections) for question, sections in ASKED.items()}
    counts = Counter(verdicts.values())
    wrong = [question for question, given in verdicts.items() if given == "wrong"]
    assert counts["right"] >= 0.5 * len(ASKED), counts
    assert len(wrong) <= 0.07 * len(ASKED), wrong


def verdict(question: str, sections: list[str]) -> str:
    """What an answer is: it is right too not to be sure of what the manual lacks."""
    hits = library().search(question)
    if not is_sure(hits):
        return "not sure" if sections else "right"
    source = hits[0].section.source
    assert source in reply(Guide(), question)
    return "right" if any(source.startswith(section) for section in sections) else "wrong"


@pytest.mark.parametrize("question", ["Is it raining in Oslo?", "Best pizza in Rome", "zxqv bnmt", "Wie spät ist es?"])
def test_it_lists_the_pages_when_nothing_fits(question: str) -> None:
    answer = reply(Guide(), question)
    assert "Source" not in answer
    assert all(title in answer for title in ("Getting started", "Errors", "Troubleshooting"))


def test_a_word_that_the_manual_happens_to_use_makes_no_answer() -> None:
    question = "What is the weather in Paris?"  # an example of the manual mentions Paris
    assert not is_sure(library().search(question))
    assert "Source" not in reply(Guide(), question)


def test_it_names_the_nearest_pages_when_it_is_not_sure() -> None:
    [nearest, *_] = library().search("Can I write a poem?")
    answer = reply(Guide(), "Can I write a poem?")
    assert nearest.section.source in answer
    assert nearest.section.blocks[0] not in answer


@pytest.mark.parametrize(
    ("question", "entries"),
    [
        ("What is a turn?", ["Turn"]),
        ("what's a workspace", ["Workspace"]),
        ("What does cursor mean?", ["Cursor"]),
        ("What is the difference between a session and a turn?", ["Session", "Turn"]),
        ("Difference between API key and scope", ["API key", "Scope"]),
    ],
)
def test_the_glossary_answers_what_it_defines(question: str, entries: list[str]) -> None:
    definitions = {section.title: section for section in library().sections if section.document == GLOSSARY}
    answer = reply(Guide(), question)
    assert all(definitions[entry].blocks[0] in answer for entry in entries)
    assert all(definitions[entry].source in answer for entry in entries)


@pytest.mark.parametrize(
    "name", ["ab.load_events", "ab.turns", "client.sessions.stream", "ab.ChatPanel", "ab.AsyncClient"]
)
def test_a_name_that_is_spelled_out_is_looked_up(name: str) -> None:
    assert f"{REFERENCE} › {name}" in reply(Guide(), f"What are the parameters of {name}?")


def test_of_a_long_table_only_the_first_rows_are_quoted() -> None:
    rows = "\n".join(f"| name{row} | value{row} |" for row in range(30))
    page = f"# Page\n\n## Long table of names\n\n| name | value |\n|---|---|\n{rows}\n"
    answer = reply(Guide(Library(read_page(page))), "long table of names")
    assert answer.count("| name") == 9
    assert "22 more" in answer


def words(text: str) -> str:
    """`text` however its lines are wrapped."""
    return " ".join(text.split())


def test_quotes_are_in_the_pages() -> None:
    pages = words("\n".join(page.read_text(encoding="utf-8") for page in manual().glob("*.md")))
    pages += words("\n".join(section.text for section in library().sections if section.document == REFERENCE))
    for question in ASKED:
        answer = reply(Guide(), question)
        body, *source = answer.split("\n\n*Source")
        for block in body.split("\n\n") if source else ():
            block = re.sub(r"^\*\*[^*]+\*\*: ", "", block)
            assert words(block) in pages or block.startswith("… and "), block
        assert body.count("```") % 2 == 0


def test_a_follow_up_continues_the_question_before_it() -> None:
    history = [Message("user", "How do I stream events live?"), Message("assistant", "…")]
    example = reply(Guide(), "Show me an example", history=history)
    assert "client.sessions.stream" in example
    assert "```" in example
    assert understand("and in more detail?", history).query.startswith("How do I stream")
    assert understand("How do I revoke a key?", history).query == "How do I revoke a key?"
    more = reply(Guide(), "Tell me more", history=[*history[:1], Message("assistant", reply(Guide(), history[0].text))])
    assert not more.startswith(library().search(history[0].text)[0].section.blocks[0])


def test_one_search_runs_as_a_tool() -> None:
    assert finished_tools(run(Guide(), "What is a turn?")) == ["search_documentation"]


@given(st.text(max_size=200) | st.text(alphabet='"*()^:{}-+ANDORNOTNEAR events', max_size=80))
def test_a_question_is_never_read_as_search_syntax(question: str) -> None:
    answer = reply(Guide(), question, history=[Message("user", question)])
    assert "Source" in answer or "page" in answer


def test_concurrent_questions() -> None:
    async def all_at_once() -> list[str]:
        turns = [collect(Guide(), request(question)) for question in list(ASKED)[:20]]
        return [steps[-1].text for steps in await asyncio.gather(*turns)]  # type: ignore[union-attr]

    assert asyncio.run(all_at_once()) == [reply(Guide(), question) for question in list(ASKED)[:20]]


def test_code_blocks_stay_whole_with_lines_that_look_like_headings() -> None:
    page = "# Page\n\n## One\n\nLook:\n\n```python\n# not a heading\n\nx = 1\n```\n\n## Two\n\ntext\n"
    first, second = read_page(page)
    assert first.blocks == ("Look:", "```python\n# not a heading\n\nx = 1\n```")
    assert (second.source, second.text) == ("Page › Two", "text")


def test_an_empty_library_finds_nothing() -> None:
    assert "Source" not in reply(Guide(Library([])), "What is a turn?")


def test_every_page_has_a_title_and_sections_with_text() -> None:
    titles = library().documents()
    assert len(titles) == len(set(titles)) >= 15
    assert all(section.text and section.document for section in library().sections)
