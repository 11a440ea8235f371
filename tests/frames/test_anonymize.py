"""An anonymized history: nothing of the original in it, and the same counts."""

from __future__ import annotations

import functools
import io
import json
import pickle
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pandas as pd
import pytest

import agentbook as ab
from agentbook.frames.parse.frame import to_frame
from support.fake_platform.core import event_id

KEY = "a key of sixteen characters"
MINUTE = 60_000
PERSON, OTHER, ROBOT = "Zdenka Quillfeather", "Bartholomew", "nightly-zkey"
ACCOUNT, DESK = "zyxcorp", "qfdesk-7"
FULL_WIDTH = "ｚｄｅｎｋａ＠ｚｙｘ．ｔｅｓｔ"
MAILS = ["zdenka@zyx.test", "bart@zyx.test", "owner@zyx.test", "creator@zyx.test"]
WORKSPACE_ID, AGENT_ID, OTHER_ID, OWNER_ID = (f"0199{n:04x}-0000-7000-8000-00000000abcd" for n in range(1, 5))
PERSON_ID, ROBOT_ID, SESSION_IDS = (
    "usr_zq81",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    [event_id(n, 7) for n in range(5)],
)
CALL, HOST, CARD = "call_zq55", "hooks.zyx.test", 4111111111111111
OWNER = {"id": OWNER_ID, "name": ACCOUNT, "type": "organization"}
CREATOR = {"id": PERSON_ID, "name": PERSON, "email": MAILS[3]}
# What must not be found.
MARKERS = [
    *(PERSON, OTHER, ROBOT, ACCOUNT, DESK, *MAILS, FULL_WIDTH, WORKSPACE_ID, AGENT_ID, OTHER_ID, OWNER_ID),
    *(PERSON_ID, ROBOT_ID, *SESSION_IDS, CALL, HOST, str(CARD), "Ask of Zdenka", "zq-secret", "2026-10-05T08"),
]


def event(number: int, minute: float, kind: str, author: dict[str, Any] | None, content: Any, **others: Any) -> Any:
    at = int(minute * MINUTE)
    moment = (pd.Timestamp("2026-10-05T08:00Z") + pd.Timedelta(at, "ms")).isoformat()
    return {
        "id": event_id(at, number), "type": kind, "author": author, "content": content,
        "created_at": moment, "updated_at": moment, **others,
    }  # fmt: skip


def events() -> pd.DataFrame:
    person = {"id": PERSON_ID, "name": PERSON, "type": "user", "email": MAILS[0]}
    robot = {"id": ROBOT_ID, "name": ROBOT, "type": "api_key"}
    agent = {"id": AGENT_ID, "name": "helper", "type": "agent"}
    arguments = {
        "to": MAILS[1], "name": f"order of {OTHER}", "password": "zq-secret", "card": CARD, "since": "2026-10-05T08:00Z",
        "session": SESSION_IDS[1], OTHER: [f"{{\"mail\":\"{MAILS[2]}\"}}"], "user": "Somebody Else", "big": 1 << 70,
    }  # fmt: skip
    sessions = []
    for number, session in enumerate(SESSION_IDS):
        start = 100.0 * number
        asking = (
            robot if number == 4 else {**person, "id": f"{PERSON_ID}{number % 2}", "name": [PERSON, OTHER][number % 2]}
        )
        task = event_id(int(start * MINUTE), 90)
        sub = {"task_id": event_id(int((start + 0.1) * MINUTE), 91)}
        text = f"I am {PERSON.lower()} ({MAILS[0]}, {FULL_WIDTH}) of {ACCOUNT}~{DESK}: see {SESSION_IDS[0].upper()}."
        run = {"tool": "find_order", "tool_call_id": CALL, "arguments": arguments, "started_at": "2026-10-05T08:00:05Z"}
        rows = [
            event(
                1, start, "message", asking, {"text": text if number else "Hello, the invoice is late"}, task_id=task
            ),
            event(2, start + 0.1, "tool_call", agent, run, **sub),
            event(3, start + 0.1, "tool_result", agent, {"tool_call_id": CALL, "result": [text], "duration": 3}, **sub),
            event(
                4, start + 0.2, "note", agent, {"nested": {"parent": CALL, "by": CREATOR}}, metadata={"user": PERSON}
            ),
        ]
        if number == 2:
            failure = {"status": 429, "message": f"exceeded LLM token limit for this execution tree of {PERSON}"}
            rows.append(event(5, start + 0.5, "runtime_error", agent, failure, task_id=task))
        elif number != 3:
            usage = {"total_tokens": 12, "cost": 0.5}
            reply = {"text": f"Dear {OTHER}, done.", "usage": usage}
            rows.append(event(5, start + 1 + number, "runtime_done", agent, reply, task_id=task, usage=usage))
        page = json.dumps({"items": rows}).encode()
        sessions.append(to_frame("events", [page], context={"session_id": session}))
    table = pd.concat(sessions, ignore_index=True)
    table["author_name"] = table["author_name"].astype("category")
    table["customer"] = pd.Series([OTHER] * len(table), dtype="str")  # a column of the user's
    problems = [{"row": 0, "field": "x", "problem": "odd", "raw": PERSON}]
    table.attrs["agentbook"] = {
        "resource": "events", "operation": f"load_events {MAILS[0]}", "loaded_at": "2026-10-06T08:00:00+00:00",
        "problems": problems, "parameters": {"sessions": SESSION_IDS},
    }  # fmt: skip
    return table


