from __future__ import annotations

import html
import re

import pytest

from agentbook.service import contract
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


async def test_every_anchor_leads_somewhere_once(page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert 'href="openapi.yaml"' in page


async def test_it_needs_nothing_from_elsewhere(page: str) -> None:
    assert "<script" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert page.count("<style>") == 1
