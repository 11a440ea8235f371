"""Topics of invented sessions: planted ones are found, and the same in any order."""

from __future__ import annotations

import functools
import json
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.analysis import embeddings
from agentbook.frames.analysis.topics import words_of
from agentbook.frames.parse import to_frame
from support.raw_platform import RawPlatform

ASKED_AT = pd.Timestamp("2026-10-05T08:00Z")
COMMON = [
    *"aeiou", "the", "is", "my", "of", "to", "and", "in", "please", "how", "what", "do", "you", "can", "it", "for"
]  # fmt: skip
SUBJECTS = {
    "orders": ["order", "parcel", "delivery", "tracking", "courier", "shipped", "late", "address"],
    "invoices": ["invoice", "amount", "tax", "payment", "paid", "reminder", "due", "credit"],
    "access": ["login", "password", "locked", "account", "reset", "authenticator", "sign", "admin"],
    "builds": ["build", "pipeline", "failed", "tests", "branch", "deploy", "release", "green"],
}


def turns_of(questions: Sequence[Sequence[str | None]], first: int = 0) -> pd.DataFrame:
    """Turns of sessions with these questions, one minute after another."""
    rows = [
        (f"s{first + number:05d}", turn, prompt)
        for number, prompts in enumerate(questions)
        for turn, prompt in enumerate(prompts, 1)
    ]
    table = pd.DataFrame(rows, columns=["session_id", "turn", "prompt"]).astype({"session_id": "str", "prompt": "str"})
    asked_at = ASKED_AT + pd.to_timedelta(range(len(table)), "min")
    return table.assign(
        asked_at=asked_at, replied_at=asked_at + pd.Timedelta("2s"), latency_s=2.0, status="answered", failure=None,
        failure_message=None, author_id="u1",
    ).astype({"failure": "str", "failure_message": "str"})  # fmt: skip


def question(subject: str, rng: random.Random) -> str:
    words = rng.choices(COMMON, k=6) + rng.sample(SUBJECTS[subject], 3)
    rng.shuffle(words)
    return " ".join(words)