def frame(resource: str, *items: Any) -> pd.DataFrame:
    return to_frame(resource, [json.dumps({"items": items}).encode()])


def history() -> ab.History:
    times = {"created_at": "2026-10-05T08:00:00Z", "updated_at": "2026-10-05T09:00:00Z"}
    sessions = [
        {
            "id": session.upper() if number == 1 else session, "workspace_id": WORKSPACE_ID, "agent_id": AGENT_ID,
            "initiator_id": PERSON_ID,
            "initiator": {"id": PERSON_ID, "name": PERSON, "type": "user", "email": MAILS[0]},
            "name": f"Ask of Zdenka {number}", "agent_version_id": OTHER_ID, **times,
        }
        for number, session in enumerate(SESSION_IDS)
    ]  # fmt: skip
    return ab.History(
        events(),
        frame("sessions", *sessions),
        workspaces=frame(
            "workspaces",
            {"id": WORKSPACE_ID, "name": DESK, "full_name": f"{ACCOUNT}~{DESK}", "owner": OWNER, "creator": CREATOR,
             "creator_id": PERSON_ID, "description": f"of {PERSON}", **times},
        ),
        agents=frame(
            "agents",
            {"id": AGENT_ID, "name": "helper", "full_name": f"{ACCOUNT}~helper", "owner": {**OWNER, "email": MAILS[2]},
             "description": f"Answers {OTHER}.", "tags": ["orders", OTHER], "maintainer_id": OTHER_ID, **times},
        ),
        credentials=frame(
            "credentials",
            {"id": OTHER_ID, "name": f"key of {PERSON}", "owner_id": PERSON_ID, "creator": CREATOR,
             "params": {"token": "zq-secret"}, "webhook_url": f"https://{HOST}/x?y=1",
             "policy_resources": [{"id": WORKSPACE_ID, "name": f"{ACCOUNT}~{DESK}"}, PERSON_ID], **times},
        ),
        contexts=frame(
            "contexts",
            {"id": OTHER_ID, "workspace_id": WORKSPACE_ID, "task_id": SESSION_IDS[0], "summary": f"{PERSON} asked",
             "status": "DRAFT", "generated_context": f"Write to {MAILS[0]}.", "task": {"user": OTHER}, **times},
        ),
        account=OWNER_ID,
        missing={f"session {SESSION_IDS[3]}": f"refused for {PERSON}"},
    )  # fmt: skip


HISTORY = history()


@functools.cache
def anonymized(texts: str = "mask") -> ab.History:
    return ab.anonymize(HISTORY, texts=texts, key=KEY)


def saved(made: ab.History, folder: Path) -> bytes:
    """Everything that leaves with a history: its pickle, files and texts."""
    parts = [pickle.dumps(made), repr(made).encode(), made._repr_html_().encode(), str(made.missing).encode()]
    for name in (
        "events",
        "turns",
        "turn_events",
        "sessions",
        "workspaces",
        "agents",
        "credentials",
        "contexts",
        "anonymized",
    ):
        table = getattr(made, name)
        buffer = io.BytesIO()
        table.to_parquet(buffer, compression=None)
        parts += [buffer.getvalue(), pickle.dumps(table), table.to_csv().encode(), json.dumps(table.attrs).encode()]
        parts.append(ab.export(table, folder / f"{name}.jsonl").read_bytes())
    return b"\n".join(parts)


