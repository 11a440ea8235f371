"""The packaged manual is read as sections, and searched by whole words."""

from __future__ import annotations

from agentbook.service.demo.manual import Hit, Manual, manual, read_page, sure


def test_code_blocks_stay_whole_with_lines_that_look_like_headings() -> None:
    page = "# Page\n\n## One\n\nLook:\n\n```python\n# not a heading\n\nx = 1\n```\n\n## Two\n\ntext\n"
    first, second = read_page(page)
    assert first.blocks == ("Look:", "```python\n# not a heading\n\nx = 1\n```")
    assert (second.source, second.blocks) == ("Page › Two", ("text",))


def test_words_are_compared_whole_and_without_their_endings() -> None:
    pages = Manual(
        read_page("# Page\n\n## Windows\n\nIt runs.\n\n## Requests\n\nOne request in a window of a minute.\n")
    )
    assert [hit.section.title for hit in pages.search("Which request?")] == ["Requests"]
    assert pages.search("wind") == []


def test_a_section_with_one_word_of_several_is_no_hit() -> None:
    pages = Manual(read_page("# Page\n\n## Colours\n\nThe sky over Paris is blue.\n"))
    assert pages.search("What is the weather in Paris?") == []
    assert sure(pages.search("Which colours?"))


def test_a_section_is_quoted_alone_only_with_a_clear_lead_and_a_word_in_its_title() -> None:
    [section] = read_page("# Page\n\nText.\n")

    def quoted(*hits: tuple[float, float, bool]) -> int:
        return len(sure([Hit(section, score, share, 1, in_title, is_title=False) for score, share, in_title in hits]))

    assert [quoted(), quoted((2, 0.9, True)), quoted((2, 0.9, False)), quoted((2, 0.5, True))] == [0, 1, 0, 0]
    assert [quoted((2, 1, True), (1, 1, True)), quoted((2, 1, True), (1.9, 1, True))] == [1, 0]


def test_the_words_of_a_first_sentence_count_more_than_those_below() -> None:
    pages = "# Page\n\n## One\n\nTea. It cools.\n\nMilk is cold.\n\n## Two\n\nMilk. It cools.\n\nTea is hot.\n"
    manual = Manual([*read_page(pages), *read_page("# Other\n\nNothing.\n\n## More\n\nNothing.\n")])
    assert [manual.search(word)[0].section.title for word in ("tea", "milk")] == ["One", "Two"]


def test_a_synonym_finds_what_the_manual_calls_otherwise() -> None:
    pages = Manual(read_page("# Page\n\n## Agents\n\nThey answer.\n\n## Cost\n\nIn dollars.\n"))
    assert [hit.section.title for hit in pages.search("which bots?")] == ["Agents"]
    assert [hit.section.title for hit in pages.search("what do I pay")] == ["Cost"]


def test_a_slip_in_a_long_word_finds_it() -> None:
    pages = Manual(read_page("# Page\n\n## Telemetry\n\nNone.\n\n# Glossary\n\n## Workspace\n\nA container.\n"))
    for slip in ("telemtry", "telemeetry", "tlemetry", "telmeetry", "telemetryy", "telemetrx"):
        assert [hit.section.title for hit in pages.search(f"any {slip}?")] == ["Telemetry"]
    for other in ("elemetry", "telmtry", "telegraph", "tele", "telemetr"):
        assert not pages.search(other)
    assert [section.title for section in pages.definitions("what is a worksapce")] == ["Workspace"]
    assert not pages.search("telemetry" * 1000)


def test_every_page_has_a_title_and_sections_with_text() -> None:
    assert len(manual().pages) == len(set(manual().pages)) >= 15
    assert all(section.blocks and section.page for section in manual().sections)
