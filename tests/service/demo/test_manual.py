"""The packaged manual is read as sections, and searched by whole words."""

from __future__ import annotations

from agentbook.service.demo.manual import STOP_WORDS, Hit, Manual, manual, read_page, sure


def test_code_blocks_stay_whole_with_lines_that_look_like_headings() -> None:
    page = "# Page\n\n## One\n\nLook:\n\n```python\n# not a heading\n\nx = 1\n```\n\n## Two\n\ntext\n"
    first, second = read_page(page)
    assert first.blocks == ("Look:", "```python\n# not a heading\n\nx = 1\n```")
    assert (second.source, second.blocks) == ("Page › Two", ("text",))


def test_keywords_find_a_section_and_are_not_quoted() -> None:
    page = "# Page\n\n<!-- keywords: vehicle -->\n\n## One\n\n<!-- keywords: car\ntruck -->\n\nA text.\n\n## Two\n\nMore.\n"
    first, second = read_page(page)
    assert (first.blocks, first.keywords, second.keywords) == (("A text.",), "car truck", "")
    hits = Manual([first, second]).search("How do I park a truck?")
    assert [hit.section.title for hit in hits] == ["One"]
    assert len(Manual([first, second]).search("vehicles")) == 2


def test_words_are_compared_whole_and_without_their_endings() -> None:
    pages = Manual(
        read_page("# Page\n\n## Windows\n\nIt runs.\n\n## Requests\n\nOne request in a window of a minute.\n")
    )
    assert [hit.section.title for hit in pages.search("Which request?")] == ["Requests"]
    assert pages.search("wind") == []


def test_a_word_that_only_the_text_has_makes_no_answer() -> None:
    pages = Manual(read_page("# Page\n\n## Colours\n\nThe sky over Paris is blue.\n"))
    assert not sure(pages.search("What is the weather in Paris?"))
    assert sure(pages.search("Which colours?"))


def test_two_sections_answer_if_they_are_near_and_many_equals_do_not() -> None:
    [section] = read_page("# Page\n\nText.\n")

    def answers(*scores: float) -> int:
        return len(sure([Hit(section, score, in_title=True, title_share=0.0) for score in scores]))

    assert [answers(), answers(0.4), answers(0.7), answers(0.7, 0.3)] == [0, 0, 1, 1]
    assert [answers(0.7, 0.5), answers(0.7, 0.7, 0.5), answers(0.7, 0.7, 0.7)] == [2, 2, 0]
    assert [answers(0.8, 0.8, 0.8), answers(1.0, 1.0, 1.0), answers(1.0, 1.0, 1.0, 1.0)] == [2, 1, 0]


def test_a_slip_in_a_long_word_finds_it() -> None:
    pages = Manual(read_page("# Page\n\n## Telemetry\n\nNone.\n\n# Glossary\n\n## Workspace\n\nA container.\n"))
    for slip in ("telemtry", "telemeetry", "tlemetry", "telmeetry", "telemetryy"):
        assert [hit.section.title for hit in pages.search(f"any {slip}?")] == ["Telemetry"]
    for other in ("elemetry", "telmtry", "telemetrx", "telegraph", "tele"):
        assert not pages.search(other)
    assert [section.title for section in pages.definitions("what is a worksapce")] == ["Workspace"]
    assert not pages.search("telemetry" * 1000)


def test_every_page_has_a_title_and_sections_with_text() -> None:
    assert len(manual().pages) == len(set(manual().pages)) >= 15
    assert all(section.blocks and section.page for section in manual().sections)


def test_no_keyword_is_a_word_that_is_never_searched() -> None:
    sections = manual().sections
    hidden = {each.source: set(f"{each.keywords} {each.page_keywords}".lower().split()) for each in sections}
    assert not {source: words & STOP_WORDS for source, words in hidden.items() if words & STOP_WORDS}