@pytest.mark.parametrize("texts", ["mask", "drop"])
def test_nothing_of_the_original_is_in_what_is_passed_on(texts: str, tmp_path: Path) -> None:
    original = saved_of_original(tmp_path)
    assert [marker for marker in MARKERS if forms(marker)[0] not in original] == [], "a marker that is nowhere"
    whole = saved(anonymized(texts), tmp_path).lower()
    assert [marker for marker in MARKERS if any(form.lower() in whole for form in forms(marker))] == []


def saved_of_original(tmp_path: Path) -> bytes:
    HISTORY.anonymized = pd.DataFrame()
    try:
        return saved(HISTORY, tmp_path) + json.dumps(SESSION_IDS).encode() + b"zq-secret"
    finally:
        HISTORY.anonymized = None


def forms(marker: str) -> list[bytes]:
    return [marker.encode(), json.dumps(marker)[1:-1].encode(), marker.replace("-", "").encode()]


def test_keeping_texts_replaces_ids_and_names_in_them(tmp_path: Path) -> None:
    whole = saved(anonymized("keep"), tmp_path).lower()
    names = [PERSON, OTHER, ROBOT, ACCOUNT, DESK, WORKSPACE_ID, PERSON_ID, ROBOT_ID, *SESSION_IDS, CALL, HOST]
    assert [marker for marker in names if any(form.lower() in whole for form in forms(marker))] == []
    assert MAILS[1].encode() in whole


NUMBERS: dict[str, Callable[[ab.History], pd.DataFrame]] = {
    "turns": lambda given: given.turns.assign(prompt_chars=0, reply_chars=0),
    "steps": ab.steps,
    "latency": lambda given: ab.latency(given, by="agent"),
    "failures": lambda given: ab.failures(given, by="agent"),
    "usage": ab.usage,
    "summary": lambda given: ab.session_summary(given).assign(prompt_chars=0, reply_chars=0),
    "activity": lambda given: ab.activity(given, freq="h"),
    "hours": ab.hour_of_week,
    "authors": lambda given: ab.authors(given).sort_values(["turns", "failed"], ignore_index=True),
    "timing": ab.timing,
    "credentials": lambda given: ab.credential_report(given.credentials, given.workspaces),
    "contexts": ab.context_status,
}


@pytest.mark.parametrize(("name", "texts"), list(zip(NUMBERS, ["mask", "drop", "keep"] * 4, strict=True)))
def test_every_analysis_gives_the_same_numbers(name: str, texts: str) -> None:
    expected, found = (NUMBERS[name](given) for given in (HISTORY, anonymized(texts)))
    kinds = [column for column in ("status", "failure", "kind", "tool", "matched_by") if column in expected]
    kinds += [column for column, dtype in expected.dtypes.items() if dtype.kind in "biufm" or str(dtype) == "Int64"]
    assert len(expected) > 0
    assert kinds
    pd.testing.assert_frame_equal(found[kinds], expected[kinds])


def test_steps_keep_their_calls_and_the_explorer_its_turns() -> None:
    made = anonymized()
    assert ab.steps(made)[["name", "status"]].equals(ab.steps(HISTORY)[["name", "status"]])
    arguments = json.loads(ab.steps(made)["arguments"][0])
    assert (arguments["to"], arguments["card"], arguments["password"]) == ("[…]", "[…]", "<string, 9 characters>")
    assert re.fullmatch(r"person-[0-9a-f]{8}", arguments["user"])
    assert len(ab.Explorer(made).selection) == len(HISTORY.turns)


@pytest.mark.parametrize("texts", ["mask", "keep"])
def test_topics_and_scores_are_the_same(texts: str) -> None:
    made, checks = anonymized(texts), {"long": ab.checks.length(min=3), "short": ab.checks.length(max=1)}
    assert ab.topics(made, k=1).frame["sessions"].to_list() == ab.topics(HISTORY, k=1).frame["sessions"].to_list()
    kept = ["check", "passed", "score"]
    pd.testing.assert_frame_equal(ab.score(made, checks)[kept], ab.score(HISTORY, checks)[kept])


