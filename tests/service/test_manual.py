"""The packaged manual is read as sections, and searched by whole words."""

from __future__ import annotations

from agentbook.service.manual import Manual, is_sure, manual, read_page


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
    assert not is_sure(pages.search("What is the weather in Paris?"))
    assert is_sure(pages.search("Which colours?"))


def test_every_page_has_a_title_and_sections_with_text() -> None:
    assert len(manual().pages) == len(set(manual().pages)) >= 15
    assert all(section.blocks and section.page for section in manual().sections)
