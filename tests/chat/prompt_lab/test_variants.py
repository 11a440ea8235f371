"""The variants in the form of the lab: added, edited, applied and removed."""

from __future__ import annotations

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView

from .form import add, fill, hidden, run, typed, until, walk, words
from .lab_platform import LabPlatform, make_lab, not_ready


def test_apply_is_one_call_and_updates_history_and_difference(
    platform: LabPlatform, view: LabView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbook.evaluation.platform.POLL_PAUSES_S", (0.01,))
    platform.refusals = not_ready(2)
    fill(view, system_prompt="original, and brief")
    fill(view, tools="orders: find_order, track")
    fill(view, version="1.5.0")
    until(lambda: "[added: , and brief ]" in words(view.variants.versions.difference))
    view.variants.apply.click()
    until(lambda: not hidden(view.variants.applying.widget))
    assert "instead of version 1.0.0, for everyone" in words(view.variants.applying.text)
    view.variants.applying.confirm.click()
    view.variants.applying.confirm.click()  # a double click applies once
    until(lambda: "now runs on version 1.5.0" in words(view.form.status["form"]))
    assert platform.prompts() == ["original", "original, and brief"]
    assert platform.calls[-1][2]["tools"] == ({"integration": "orders", "tools": ["find_order", "track"]},)
    until(lambda: "1.5.0 (current)" in words(view.variants.versions.history))
    assert view.variants.versions.old.widget.options[0] == ("version 1.5.0", "version 1.5.0")


def test_a_version_can_be_copied_to_the_form_and_any_two_compared(platform: LabPlatform, view: LabView) -> None:
    add(view, "kind", "original, and kind")
    view.variants.versions.start.value = "version 1.0.0"
    view.variants.versions.use.click()
    until(lambda: typed(view) == "original")
    view.variants.versions.old.value, view.variants.versions.new.value = "variant kind", "version 1.0.0"
    until(
        lambda: (
            "From variant kind to version 1.0.0" in words(view.variants.versions.difference)
            and "[removed: , and kind ]" in words(view.variants.versions.difference)
        )
    )


def test_variants_without_a_prompt_and_settings_are_compared(lab: PromptLab, view: LabView) -> None:
    lab.add_variant("now")
    until(lambda: "now" in view.variants.ticks)
    view.variants.versions.old.value = "variant now"
    until(lambda: "no difference" in words(view.variants.versions.difference))
    fill(view, temperature="1.5")
    until(lambda: "[added: temperature: 1.5 ]" in words(view.variants.versions.difference))
    fill(view, temperature="", mode="multi-turn")
    until(lambda: "multi" in words(view.variants.versions.difference))
    view.variants.versions.start.value = "variant now"
    view.variants.versions.use.click()
    until(lambda: (typed(view), typed(view, "mode")) == ("", ""))


def test_the_comparison_follows_the_current_version_until_a_person_chooses(lab: PromptLab) -> None:
    lab.add_variant("kind", "original, and kind")
    view = LabView(lab)  # drawn before the versions are read
    until(
        lambda: (
            (view.variants.versions.old.value, view.variants.versions.start.value) == ("version 1.0.0", "version 1.0.0")
        )
    )
    version = lab.apply("kind")
    until(lambda: view.variants.versions.old.value == f"version {version.label}")
    view.variants.versions.old.value = "variant kind"
    lab.add_variant("brief", "Be brief.")
    until(lambda: "brief" in view.variants.ticks)
    assert view.variants.versions.old.value == "variant kind"
    view.close()


def test_versions_with_one_number_are_all_offered_and_a_published_one_is_marked(
    platform: LabPlatform, lab: PromptLab
) -> None:
    versions = platform.history[platform.find("acme~writer")]
    for prompt, day, published_at in (("second", 2, "2026-10-01T00:00:00Z"), ("third", 1, None)):
        facts = {"created_at": f"2026-10-0{day}T00:00:00Z", "published_at": published_at}
        versions.append(platform.version(version_number="1.0.0", system_prompt=prompt, **facts))
    view = LabView(lab)
    until(lambda: len(view.variants.versions.start.widget.options) == 3)
    assert "1.0.0 (current)" in words(view.variants.versions.history)
    assert words(view.variants.versions.history).count("(published)") == 1
    view.variants.versions.start.value = view.variants.versions.start.widget.options[1][1]
    view.variants.versions.use.click()
    until(lambda: typed(view) == "second")
    view.close()


def test_the_version_that_the_agent_runs_on_is_published(platform: LabPlatform, view: LabView) -> None:
    [version] = platform.history[platform.find("acme~writer")]
    view.variants.publish.click()
    until(lambda: "Version 1.0.0 becomes" in words(view.variants.publishing.text))
    assert platform.calls == []
    view.variants.publishing.confirm.click()
    until(lambda: "is published." in words(view.form.status["form"]))
    assert [(call[0], call[2]) for call in platform.calls] == [("publish", version["id"])]


def test_an_error_of_a_run_goes_with_the_variant_at_fault(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    platform.offered, platform.models = ("model",), ("small",)
    lab.add_variant("big", model="large")
    until(lambda: "big" in view.variants.ticks)
    run(view, "one", "There is no model 'large'")
    assert platform.questions() == []
    press(view, "big", "Remove")
    until(lambda: not view.variants.ticks)
    until(lambda: "large" not in words(view.form.status["run"]))


def test_trying_out_comes_before_changing_the_agent(platform: LabPlatform, view: LabView) -> None:
    fill(view, system_prompt="Be kind.")
    assert "ab-main" in view.variants.add._dom_classes
    assert "ab-main" not in view.variants.apply._dom_classes
    view.variants.apply.click()
    until(lambda: not hidden(view.variants.applying.widget))
    view.variants.applying.cancel.click()
    assert hidden(view.variants.applying.widget)
    assert platform.calls == []


def press(view: LabView, name: str, label: str) -> None:
    """Press a button beside a variant."""
    row = next(each for each in walk(view.variants.list) if view.variants.ticks[name] in getattr(each, "children", ()))
    next(each for each in row.children if each.description == label).click()


def test_a_variant_is_edited_copied_renamed_and_removed(platform: LabPlatform, lab: PromptLab, view: LabView) -> None:
    add(view, "kind", "Be kind.")
    add(view, "brief", "Be brief.")
    run(view, "one", "2 of 2 answered")
    press(view, "kind", "Edit")
    until(lambda: (typed(view, "name"), typed(view)) == ("kind", "Be kind."))
    until(lambda: view.variants.add.description == "Save changes")
    fill(view, system_prompt="Be very kind.")
    view.variants.add.click()
    until(lambda: "Run asks it again; 1 earlier reply is kept" in words(view.form.status["form"]))
    assert (view.variants.add.description, list(lab.variants)) == ("Add as variant", ["kind", "brief"])
    until(lambda: "very kind" in view.variants.ticks["kind"].description)
    run(view, "one", "2 of 2 answered")
    assert platform.questions() == ["one"] * 3
    press(view, "kind", "Duplicate")
    until(lambda: typed(view, "name") == "kind copy")
    fill(view, name="nice")
    view.variants.add.click()
    until(lambda: list(view.variants.ticks) == ["kind", "brief", "nice"])
    press(view, "nice", "Remove")  # without replies nothing is asked
    until(lambda: list(view.variants.ticks) == ["kind", "brief"])
    press(view, "kind", "Remove")
    until(lambda: "The replies of “kind” are removed with it: 2." in words(view.variants.removing.text))
    view.variants.removing.confirm.click()
    until(lambda: list(view.variants.ticks) == ["brief"])
    assert [answer.variant for answer in lab._lab.answers] == ["brief"]


def test_what_cannot_be_typed_survives_editing(lab: PromptLab, view: LabView) -> None:
    lab.add_variant("kind", "Be kind.", description="", agent="acme~writer")
    until(lambda: "kind" in view.variants.ticks)
    press(view, "kind", "Edit")
    until(lambda: typed(view, "name") == "kind")
    view.variants.cancel.click()
    until(lambda: typed(view, "name") == "")
    press(view, "kind", "Edit")
    until(lambda: typed(view, "name") == "kind")
    fill(view, system_prompt="Be nice.")
    view.variants.add.click()
    until(lambda: lab.variants["kind"].system_prompt == "Be nice.")
    assert (lab.variants["kind"].description, lab.variants["kind"].agent) == ("", "acme~writer")


def test_a_variant_has_a_model_and_parameters(platform: LabPlatform, lab: PromptLab) -> None:
    platform.models, platform.offered = ("small", "large"), ("model", "temperature", "max_tokens", "top_p")
    view = LabView(lab)
    try:
        until(lambda: view.variants.fields["model"].options == ("small", "large"))
        until(lambda: typed(view) == "original")

        fill(view, model="large", temperature="0.5", max_tokens="50")
        add(view, "cold", "Be cold.")
        settings = lab.variants["cold"].settings
        assert [settings[name] for name in ("model", "temperature", "max_tokens")] == ["large", 0.5, 50]
        fill(view, temperature="warm")
        view.variants.add.click()
        until(lambda: "temperature must be a number from 0 to 2" in words(view.form.status["form"]))
    finally:
        view.close()


def test_a_new_agent_gets_its_first_prompt_in_the_form(platform: LabPlatform) -> None:
    agent = platform.records[platform.add_agent("acme~new")]
    lab = make_lab(platform, agent)
    lab.workspace = {"id": "0199a0b2-0000-7000-8000-00000000000a", "full_name": "acme~lab"}
    view = LabView(lab)
    try:
        until(lambda: "acme~new in acme~lab" in words(view.head))
        until(lambda: "acme~new has no version yet" in words(view.form.status["form"]))
        assert typed(view, "mode") == ""
        add(view, "kind", "Be kind.")
        view.run.inputs.value = "hello"
        view.run.run.click()
        until(lambda: not hidden(view.run.running.widget))
        assert "afterwards, the agent keeps the last one" in words(view.run.running.text)
        view.run.running.cancel.click()
        assert (platform.calls, hidden(view.run.running.widget)) == ([], True)
        view.run.run.click()
        until(lambda: not hidden(view.run.running.widget))
        view.run.running.confirm.click()
        until(lambda: "1 of 1 answered. acme~new keeps version" in words(view.form.status["run"]))
        assert "ab-failed" not in view.form.status["run"].value
        [(_, _, settings)] = [call for call in platform.calls if call[0] == "configure"]
        assert (settings["system_prompt"], settings["description"]) == ("Be kind.", "")
        # There is a version now, so nothing is asked.
        run(view, "hello\nagain", "2 of 2 answered.")
        assert platform.prompts("acme~new") == ["Be kind."]
    finally:
        view.close()


def test_a_prompt_is_saved_and_run_from_its_text_again_and_again(
    platform: LabPlatform, lab: PromptLab, view: LabView
) -> None:
    view.run.inputs.value = "one"
    fill(view, name="kind", system_prompt="Be kind.")
    view.variants.run.click()
    until(lambda: "1 of 1" in view.variants.results.description and not hidden(view.variants.results))
    until(lambda: typed(view, "name") == "kind" and not view.variants.run.disabled)
    fill(view, system_prompt="Be very kind.")
    view.variants.run.click()
    until(lambda: len(platform.questions()) == 2 and not view.form.busy)
    assert list(lab.variants) == ["kind"]
    assert [revision.variant.system_prompt for revision in lab.revisions("kind")] == ["Be kind."]
    fill(view, system_prompt=" ", tools="nonsense")
    view.variants.run.click()
    until(lambda: "ab-failed" in view.form.status["form"].value)
    assert len(platform.questions()) == 2