def test_columns_of_lists_and_of_objects_are_read_too() -> None:
    table = events()
    values: list[Any] = [[MAILS[0]], {"user": OTHER, "id": PERSON_ID}, PERSON, None, 3, {PERSON}]
    table["notes"] = pd.Series((values * len(table))[: len(table)], dtype=object)
    notes = ab.anonymize(ab.History(table)).events["notes"]
    assert not any(marker in str(notes.to_list()) for marker in (PERSON, OTHER, MAILS[0]))
    assert [notes[0], notes[3], notes[4]] == [["[…]"], None, 3]


def test_a_person_with_the_name_of_an_agent_gets_a_pseudonym() -> None:
    table = events()
    table["author_name"] = table["author_name"].astype("str").replace("helper", PERSON)
    assert PERSON not in str(ab.anonymize(ab.History(table)).events["author_name"].to_list())


def test_pseudonyms_are_the_same_everywhere_and_with_the_same_key() -> None:
    made, again, other = anonymized(), ab.anonymize(HISTORY, key=KEY.encode()), ab.anonymize(HISTORY)
    pd.testing.assert_frame_equal(made.events, again.events)
    assert not set(made.events["session_id"]) & set(other.events["session_id"])
    person = made.sessions["initiator_name"].iloc[0]
    assert person in made.turns["author"].iloc[0]
    assert person in made.turns["prompt"].iloc[2]
    assert set(made.events["session_id"]) == set(made.sessions["id"].str.lower())
    assert set(made.events["workspace"]) == set(made.workspaces["full_name"])
    assert set(made.turns["agent"]) == {"helper"}
    assert made.where(agent="helper").anonymized is made.anonymized
    part = ab.anonymize(HISTORY.where(since="2026-10-05T11:00Z"), key=KEY)
    assert set(part.sessions["id"]) < set(made.sessions["id"])


def test_events_stay_in_order_even_within_a_millisecond() -> None:
    ids = [f"0199a0b2-0000-7000-8000-{number:012x}" for number in range(40)]
    moment = "2026-10-05T08:00:00Z"
    items = [
        {"id": name, "type": "message", "author": {"type": "user"}, "content": {"text": f"{n}"}, "created_at": moment}
        for n, name in enumerate(ids)
    ]
    table = to_frame("events", [json.dumps({"items": items}).encode()], context={"session_id": "s1"})
    made = ab.anonymize(ab.History(table))
    assert made.events["id"].is_monotonic_increasing
    assert made.turns["prompt"].to_list() == [f"{n}" for n in range(40)]


def test_times_move_by_one_length_and_keep_the_weekday() -> None:
    made = anonymized()
    moved = (HISTORY.events["created_at"] - made.events["created_at"]).unique()
    assert len(moved) == 1
    assert moved[0] % pd.Timedelta("7D") == pd.Timedelta(0)
    assert moved[0] >= pd.Timedelta("364D")
    assert (HISTORY.events["at"] - made.events["at"] == moved[0]).all()
    assert (made.events["created_at"] - made.events["at"]).equals(HISTORY.events["created_at"] - HISTORY.events["at"])
    assert pd.Timestamp(made.events.attrs["agentbook"]["loaded_at"]) == pd.Timestamp("2026-10-06T08:00Z") - moved[0]
    assert ab.anonymize(HISTORY, shift="0d").events["created_at"].equals(HISTORY.events["created_at"])
    assert ab.steps(made)["started_at"][0] == pd.Timestamp("2026-10-05T08:00:05Z") - moved[0]


def test_names_stay_or_go_as_asked() -> None:
    assert set(ab.anonymize(HISTORY, names=["agents", "workspaces"]).workspaces["name"]) == {DESK}
    made = ab.anonymize(HISTORY, names=())
    assert made.agents["name"].str.fullmatch(r"agent-[0-9a-f]{8}").all()
    assert made.turns["agent"].dropna().str.startswith("agent-").all()


