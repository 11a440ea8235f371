from __future__ import annotations

import html
import re
from importlib.resources import files

import pytest

from agentbook.service import contract
from agentbook.service.pages import docs
from service.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def page(world: World) -> str:
    answer = await world.get("/docs")
    assert answer.status_code == 200
    return answer.text


async def test_every_operation_parameter_field_and_schema_is_there(page: str) -> None:
    document = contract.load().document
    text = html.unescape(page)
    for path, item in document["paths"].items():
        assert path in text
        for method, op in item.items():
            if method != "parameters":
                card = text.partition(f'id="{op["operationId"]}"')[2].partition("</article>")[0]
                assert op["summary"] in card
                assert method.upper() in card
                names = [p["name"] for p in op.get("parameters", ()) if "name" in p]
                for content in op.get("requestBody", {}).get("content", {}).values():
                    names += content["schema"]["properties"]
                assert [name for name in names if f"<code>{name}</code>" not in card] == []
                assert all(f"<strong>{status}</strong>" in card for status in op["responses"])
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in text


async def test_a_schema_made_of_another_shows_the_fields_of_both(page: str) -> None:
    for name, fields in {"Me": {"credential", "member_count"}, "VersionWithJob": {"job", "version_number"}}.items():
        card = page.partition(f'id="schema-{name}"')[2].partition("</article>")[0]
        assert {field for field in fields if f"<code>{field}</code>" not in card} == set()


async def test_fields_of_objects_in_a_body_are_shown_and_extensions_marked(page: str) -> None:
    card = page.partition('id="configureLlm"')[2].partition("</article>")[0]
    rows = {row.partition("<code>")[2].partition("</code>")[0]: row for row in card.split("<tr>")}
    assert {"tools[].integration", "tools[].tools"} <= rows.keys()
    marked = {name for name, row in rows.items() if "extension</span>" in row}
    assert marked == {"model", "temperature", "max_tokens", "top_p", "type"}


def test_every_operation_parameter_and_field_that_is_sent_is_described() -> None:
    document = contract.load().document
    bare = []
    for item in document["paths"].values():
        for op in (node for name, node in item.items() if name != "parameters"):
            listed = (*item.get("parameters", ()), *op.get("parameters", ()))
            parameters = [docs.resolve(document, each) for each in listed]
            parts = [(op["operationId"], op), *((p["name"], p) for p in parameters)]
            for content in op.get("requestBody", {}).get("content", {}).values():
                fields = docs.fields(document, content["schema"])
                parts += [(name, docs.resolve(document, field) | field) for name, _, field in fields]
            bare += [f"{op['operationId']}: {name}" for name, part in parts if not part.get("description")]
    assert bare == []


async def test_every_anchor_leads_somewhere_once(page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert 'href="openapi.yaml"' in page


async def test_it_needs_nothing_from_elsewhere(page: str) -> None:
    assert "<script" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert page.count("<style>") == 1


CSS = files("agentbook.service.pages").joinpath("templates/style.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.S)
)
# Text on what it stands on, and what a field is outlined with (WCAG 2.2: 4.5 for text,
# 3 for outlines).
TEXTS = {
    "ink": "paper card code tint bad-tint good-tint",
    "soft": "paper card code good-tint",
    "accent": "paper card",
    "on-accent": "accent",
    "bad": "card",
}
PAIRS = [(front, back, 4.5) for front, backs in TEXTS.items() for back in backs.split()] + [("field", "card", 3.0)]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_pair_has_enough_contrast(scheme: dict[str, str]) -> None:
    too_faint = []
    for front, back, least in PAIRS:
        dark, bright = sorted((luminance(scheme[front]), luminance(scheme[back])))
        contrast = (bright + 0.05) / (dark + 0.05)
        if contrast < least:
            too_faint.append((front, back, round(contrast, 2)))
    assert too_faint == []


def test_light_and_dark_have_every_colour() -> None:
    assert set(LIGHT) == set(DARK)
    assert set(re.findall(r"var\(--([\w-]+)\)", CSS)) <= set(LIGHT)
