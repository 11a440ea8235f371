"""How the batches of pages are joined: without copies, and without what was dropped."""

from __future__ import annotations

import json

import pyarrow as pa

from agentbook.frames.parse.frame import JOINED_ROWS, FrameBuilder
from agentbook.frames.parse.parsed_page import ParsedPage, batches_of, keep_rows
from frames.parse.pages import page
from frames.parse.test_frame import EVENT, SESSION


def test_a_value_known_from_the_request_is_held_once() -> None:
    builder = FrameBuilder("events", {"session_id": "s" * 1000})
    ids = [{"id": f"e{n}"} for n in range(1000)]
    for _ in range(40):
        builder.add(json.dumps({"items": ids}).encode())
    table = builder.to_arrow()
    held = {buffer.address: buffer.size for chunk in table["session_id"].chunks for buffer in chunk.buffers() if buffer}
    assert table["session_id"].to_pylist() == ["s" * 1000] * 40_000
    assert sum(held.values()) < 20_000_000, "of 40 MB"


def test_slices_of_a_batch_are_one_batch_again_without_the_rows_that_were_dropped() -> None:
    builder = FrameBuilder("agents")
    bodies = [page(*[{"id": f"{n}{m}"} for m in range(3)]) for n in range(4)]
    pieces = builder.parse_together(bodies, [{}] * 4)
    shortened = [pieces[0], *(keep_rows(piece, [False, True, True]) for piece in pieces[1:3])]
    assert [batch["id"].to_pylist() for batch in batches_of(shortened)] == [["00", "01", "02", "11", "12", "21", "22"]]
    assert [len(batch) for batch in batches_of([*pieces[2:], *shortened])] == [6, 7], "in the order of the pages"
    middle = keep_rows(pieces[3], [True, False, True])
    assert [len(batch) for batch in batches_of([pieces[2], middle])] == [3, 2], "it is no slice"


def test_a_value_that_all_rows_have_is_held_once() -> None:
    events = page(*[{**EVENT, "id": f"019a0b1c-0000-7000-8000-{n:012x}"} for n in range(1000)])
    builder = FrameBuilder("events", {"session_id": SESSION})
    for _ in range(20):
        builder.extend(builder.parse_together([events, events], [{}, {}]))
    column = builder.to_arrow()["session_id"]
    assert len(column) == 40_000
    assert len({chunk.buffers()[2].address for chunk in column.chunks}) <= 2


def test_joined_rows_leave_the_pool_of_the_pages() -> None:
    """Between short-lived columns they would keep memory that nothing can use again."""
    items = [EVENT | {"content": {"text": f"{n:0100}"}} for n in range(1000)]
    page = json.dumps({"items": items}).encode()
    builder = FrameBuilder("events")
    builder.add(page)
    before = pa.default_memory_pool().bytes_allocated(), pa.system_memory_pool().bytes_allocated()
    for _ in range(32):
        builder.add(page)
    table = builder.to_arrow()
    in_pages, lasting = (
        pool.bytes_allocated() - size
        for pool, size in zip((pa.default_memory_pool(), pa.system_memory_pool()), before, strict=True)
    )
    assert len(table) == 33_000
    assert lasting > 10 * max(in_pages, 1)


def test_the_latest_pages_are_joined_once_they_are_many_or_whole() -> None:
    builder = FrameBuilder("events", {"session_id": SESSION})
    body = page(*[{**EVENT, "created_at": "never" if n == 7 else EVENT["created_at"]} for n in range(1000)])
    pieces: list[ParsedPage] = []
    for _ in range(12):
        pieces.append(builder.parse(body))
        builder.join_latest(pieces, JOINED_ROWS)
    assert [(piece.rows, piece.joined) for piece in pieces] == [(9000, True), *[(1000, False)] * 3]
    assert [problem.row for problem in pieces[0].problems] == [1000 * n + 7 for n in range(9)]
    builder.join_latest(pieces, 1)
    assert [piece.rows for piece in pieces] == [9000, 3000]
    builder.join_latest(pieces, 1)
    builder.extend([*pieces, builder.parse(body)])
    assert len(builder.to_arrow()) == builder.rows == 13_000
    assert [problem["row"] for problem in builder.problems] == [1000 * n + 7 for n in range(13)]


def test_a_single_page_and_pages_without_rows_stay_as_they_are() -> None:
    builder = FrameBuilder("events")
    for pieces in ([builder.parse(page(EVENT))], [builder.parse(page()), builder.parse(page())]):
        before = list(pieces)
        builder.join_latest(pieces, 1)
        assert pieces == before