def test_it_says_what_was_done_and_what_was_not() -> None:
    table = anonymized().anonymized
    assert table is not None
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == {
        "where": "str", "what": "str", "how": "str", "count": "Int64",
    }  # fmt: skip
    done = table.set_index(["where", "what"])["count"]
    assert done["events.session_id", "ids"] == len(SESSION_IDS)
    assert done["events.text", "an e-mail address"] > 0
    assert done["events.content", "a card number"] > 0
    assert set(table["how"]) == {"masked", "replaced", "shifted", "not promised"}
    assert (table["count"].isna() == (table["how"] == "not promised")).all()


def test_an_empty_history_stays_one() -> None:
    made = ab.anonymize(ab.History(to_frame("events", [])))
    assert len(made.events) == len(made.turns) == 0


@pytest.mark.parametrize(
    ("given", "arguments", "error", "words"),
    [
        (pd.DataFrame(), {}, TypeError, "History"),
        (HISTORY, {"texts": "hide"}, ValueError, "mask, drop, keep"),
        (HISTORY, {"names": ["people"]}, ValueError, "people"),
        (HISTORY, {"key": "short"}, ValueError, "16 characters"),
        (HISTORY, {"shift": "soon"}, ValueError, "shift"),
        (HISTORY, {"shift": "40000d"}, ValueError, "1970"),
    ],
)
def test_bad_input_is_one_sentence(given: Any, arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ab.anonymize(given, **arguments)


NAMES = [
    "Zoë Müller-Sørensen",
    "Žofie Kučerová",
    "ÇİĞDEM YILDIZ",
    "Мария Фёдорова",
    "Νίκος Παπάς",
    "王小明",
    "田中 太郎",
    "محمد الهاشمي",
]


def spellings(name: str) -> list[str]:
    """A name as texts write it."""
    forms = [
        unicodedata.normalize(form, cased) for form in ("NFC", "NFD") for cased in (name, name.upper(), name.lower())
    ]
    encoded = [
        write(form)
        for form in forms
        for write in (ascii, json.dumps, quote, lambda form: quote(quote(json.dumps(form))),
                      lambda form: f"\\n{json.dumps(form)[1:-1]}")
    ]  # fmt: skip
    joined = [name.replace(" ", gap) for gap in ("", "_", "\u00a0", "\u200b ", "+")]
    return [
        *forms,
        *encoded,
        *joined,
        f"{name}s",
        " ".join(reversed(name.split())),
        *(f"Dr. {part}" for part in name.split()),
    ]


def letters(text: str) -> str:
    """The text decoded, in small letters without marks."""
    for _ in range(3):
        text = unquote(text)
        text = re.sub(r"\\+u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)
    plain = unicodedata.normalize("NFKD", text.replace("İ", "i").replace("ı", "i").casefold())
    return re.sub(r"[\W_]", "", plain.replace("ø", "o"))


def exports(made: ab.History, folder: Path) -> Iterator[str]:
    """What every kind of file says about a history."""
    steps = ab.steps(made)
    for table in (made.events, made.turns, made.workspaces, made.agents, steps):
        yield table.to_json(force_ascii=False, date_format="iso")
        for end in ("csv", "html", "jsonl"):
            yield ab.export(table, folder / f"table.{end}").read_text("utf-8")
        yield pd.read_parquet(ab.export(table, folder / "table.parquet")).to_json(force_ascii=False, date_format="iso")
    for end in ("html", "atif.jsonl", "openai.jsonl"):
        yield ab.export(made, folder / f"history.{end}").read_text("utf-8")
    with zipfile.ZipFile(ab.export(made, folder / "history.xlsx")) as book:
        yield from (book.read(name).decode() for name in book.namelist())


@pytest.mark.parametrize("name", NAMES)
def test_a_known_name_is_found_however_a_text_writes_it(name: str, tmp_path: Path) -> None:
    person, agent = (
        {"id": PERSON_ID, "name": name, "type": "user"},
        {"id": "agent-1", "name": f"{name}'s helper", "type": "agent"},
    )
    rows = []
    for number, text in enumerate(spellings(name)):
        step = {
            "kind": "tool",
            "name": "find",
            "arguments": json.dumps({text: [text]}),
            "result": {"who": json.dumps(text)},
        }
        rows += [
            event(number, 3 * number, "message", person, {"text": f"I am {text}."}),
            event(number, 3 * number + 1, "tool_done", agent, {}, step=step),
            event(number, 3 * number + 2, "runtime_done", agent, {"text": f"{text}, done.", "to": text}),
        ]
    table = to_frame("events", [json.dumps({"items": rows}).encode()], context={"session_id": SESSION_IDS[0]})
    made = ab.anonymize(ab.History(table), key=KEY)
    wanted = {letters(name), *(letters(part) for part in re.split("[ -]", name) if len(part) > 3 or part > "\u2e80")}
    for text in exports(made, tmp_path):
        assert [part for part in wanted if part in letters(text)] == []
    assert len(ab.steps(made)) == len(rows) / 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from 10.20.30.40:8080, not 1.2.3.400", "from […]:8080, not 1.2.3.400"),
        ("[2001:db8::8a2e:370:7334]:443 at 12:30:45", "[[…]]:443 at 12:30:45"),
        ("q=2001%3Adb8%3A%3A77", "q=[…]"),
        ("00:1B:44:11:3A:B7, std::find", "00:1B:44:11:3A:B7, std::find"),
        ("Ask geheimlabor or the Board.", "Ask workspace-* or the Board."),
        ("Marta Holm, holmes", "person-*, person-*"),
        ("martagon", "martagon"),
    ],
)  # fmt: skip
def test_addresses_of_networks_and_short_names_are_found(text: str, expected: str) -> None:
    table = events().assign(text=text, author_name="Marta Holm", author_type="user")
    spaces = frame(
        "workspaces", {"id": WORKSPACE_ID, "name": "geheimlabor", "full_name": "zm~geheimlabor", "owner": OWNER}
    )
    keys = frame("credentials", {"id": OTHER_ID, "name": "Board", "owner_id": PERSON_ID})
    made = ab.anonymize(ab.History(table, workspaces=spaces, credentials=keys))
    assert re.sub(r"(person|workspace)-[0-9a-f]{8}", r"\1-*", made.events["text"][0]) == expected
    kept = ab.anonymize(ab.History(table, workspaces=spaces), texts="keep", names=["agents", "workspaces"])
    assert ("[…]" in kept.events["text"][0], kept.workspaces["name"][0]) == (False, "geheimlabor")