def planted(count: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Sessions about the four subjects, and the subject of each."""
    rng = random.Random(seed)
    subjects = [rng.choice(list(SUBJECTS)) for _ in range(count)]
    questions = [[question(subject, rng) for _ in range(rng.randint(1, 4))] for subject in subjects]
    return turns_of(questions), pd.Series(subjects, [f"s{n:05d}" for n in range(count)])


TURNS, SUBJECT = planted(200, 1)


@functools.cache
def found_topics() -> ab.Topics:
    return ab.topics(TURNS)


def topic_of_session(topics: ab.Topics, turns: pd.DataFrame) -> pd.Series:
    return topics.of(turns).groupby(turns["session_id"]).first()


def test_planted_topics_are_found_and_named_by_their_words() -> None:
    assert len(found_topics().frame) == 4
    assert pd.crosstab(topic_of_session(found_topics(), TURNS), SUBJECT).gt(0).sum().sum() == 4
    for topic, terms in zip(found_topics().frame["topic"], found_topics().frame["terms"], strict=True):
        [subject] = SUBJECT[topic_of_session(found_topics(), TURNS) == topic].unique()
        assert set(terms) <= set(SUBJECTS[subject])
        assert topic == ", ".join(terms[:3])


def test_the_frame_counts_what_of_says() -> None:
    table = found_topics().frame
    topic = found_topics().of(TURNS)
    assert table["turns"].to_list() == topic.value_counts()[table["topic"]].to_list()
    assert (
        table["sessions"].to_list() == topic_of_session(found_topics(), TURNS).value_counts()[table["topic"]].to_list()
    )
    assert table["sessions"].is_monotonic_decreasing
    assert table["share"].sum() == pytest.approx(1)
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == {
        "topic": "str", "sessions": "int64", "turns": "int64", "share": "float64",
        "terms": "list<item: large_string>[pyarrow]", "typical": "list<item: large_string>[pyarrow]", "example": "str",
        "stability": "float64",
    }  # fmt: skip
    first = TURNS[TURNS["turn"] == 1].set_index("session_id")["prompt"]
    for name, typical, example in zip(table["topic"], table["typical"], table["example"], strict=True):
        assert len(set(typical)) == 3
        assert set(topic_of_session(found_topics(), TURNS)[list(typical)]) == {name}
        assert example == first[typical[0]]


def test_a_topic_that_other_seeds_do_not_find_is_not_compared() -> None:
    """Four subjects are planted: of nine topics, some are parts by chance."""
    assert (found_topics().frame["stability"] == 1).all()
    many = ab.topics(TURNS, k=9)
    stability = many.frame.set_index("topic")["stability"]
    assert stability.min() < 0.6 < stability.max()
    spans = [(ASKED_AT + pd.Timedelta(f"{3 * n}h"), ASKED_AT + pd.Timedelta(f"{3 * n + 3}h")) for n in range(2)]
    with pytest.warns(UserWarning, match="stability"):
        table = ab.compare_periods(ab.with_topics(TURNS, many), a=spans[0], b=spans[1], by="topic", metric="turns")
    assert set(table["topic"]) == set(stability.index[~(stability < 0.6)])
    assert set(table.attrs["agentbook"]["left_out"]) == set(stability.index[stability < 0.6])
    five = ab.topics(TURNS[TURNS["session_id"].isin(TURNS["session_id"].unique()[:5])])
    assert five.frame["stability"].isna().all(), "of a single topic nothing is known"


def test_words_without_subjects_are_one_topic() -> None:
    rng = random.Random(5)
    words = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrs"]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    turns = turns_of([[" ".join(rng.choices(words, weights, k=rng.randint(5, 40)))] for _ in range(300)])
    found = ab.topics(turns)
    assert len(found.frame.query("topic != 'other'")) == 1
    assert "k=" in repr(found)


def test_neither_the_order_of_rows_nor_the_index_matters() -> None:
    mixed = TURNS.sample(frac=1, random_state=3)
    again = ab.topics(mixed)
    pd.testing.assert_frame_equal(again.frame, found_topics().frame)
    pd.testing.assert_series_equal(again.of(mixed).sort_index(), found_topics().of(TURNS))
    doubled = TURNS.set_index(pd.Index([7] * len(TURNS)))
    assert found_topics().of(doubled).to_list() == found_topics().of(TURNS).to_list()
    assert found_topics().of(doubled).index.equals(doubled.index)


def test_a_number_of_topics_is_found_and_a_seed_makes_choices_the_same_again() -> None:
    first, second = (ab.topics(TURNS, k=6, seed=1) for _ in range(2))
    pd.testing.assert_frame_equal(first.frame, second.frame)
    assert [ab.topics(TURNS, k=number).frame["topic"].nunique() for number in (2, 3, 6)] == [2, 3, 6]
    table = pd.crosstab(topic_of_session(ab.topics(TURNS, seed=2), TURNS), SUBJECT)
    assert table.gt(0).sum().sum() == 4, "clear topics do not depend on it"


def test_later_turns_get_the_topics_of_earlier_ones() -> None:
    rng = random.Random(9)
    later = turns_of([[question(subject, rng)] for subject in [*SUBJECTS] * 20], first=900)
    topic = found_topics().of(later)
    expected = {SUBJECT[typical[0]]: name for name, typical in found_topics().frame[["topic", "typical"]].to_numpy()}
    assert topic.to_list() == [expected[subject] for subject in [*SUBJECTS] * 20]
    strange = turns_of([["a recipe for banana bread"], ["who won the football cup"], ["is it"], [None], [""], ["4711"]])
    assert set(found_topics().of(strange)) == {"other"}
    assert found_topics().of(TURNS[:0]).to_list() == []


def test_sessions_that_fit_nowhere_are_other_and_last() -> None:
    rng = random.Random(4)
    strange = [" ".join("".join(rng.choices("abcdefghij", k=7)) for _ in range(8)) for _ in range(10)]
    both = pd.concat([TURNS, turns_of([[text] for text in strange], first=500)], ignore_index=True)
    found = ab.topics(both)
    assert found.frame["topic"].iloc[-1] == "other"
    assert found.frame["sessions"].iloc[-1] == 10
    assert set(found.of(both)[-10:]) == {"other"}
    assert list(found.frame["typical"].iloc[-1]) == []


def test_by_topic_works_in_every_analysis_of_turns() -> None:
    turns = ab.with_topics(TURNS, found_topics())
    assert turns.columns.to_list() == [*TURNS.columns, "topic"]
    names = set(found_topics().frame["topic"])
    assert set(ab.latency(turns, by="topic")["topic"]) == names
    assert set(ab.failures(turns, by="topic", kinds=False)["topic"]) == names
    half = (ASKED_AT, ASKED_AT + pd.Timedelta("3h")), (ASKED_AT + pd.Timedelta("3h"), ASKED_AT + pd.Timedelta("6h"))
    changes = ab.compare_periods(turns, a=half[0], b=half[1], by="topic", metric="turns")
    assert set(changes["topic"]) == names
    assert set(ab.plot.latency(turns, by="topic", freq="1h").data["topic"]) <= names | {"other"}
    explorer = ab.Explorer(turns, by="topic")
    explorer.select(groups=[turns["topic"].iloc[0]])
    assert set(explorer.selection["topic"]) == {turns["topic"].iloc[0]}
    explorer.close()


def test_events_get_topics_too() -> None:
    parts = []
    for session, rows in TURNS.groupby("session_id"):
        items = [
            {
                "id": f"019a0b1c-{number:04x}-7000-8000-{int(session[1:]):012x}", "type": "message",
                "content": {"text": prompt}, "author": {"type": "user", "id": "u1"},
                "created_at": f"2026-10-05T08:0{number}:00Z",
            }
            for number, prompt in enumerate(rows["prompt"])
        ]  # fmt: skip
        parts.append(to_frame("events", [json.dumps({"items": items}).encode()], context={"session_id": session}))
    events = pd.concat(parts)
    labelled = ab.with_topics(events, found_topics())
    assert labelled["topic"].to_list() == found_topics().of(TURNS).to_list()
    assert labelled["text"].to_list() == TURNS["prompt"].to_list()
    assert set(ab.activity(labelled, "1D", by="topic")["topic"]) == set(found_topics().frame["topic"])
    pd.testing.assert_frame_equal(ab.topics(events).frame, found_topics().frame)


def test_a_file_gives_the_same_topics_back(tmp_path: Path) -> None:
    strange = pd.concat([TURNS, turns_of([["zq vw"], [None]], first=700)], ignore_index=True)
    for found in (found_topics(), ab.topics(strange)):
        loaded = ab.Topics.load(found.save(tmp_path / "topics.json"))
        pd.testing.assert_frame_equal(loaded.frame, found.frame)
        assert loaded.of(strange).equals(found.of(strange))
    for text in ("", "{}", "[1]", '{"terms": 1}', "\xff"):
        (tmp_path / "wrong.json").write_text(text, "latin-1")
        with pytest.raises(ValueError, match=r"wrong\.json is not a file of topics"):
            ab.Topics.load(tmp_path / "wrong.json")
    with pytest.raises(FileNotFoundError):
        ab.Topics.load(tmp_path / "missing.json")


def test_a_notebook_shows_a_table_that_nothing_in_a_question_can_change() -> None:
    attack = "<script>alert(1)</script> \u202eevil $x$ payload"
    found = ab.topics(turns_of([[attack]] * 12 + [["where is my parcel"]] * 12))
    page = found._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert "\u202e" not in page
    assert "2 topics in 24 sessions" in page
    assert repr(found) == "<Topics: 2 topics in 24 sessions>"


# -- embeddings, and an agent that names


ORDERS = ["wo ist meine bestellung", "lieferung kommt nicht", "paket fehlt noch", "bestellung ist spät"]
KNOWN = {**SUBJECTS, "orders": [*SUBJECTS["orders"], *" ".join(ORDERS).split()]}


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors that know what a text is about, in both languages."""
    counts = [[float(sum(word in KNOWN[name] for word in words_of(text))) for name in KNOWN] for text in texts]
    return [[*row, 0.01 * (number % 7)] for number, row in enumerate(counts)]


def test_embeddings_join_what_shares_no_word() -> None:
    rng = random.Random(3)
    german = turns_of([rng.sample(ORDERS, 2) for _ in range(30)], first=500)
    both = pd.concat([TURNS, german], ignore_index=True)
    subject = pd.concat([SUBJECT, pd.Series("orders", german["session_id"].unique())])
    by_words, by_meaning = (
        pd.crosstab(topic_of_session(ab.topics(both, k=4, embeddings=given), both), subject) for given in (False, embed)
    )
    assert (by_meaning > 0).sum().sum() == 4
    assert (by_words > 0).sum().sum() > 4
    found = ab.topics(both, embeddings=embed)
    later = turns_of([["wo ist mein paket"], ["where is my parcel"]], first=900)
    assert found.of(later).nunique() == 1


def test_what_is_embedded_is_masked_and_sent_once_by_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def request(url: str, model: str, texts: Sequence[str]) -> list[list[float]]:
        assert len(texts) <= 100
        sent.extend(texts)
        return embed(texts)

    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("agentbook.frames.analysis.embeddings._request", request)
    turns = TURNS.assign(prompt=TURNS["prompt"] + " from ada@acme.test " + TURNS["session_id"])
    assert len(ab.topics(turns, embeddings=True).frame) == 4
    assert len(sent) == len(set(sent)) == turns["session_id"].nunique()
    assert "ada@" not in "".join(sent)


def test_the_endpoint_gets_the_key_and_its_refusal_is_said_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    with RawPlatform() as platform:
        threading.Thread(target=platform.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"{platform.base_url}/")
        ask = embeddings.endpoint()
        assert ask is not None
        body = b'{"data": [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}]}'
        platform.reply = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        assert ask(["a", "b", "a"]) == [[1.0], [2.0], [1.0]]
        assert ask(["b"]) == [[2.0]]
        [request] = platform.requests
        assert b"authorization: bearer s3cret\r\n" in request.lower()
        assert request.startswith(b"POST /v1/embeddings ")
        platform.reply = b"HTTP/1.1 401 No\r\ncontent-length: 6\r\n\r\ns3cret"
        with pytest.raises(embeddings.EmbeddingFailed, match="HTTP 401") as raised:
            ask(["c"])
        assert "s3cret" not in str(raised.value)
        platform.shutdown()


@pytest.mark.parametrize(
    "vectors", [[[1.0]], [[1.0, 2.0], [1.0]] * 100, [["a"]] * 200, None, [[float("nan")]] * 200, [1.0] * 200]
)
def test_vectors_that_are_none_are_said(vectors: Any) -> None:
    with pytest.raises(ValueError, match="embeddings="):
        ab.topics(TURNS, embeddings=lambda texts: vectors)


def test_an_agent_names_topics_from_masked_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    replies: list[str] = []

    def ask(client: Any, workspace: Any, agent: Any, text: str, timeout_s: float) -> Any:
        assert (client, workspace, agent) == ("client", "acme~lab", "namer")
        asked.append(text)
        return SimpleNamespace(text=replies.pop())

    monkeypatch.setattr("agentbook.frames.analysis.topics.ask_first", ask)
    options: Any = {"k": 4, "names": "namer", "client": "client", "workspace": "acme~lab"}
    turns = TURNS.assign(prompt=TURNS["prompt"] + " from ada@acme.test")
    given = ["Late parcels", "Bills & tax", "Sign in", "Builds"]
    replies.append(f'Not ["a", "b"] but:\n```json\n{json.dumps(given)}\n```')
    found = ab.topics(turns, **options)
    assert found.frame["topic"].to_list() == given
    assert set(found.of(turns)) == set(given)
    assert "ada@" not in asked[0]
    assert all(term in asked[0] for terms in found.frame["terms"] for term in terms)
    replies += ["I cannot.", '["a", "a", "b", "c"]', "[1, 2, 3, 4]", '["other", "a", "b", "c"]']
    while replies:
        with pytest.warns(UserWarning, match="4 different names"):
            assert not set(ab.topics(turns, **options).frame["topic"]) & {*given, "a", "other"}


# -- words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where's order A-57256? In KRAKÓW!", "where order in kraków"),
        ("snake_case x1 2026 3.14 a", "snake case x1"),
        ("e\u0301cole ÉCOLE", "école école"),
        ("मेरा ऑर्डर कहाँ है", "मेरा ऑर्डर कहाँ है"),
        ("أين طلبي؟", "أين طلبي"),
        ("请问 API-key 吗", "请问 吗 api key"),
        ("ﬁle Ｗｉｄｅ", "file wide"),
        ('{"build": "5.12.0", "result": "passed"}', "build result passed"),
        ("😀 ~~~ \u200b\x00", ""),
        ("x" * 41, ""),
    ],
)
def test_words_of_any_script(text: str, words: str) -> None:
    assert list(words_of(text)) == words.split()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.none() | st.text(max_size=30), min_size=1, max_size=3), min_size=1, max_size=25))
