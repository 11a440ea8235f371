"""A comparison as JSON, and read back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentbook.chat.compare import records
from agentbook.chat.compare.compare import Compare
from agentbook.chat.compare.text import static_html
from chat.compare.agents import PageReader
from chat.panels import eventually


def test_json_round_trip(make: Any, tmp_path: Path) -> None:
    compare = make("echo", "fails", "never", blind=True, seed=3)
    compare.ask("Grüße ☃", timeout_s=0.3)
    compare.ask("more", timeout_s=0.3)
    eventually(compare, lambda: [round_.exchanges[0].status for round_ in compare.rounds] == ["answered"] * 2)
    compare.prefer("echo", round=2)
    path = tmp_path / "compared.json"
    path.write_text(compare.to_json(), encoding="utf-8")
    again = Compare.from_json(path)
    assert again.to_json() == compare.to_json()
    assert again.to_pandas().equals(compare.to_pandas())
    assert again.preferences.to_dict() == compare.preferences.to_dict()
    assert static_html(again.comparison, "ap-0") == static_html(compare.comparison, "ap-0")
    page = PageReader(again)
    assert page.fields["composer"]["closed"]
    assert [id for id in page.turns if id.startswith("r")] == ["r1", "r2"]
    with pytest.raises(ValueError, match="recording"):
        again.ask("More?")
    again.prefer("none", round=1)  # preferences can still change
    assert again.preferences["preferred"].to_list() == ["none", "echo"]
    again.close()


def test_a_round_of_0_2_0_may_lack_a_side(make: Any) -> None:
    compare = make("echo", "shout")
    compare.ask("First")
    compare.ask("Second")
    record = json.loads(compare.to_json())
    record["rounds"][0].update(exchanges=[0], order=[0])  # an agent joined later
    again = Compare.from_json(json.dumps(record))
    assert again.to_pandas()["agent"].to_list() == ["echo", "echo", "shout"]
    assert len(PageReader(again).columns(0)) == 1
    again.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.update(format="else"), "Not a comparison"),
        (lambda record: record.update(version=9), "version 9"),
        (lambda record: record.pop("sides"), "damaged"),
        (lambda record: record["rounds"][0].update(order=[0, 0]), "each side exactly once"),
        (lambda record: record["rounds"][0].update(preferred=7), "not one of its sides"),
        (lambda record: record["rounds"][0].update(exchanges=[5, 5]), "damaged"),
        (lambda record: record["sides"][0].update(exchanges=[{}]), "damaged"),
        (lambda record: record["rounds"][0].update(preferred_at="x"), "This comparison is damaged: Invalid isoformat"),
    ],
)
def test_other_json_raises(make: Any, change: Any, message: str) -> None:
    compare = make("echo", "shout")
    compare.ask("Hello")
    record = json.loads(compare.to_json())
    change(record)
    with pytest.raises(ValueError, match=message):
        records.from_json(json.dumps(record))


def test_a_saved_comparison_names_the_agents_by_headings(make: Any) -> None:
    compare = make("echo", "shout")
    compare.ask("Hello\nthere")
    compare.prefer("shout")
    saved = re.sub(r'(?s)<style>.*?</style>| (?:class|dir)="[^"]*"', "", static_html(compare.comparison, "ap-0"))
    assert re.findall(r"<h(\d)><strong>(.+?)</strong></h\1>", saved) == [
        ("4", "Comparison of echo · shout"), ("5", "Question 1: you, to all"), ("6", "echo"), ("6", "shout"),
    ]  # fmt: skip
    assert "<blockquote>Hello<br>there</blockquote>" in saved
    assert "shout was preferred." in saved
