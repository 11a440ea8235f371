"""Variants: what they refuse, and how they are edited, renamed and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.evaluation.platform import Version, next_number
from agentbook.evaluation.variant import Variant, format_settings, format_tools, parse_tools, parse_variant
from chat.prompt_lab.lab_platform import LabPlatform


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], None),
        (["x", None], None),
        (["1.0.0"], "1.0.1"),
        (["1.9", "1.10", "1.2"], "1.11"),
        (["3"], "4"),
        (["²"], None),
    ],
)
def test_next_number(numbers: list[str | None], expected: str | None) -> None:
    assert next_number([Version(number=number) for number in numbers]) == expected


@pytest.mark.parametrize("setting", ["system_prompt", "description"])
def test_a_path_is_not_a_prompt(setting: str) -> None:
    with pytest.raises(TypeError, match=r"of variant 'a' must be a .*, not \w*Path: .*read_text"):
        Variant("a", **{setting: Path("prompt.md")})


def test_formatted_tools_parse_back() -> None:
    tools = [{"integration": "orders", "tools": ["find", "track"]}, {"integration": "mail", "tools": []}]
    assert parse_tools(format_tools(tools)) == tools
    assert parse_tools(" \n") is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"temperature": 2.5}, "temperature of variant 'a' must be a number from 0 to 2, or None, not 2.5"),
        ({"temperature": True}, "temperature of variant 'a' must be a number"),
        ({"temperature": float("nan")}, "temperature of variant 'a' must be a number"),
        ({"max_tokens": 0}, "max_tokens of variant 'a' must be a whole number from 1"),
        ({"max_tokens": 1.5}, "max_tokens of variant 'a' must be a whole number"),
        ({"top_p": "1"}, "top_p of variant 'a' must be a number from 0 to 1"),
        ({"model": " "}, "The model of variant 'a' is empty"),
    ],
)
def test_parameters_have_limits(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Variant("a", **parameters)  # type: ignore[arg-type]


def test_settings_are_what_a_variant_changes() -> None:
    variant = Variant("a", "Be brief.", model="m", temperature=0, top_p=1)
    assert variant.settings == {"system_prompt": "Be brief.", "model": "m", "temperature": 0, "top_p": 1}
    assert Variant("a", **variant.as_data()) == variant
    assert Variant("cold", temperature=0).configures


def test_parameters_as_text_parse_back() -> None:
    settings = {"system_prompt": "Be brief.", "model": "m", "temperature": 0.0, "max_tokens": 20}
    fields = {"name": "a", "version": "", **format_settings(settings)}
    assert (fields["temperature"], fields["max_tokens"]) == ("0.0", "20")
    assert parse_variant(fields, "x").settings == settings
    with pytest.raises(ValueError, match="max_tokens must be a whole number from 1 to 1000000, or empty, not “many”"):
        parse_variant({**fields, "max_tokens": "many"}, "x")


def run(lab: PromptLab, *inputs: str) -> None:
    lab.run(list(inputs), progress=False)


def replies(lab: PromptLab) -> list[tuple[str, str, str | None]]:
    return [(answer.variant, answer.input, answer.reply) for answer in lab._lab.answers]


def test_only_the_edited_variant_is_asked_again(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    lab.add_variant("brief", "Be brief.")
    run(lab, "one", "two")
    lab.edit_variant("kind", system_prompt="Be very kind.")
    assert list(lab.variants) == ["kind", "brief"]
    assert replies(lab) == [("brief", "one", "Be brief.: one"), ("brief", "two", "Be brief.: two")]
    before = len(platform.questions())
    run(lab, "one", "two")
    assert len(platform.questions()) - before == 2
    assert replies(lab)[0] == ("kind", "one", "Be very kind.: one")
    [revision] = lab.revisions("kind")
    assert "Be kind.: one" not in repr(revision), "the replies are many"
    assert (revision.variant.system_prompt, [each.reply for each in revision.answers]) == (
        "Be kind.",
        ["Be kind.: one", "Be kind.: two"],
    )


def test_the_old_text_brings_its_replies_back(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    run(lab, "one")
    lab.edit_variant("kind", system_prompt="Be cruel.")
    run(lab, "one")
    lab.edit_variant("kind", system_prompt="Be kind.")
    assert replies(lab) == [("kind", "one", "Be kind.: one")]
    assert [revision.variant.system_prompt for revision in lab.revisions("kind")] == ["Be cruel."]
    questions = platform.questions()
    run(lab, "one")
    assert platform.questions() == questions


def test_a_new_name_leaves_replies_and_revisions(lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    run(lab, "one")
    lab.edit_variant("kind", system_prompt="Be nice.")
    run(lab, "one")
    lab.edit_variant("kind", name="nice")
    assert replies(lab) == [("nice", "one", "Be nice.: one")]
    assert len(lab.revisions("nice")) == 1
    lab.add_variant("other")
    with pytest.raises(ValueError, match="already a variant 'other'"):
        lab.edit_variant("nice", name="other")
    with pytest.raises(ValueError, match="no variant 'kind'"):
        lab.edit_variant("kind", system_prompt="x")


def test_a_copy_has_no_replies(lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.", mode="one-shot")
    run(lab, "one")
    copies = [lab._lab.duplicate_variant("kind").name for _ in range(2)]
    assert copies == ["kind copy", "kind copy 2"]
    assert lab.variants["kind copy 2"].settings == lab.variants["kind"].settings
    assert [answer.variant for answer in lab._lab.answers] == ["kind"]


def test_other_checks_judge_revisions_too(lab: PromptLab) -> None:
    lab.add_variant("kind", "Be kind.")
    run(lab, "one")
    lab.edit_variant("kind", system_prompt="Be nice.")
    lab.check({"says kind": "kind"})
    [revision] = lab.revisions("kind")
    assert revision.answers[0].verdicts["says kind"].passed is True


def test_a_file_holds_revisions(lab: PromptLab, platform: LabPlatform, tmp_path: Path) -> None:
    lab.add_variant("kind", "Be kind.")
    run(lab, "one")
    lab.edit_variant("kind", system_prompt="Be nice.")
    again = PromptLab.load(lab.save(tmp_path / "lab.json"), platform)  # type: ignore[arg-type]
    assert again == lab
    assert again.revisions("kind") == lab.revisions("kind")
    lab.remove_variant("kind")
    assert "Be kind." not in lab.save(tmp_path / "lab.json").read_text()


def test_a_variant_that_is_being_asked_is_not_edited(platform: LabPlatform, lab: PromptLab) -> None:
    refusals: list[str] = []

    def edit(*_: object) -> str:
        try:
            lab.edit_variant("kind", system_prompt="Be nice.")
        except ValueError as error:
            refusals.append(str(error))
        return "reply"

    platform.reply = edit
    lab.add_variant("kind", "Be kind.")
    run(lab, "one")
    assert refusals == ["A run is asking 'kind': stop it, or wait for its end, and edit the variant then."]
    assert lab.edit_variant("kind", system_prompt="Be nice.").system_prompt == "Be nice."


def test_latencies_of_another_run_are_not_compared(lab: PromptLab) -> None:
    inputs = [str(number) for number in range(8)]
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.")
    run(lab, *inputs)
    lab.check(["kind", "Be"])
    compared = lab.compare_variants("now").set_index("metric")["n"]
    assert compared["latency_s"] == compared["passed"] == 8
    lab.edit_variant("kind", system_prompt="Be very kind.")
    run(lab, *inputs, "one more")
    compared = lab.compare_variants("now").set_index("metric")["n"]
    assert (compared["latency_s"], compared["passed"]) == (1, 9)
    assert lab.results["run_at"].nunique() == 2


def test_an_agent_that_was_changed_is_asked_again_as_it_is_now(platform: LabPlatform, lab: PromptLab) -> None:
    lab.add_variant("now")
    lab.add_variant("kind", "Be kind.")
    run(lab, "one")
    lab.apply("kind", even_if_open=True)
    run(lab, "one")
    assert replies(lab)[0] == ("now", "one", "original: one"), "nothing is missing, so nothing is asked"
    with pytest.warns(UserWarning, match="now"):
        run(lab, "one", "two")
    assert [reply for name, _, reply in replies(lab) if name == "now"] == ["Be kind.: one", "Be kind.: two"]
    [revision] = lab.revisions("now")
    assert (revision.variant.system_prompt, [each.reply for each in revision.answers]) == (
        "original",
        ["original: one"],
    )
    lab.undo_apply()
    asked = len(platform.questions())
    with pytest.warns(UserWarning, match="now"):
        run(lab, "one", "two", "three")
    assert [reply for name, _, reply in replies(lab) if name == "now"] == [
        f"original: {n}" for n in ("one", "two", "three")
    ]
    assert len(platform.questions()) - asked == 3, "the reply to “one” comes back"