def test_any_texts_have_topics(questions: list[list[str | None]]) -> None:
    turns = turns_of(questions)
    found = ab.topics(turns)
    assert set(found.of(turns)) == set(found.frame["topic"])
    assert found.frame["sessions"].sum() == len(questions)


# -- bad input


@pytest.mark.parametrize(
    ("questions", "sizes"),
    [
        ([["where is my order"]], [1]),
        ([["where is my order"]] * 30, [30]),
        ([["where is my order"]] * 30 + [["unlock the account"]] * 20, [30, 20]),
        ([["word " * 200_000]] * 12 + [["late parcels"]] * 12 + [["x" * 1_000_000]], [12, 12, 1]),
        ([["late parcels", None], [None]], [1, 1]),
    ],
)
def test_few_equal_and_long_texts(questions: list[list[str | None]], sizes: list[int]) -> None:
    assert ab.topics(turns_of(questions)).frame["sessions"].to_list() == sizes


def test_texts_that_utf_8_cannot_encode_are_read() -> None:
    turns = turns_of([["late parcel"]] * 3)
    turns["prompt"] = pd.Series(["late \ud800 parcel"] * 3, dtype=object)
    assert ab.topics(turns).frame["sessions"].to_list() == [3]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (TURNS.drop(columns="prompt"), {}, r"no column 'prompt': ab\.turns\(events, texts=True\)"),
        (TURNS.drop(columns="session_id"), {}, "'session_id'"),
        (TURNS, {"k": 0}, "number of topics, or 'auto', not 0"),
        (TURNS, {"k": "all"}, "number of topics, or 'auto', not 'all'"),
        (TURNS, {"k": True}, "number of topics"),
        (TURNS, {"k": 2.5}, "number of topics"),
        (TURNS[:3], {"k": 1000}, "1,000 groups"),
        (TURNS, {"seed": -1}, "seed"),
        (TURNS, {"seed": None}, "seed"),
        (TURNS, {"names": "guide"}, "client= and workspace="),
        (TURNS, {"embeddings": True}, "OPENAI_BASE_URL"),
        (TURNS.assign(step="a", started_at=ASKED_AT, duration_s=1.0), {}, "steps have none"),
    ],
)
def test_what_is_wrong_is_said(data: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ab.topics(data, **options)


def test_nothing_to_group_is_a_warning() -> None:
    with pytest.warns(ab.errors.EmptyWarning, match="no rows"):
        assert ab.topics(TURNS[:0]).frame.empty
    with pytest.warns(ab.errors.EmptyWarning, match="no question has a word"):
        found = ab.topics(turns_of([[None], ["4711"], ["😀"]]))
    assert found.frame[["topic", "sessions"]].to_numpy().tolist() == [["other", 3]]
    with pytest.raises(TypeError, match=r"ab\.topics\(history\), not a DataFrame"):
        ab.with_topics(TURNS, found_topics().frame)  # type: ignore[arg-type]


def test_a_sample_decides_and_every_session_has_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentbook.frames.analysis import topics as module

    monkeypatch.setattr(module, "FITTED", 120)
    monkeypatch.setattr(module, "TRIED", 60)
    monkeypatch.setattr(module, "CHUNK", 7)
    turns, subject = planted(600, 8)
    found = ab.topics(turns)
    assert found.frame["sessions"].sum() == 600
    agreement = pd.crosstab(topic_of_session(found, turns), subject)
    assert np.asarray(agreement.max(axis=1)).sum() >= 590