def test_ids_without_dashes_and_of_whole_numbers_are_replaced() -> None:
    given, hashed = SESSION_IDS[0], "5f4dcc3b5aa765d61d8327deb882cf99"
    text = f"{given.replace('-', '')} {given.upper().replace('-', '%2D')} {hashed}"
    table = events().assign(text=text, author_id=17)
    made = ab.anonymize(ab.History(table), key=KEY)
    new = made.events["session_id"][0]
    assert made.events["text"][0] == f"{new.replace('-', '')} {new} {hashed}"
    assert made.events["author_id"].str.match("id-").all()


def test_fields_about_people_are_masked_in_extra() -> None:
    owner = {
        "id": OWNER_ID, "name": "zm", "full_name": "Ingrid Hall", "email_domain": "hall.example", "bio": "Sails.",
        "linkedinUrl": "https://l.test/ingrid", "phone": 47123456, "member_count": 3, "avatar_url": None,
    }  # fmt: skip
    spaces = frame(
        "workspaces",
        {"id": WORKSPACE_ID, "name": "lab", "full_name": "zm~lab", "owner": owner,
         "members": [{"name": "Tor Lund", "city": "Moss"}], "website_url": "https://hall.example", "color": "blue"},
    )  # fmt: skip
    table = events().assign(text="Ingrid Hall and Lund of hall.example", phone=47123456)
    made = ab.anonymize(ab.History(table, workspaces=spaces), texts="keep")
    extra = json.loads(made.workspaces["extra"][0])
    assert extra["members"][0]["name"] in made.events["text"][0]
    assert (extra["owner"]["full_name"] in made.events["text"][0], extra["color"]) == (True, "blue")
    assert (extra["owner"]["member_count"], extra["owner"]["phone"], extra["owner"]["avatar_url"]) == (
        3,
        "<number>",
        None,
    )
    assert not re.search("(?i)ingrid|hall|sails|47123|tor lund|moss", json.dumps(extra) + str(made.events["phone"][0]))
    assert made.anonymized is not None
    assert "data of a person" in set(made.anonymized["what"])
