"""A history without the people in it: pseudonyms, masked texts, and other times.

Ids are collected first, because texts and payloads name them too. A pseudonym is an
HMAC of what it stands for, so it is the same everywhere, and without the key nobody can
test a guess. Pseudonyms of UUIDv7s are UUIDv7s in the same order, because turns and
steps read the times in them.
"""

from __future__ import annotations

import hmac
import re
import secrets
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pandas as pd

from ..._masking import HIDDEN_PART, NO_HOST, is_secret, is_secret_name, mask, mask_text
from ...api.record import UNREADABLE, read_value
from ...api.span import is_persisted, milliseconds_of, normalize, parse_length
from ...events.turns import parse_moment
from ..analysis.turn_details import FIELDS
from ..analysis.turns import read_events
from ..parse.schemas import SCHEMAS, STR
from ..tabular import to_strings
from .history import History

TEXTS = ("mask", "drop", "keep")
NAMES = ("agents", "workspaces")
# What nothing here can find.
NOT_PROMISED = (
    ("texts", "names of people and firms that are not names in this history, or have fewer than three letters"),
    ("texts", "addresses, dates, local phone numbers, and other words that tell who wrote them"),
    ("arguments and results", "names of people that are not names in this history"),
    ("times", "weekdays, gaps and lengths stay, so who knows one event can find the others"),
    ("counts", "sizes, models, costs and tokens stay"),
)
_UUID = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9a-fA-F])")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_WORD = re.compile(r"\w+")
_IDS = {"id", "ids", *FIELDS["call"], *FIELDS["parent"]}
_TIMES = {*FIELDS["started_at"], *FIELDS["ended_at"], "timestamp", "time"}
_CONTENTS = {*FIELDS["arguments"], *FIELDS["result"]}
_STRUCTURE = {*FIELDS["name"], *FIELDS["kind"], *FIELDS["state"]}  # without it, there are no steps
_PERSONAL = re.compile(
    "(?i)((user|owner|creator|author|initiator|member|person|maintainer|invitee|customer|employee|sender|recipient)"
    "(_?name)?|login|(first|last|full|display)_?name|(created|updated|archived|published)_by)"
)
# The columns of names, and what they name; those of events and sessions may be keys'.
_NOUNS = ("workspace", "agent", "session", "credential")
_NAMED = {(f"{noun}s", column): noun for noun in _NOUNS for column in ("name", "full_name")}
_NEUTRAL = ("params_fingerprint", "latest_version")
_DERIVED = ("workspace", "agent", "session", "initiator")  # what a history adds itself


def anonymize(
    history: History,
    *,
    texts: str = "mask",
    shift: str | timedelta | None = None,
    key: str | bytes | None = None,
    names: Iterable[str] = ("agents",),
) -> History:
    """The history with pseudonyms for people and ids, masked texts and other times.

    Analyses, reports, charts and the Explorer give the same counts and lengths.

    Parameters
    ----------
    history : History
        It is not changed.
    texts : str
        What becomes of texts, arguments and results. ``"mask"`` (default) replaces what
        is secret by its form (e-mail addresses, keys, passwords, numbers of cards, bank
        accounts and phones) and the names and ids of this history. ``"drop"`` leaves
        ``[…]`` of texts, but for the messages of failures, which are masked; and of
        arguments and results, the names of fields and the lengths of values.
        ``"keep"`` replaces only names and ids.
    shift : str or timedelta, optional
        How far back all times move, such as ``"90d"``; ``"0d"`` leaves them.
        Default: a number of whole weeks, from one to ten years, that the key decides.
        Weekdays and hours in UTC then stay; where clocks change in summer, local hours
        may differ by one.
    key : str or bytes, optional
        A secret of 16 characters or more: histories with the same key get the same
        pseudonyms and can be joined. Who has it can find whom a pseudonym stands for.
        Default: a random one that nobody keeps.
    names : iterable of str
        Names that stay: ``"agents"`` (default), ``"workspaces"``. Agents keep theirs
        because they say what an agent is for, not who used it; their owners do not.

    Returns
    -------
    History
        Its ``anonymized`` is a table of what was done, one row per place:

        ======== ======== ============================================================
        column   dtype    meaning
        ======== ======== ============================================================
        where    str      frame and column, such as ``events.text``
        what     str      such as ``an e-mail address``, ``ids`` or ``names``
        how      str      ``masked``, ``replaced``, ``shifted``, ``dropped``; or ``not
                          promised``: what nothing here can find
        count    Int64    different values; null for what is not promised
        ======== ======== ============================================================

    Raises
    ------
    TypeError
        If `history` is something else.
    ValueError
        If an argument is unknown, `shift` is no length of time or leads to before 1970,
        or `key` is shorter than 16 characters.

    Notes
    -----
    Nobody can promise that texts name nobody: read ``history.anonymized`` and some
    texts before you share a history. Specification: "Resources and their fields".

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> shared = ab.anonymize(history)
    >>> len(shared.turns) == len(history.turns)
    True
    >>> set(shared.events["session_id"]) & set(history.events["session_id"])
    set()
    """
    if not isinstance(history, History):
        raise TypeError(
            f"anonymize needs a History, not a {type(history).__name__}: ab.load_history(client) loads one, and "
            "ab.History(events) makes one of events."
        )
    if texts not in TEXTS:
        raise ValueError(f"texts must be one of {', '.join(TEXTS)}, not {texts!r}.")
    kept = {names} if isinstance(names, str) else set(names)
    if unknown := sorted(map(str, kept - set(NAMES))):
        raise ValueError(f"names= can keep those of {' and '.join(NAMES)}, not of {unknown[0]}.")
    secret = secrets.token_bytes(32) if key is None else key.encode() if isinstance(key, str) else bytes(key)
    if len(secret) < 16:
        raise ValueError("key must have 16 characters or more, so that nobody can guess it.")
    weeks = 52 + int.from_bytes(hmac.digest(secret, b"weeks", "sha256")[:4]) % 470
    moved = timedelta(weeks=weeks) if shift is None else parse_length(shift, "shift")
    return _Anonymizer(history, texts, moved // timedelta(milliseconds=1), secret, kept).run()


class _Anonymizer:
    def __init__(self, history: History, texts: str, shift_ms: int, key: bytes, kept: set[str]) -> None:
        self._history, self._texts, self._shift_ms, self._key, self._kept = history, texts, shift_ms, key, kept
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._fields: dict[str, str] = {}  # of payloads
        self._patterns: dict[str, list[tuple[str, re.Pattern[str], str]]] = {}  # by first word, for texts
        self._done: Counter[tuple[str, str, str]] = Counter()
        self._where = ""

    def run(self) -> History:
        history = self._history
        frames = {
            "events": history._loaded.drop(columns=[*_DERIVED], errors="ignore"),
            "sessions": history._all_sessions.drop(columns=[*_DERIVED], errors="ignore"),
            "workspaces": history.workspaces,
            "agents": history.agents,
            "credentials": history.credentials.drop(columns="owner_name", errors="ignore"),
            "contexts": history.contexts.drop(columns=[*_DERIVED], errors="ignore"),
        }
        self._collect(frames)
        columns = read_events(frames["events"], caller="anonymize")
        # Their texts say why a turn failed.
        failing = frames["events"]["id"].isin(columns.events["id"].iloc[list(columns.failures)]).to_numpy(bool)
        made = {name: self._frame(name, frame, failing) for name, frame in frames.items()}
        result = History(
            made.pop("events"),
            **made,
            account=None if history.account is None else self._account(history.account),
            since=self._earlier(history.since),
            until=self._earlier(history.until),
            missing={self._text(part): self._text(reason) for part, reason in history.missing.items()},
            tz=history.tz,
        )
        result._parts = [self._names.get(part) or self._text(part) for part in history._parts]
        rows: list[Any] = [(*place, count) for place, count in sorted((+self._done).items())]
        rows += [(*place, "not promised", None) for place in NOT_PROMISED]
        dtypes: dict[str, Any] = {"where": STR, "what": STR, "how": STR, "count": "Int64"}
        result.anonymized = pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)
        return result

    # -- pseudonyms -------------------------------------------------------------------

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "replace"), "sha256")

    def _id(self, value: str) -> str:
        value = normalize(value)
        if value not in self._ids:
            number = int.from_bytes(self._digest(value)[:16])
            if is_persisted(value):
                moment = milliseconds_of(value) - self._shift_ms
                if moment < 0:
                    raise ValueError("shift leads to times before 1970: pass a shorter one, such as shift='1d'.")
                chance = (number >> 64 & 0xFFF) << 64 | number & (1 << 62) - 1
                self._ids[value] = str(uuid.UUID(int=moment << 80 | 7 << 76 | 2 << 62 | chance))
            elif _UUID.fullmatch(value):
                self._ids[value] = str(uuid.UUID(int=number, version=4))
            else:
                self._ids[value] = f"id-{number:032x}"[:19]
        return self._ids[value]

    def _name(self, value: str, noun: str) -> str:
        if f"{noun}s" in self._kept:
            return value
        return self._names.setdefault(value, f"{noun}-{self._digest(value).hex()[:8]}")

    def _full_name(self, value: str, noun: str) -> str:
        owner, separator, name = value.rpartition("~")
        return f"{self._name(owner, 'account')}~{self._name(name, noun)}" if separator else self._name(value, noun)

    def _account(self, value: str) -> str:
        return self._id(value) if normalize(value) in self._ids else self._name(value, "account")

    def _collect(self, frames: dict[str, pd.DataFrame]) -> None:
        """Give all ids and names their pseudonyms."""
        for frame in frames.values():
            for column in filter(_holds_ids, map(str, frame)):
                for value in to_strings(frame[column]).dropna().unique():
                    self._id(value)
        self._keep_order(frames["events"])
        for resource, frame in frames.items():
            for column in map(str, frame):
                self._names_of(resource, frame, column)
        full_names = {name: self._full_name(name, "workspace") for name in frames["workspaces"]["full_name"].dropna()}
        for name, pseudonym in {**self._ids, **self._names, **full_names}.items():
            # A word such as "support" names a workspace here, and much else in texts.
            is_plain_word = pseudonym.startswith(("workspace-", "agent-", "credential-")) and name.isalpha()
            if _UUID.fullmatch(name) or is_plain_word or pseudonym.startswith("session-") or not _can_be_found(name):
                continue
            words = _WORD.findall(name.casefold()) or [""]
            pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
            self._patterns.setdefault(words[0], []).append((name, pattern, pseudonym))

    def _keep_order(self, events: pd.DataFrame) -> None:
        """Swap pseudonyms within a millisecond: events are read in order of ids."""
        table = pd.DataFrame({"session": events["session_id"], "id": events["id"].map(normalize, na_action="ignore")})
        table = table[table["id"].map(is_persisted).to_numpy(bool)].drop_duplicates()
        table["new"] = table["id"].map(self._ids)
        new = table.sort_values(["session", "new"])["new"]
        self._ids.update(zip(table.sort_values(["session", "id"])["id"], new, strict=True))

    def _names_of(self, resource: str, frame: pd.DataFrame, column: str) -> Callable[[str], str] | None:
        """What makes pseudonyms of a column of names; they are known afterwards."""
        if column in ("author_name", "initiator_name"):
            kinds = frame.get(column.replace("name", "type"), pd.Series(None, frame.index, dtype=STR))
            pairs = {*zip(to_strings(frame[column]).fillna(""), to_strings(kinds).fillna("").str.lower(), strict=True)}
            # Where an agent has the name of a person, it is the person's.
            ordered = sorted(pairs, key=lambda pair: ("agent" not in pair[1], pair))
            known = {name: self._person(name, kind) for name, kind in ordered if name}
            return lambda name: known.get(name, name)
        if column == "owner_name":
            noun, make = "account", self._name
        elif (resource, column) in _NAMED:
            noun, make = _NAMED[resource, column], self._full_name if column == "full_name" else self._name
        else:
            return None
        for name in to_strings(frame[column]).dropna().unique():
            make(name, noun)
        return lambda name: make(name, noun)

    def _person(self, name: str, kind: str) -> str:
        if "agent" in kind:
            return self._full_name(name, "agent")
        return self._name(name, "key" if "key" in kind else "person")

    # -- frames -----------------------------------------------------------------------

    def _frame(self, resource: str, frame: pd.DataFrame, failing: Any) -> pd.DataFrame:
        kinds = {column.name: column.kind for column in SCHEMAS[resource].columns}
        columns: dict[Any, Any] = {}
        for name in map(str, frame):
            self._where = f"{resource}.{name}"
            column, kind = frame[name].reset_index(drop=True), kinds.get(name, "")
            if isinstance(column.dtype, pd.DatetimeTZDtype) or column.dtype.kind == "M":
                column = column - pd.Timedelta(self._shift_ms, "ms")
                self._done[self._where, "times", "shifted"] += column.nunique()
            elif pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
                pass
            elif any(map(pd.api.types.is_list_like, column.array)):
                items: Any = [self._item(value, name) for value in column.array.tolist()]
                column = pd.Series(items, dtype=column.dtype)
            elif (kind not in ("enum", "label") or name.endswith("_name")) and name not in _NEUTRAL:
                change = self._change_of(resource, frame, name, kind)
                column = self._mapped(column, change, failing if resource == "events" else None)
            columns[name] = column
        result = pd.DataFrame(columns)
        known = frame.attrs.get("agentbook", {})
        result.attrs["agentbook"] = {name: known[name] for name in ("resource", "complete", "tz") if name in known}
        if loaded_at := parse_moment(str(known.get("loaded_at"))):
            result.attrs["agentbook"]["loaded_at"] = self._earlier(loaded_at).isoformat()
        return result

    def _change_of(self, resource: str, frame: pd.DataFrame, name: str, kind: str) -> Callable[..., str]:
        if is_secret_name(name):
            return lambda value: _hide_json(value) or mask(value)
        if _holds_ids(name):
            return self._counted(self._id, "ids")
        if make := self._names_of(resource, frame, name):
            return self._counted(make, "names")
        if kind == "host":
            return self._counted(
                lambda value: value if value == NO_HOST else f"{self._name(value, 'host')}.test", "hosts"
            )
        return self._json if kind == "json" else self._column_text

    def _counted(self, make: Callable[[str], str], what: str) -> Callable[[str], str]:
        def change(value: str) -> str:
            made = make(value)
            self._done[self._where, what, "replaced"] += made != value
            return made

        return change

    def _mapped(self, column: pd.Series, change: Callable[..., str], failing: Any) -> pd.Series:
        """A column of strings, each different one changed once; failures keep why."""
        values = to_strings(column)
        takes_mode = change in (self._json, self._column_text)
        if takes_mode and self._texts == "drop" and failing is not None:
            reasons = {value: change(value, "mask") for value in values[failing].dropna().unique()}
            others = {value: change(value, "drop") for value in values[~failing].dropna().unique()}
            made = values.map(others).where(~failing, values.map(reasons))
        else:
            made = values.map({value: change(value) for value in values.dropna().unique()})
        made = made.astype(STR)
        return made.astype("category") if isinstance(column.dtype, pd.CategoricalDtype) else made

    # -- texts and payloads -----------------------------------------------------------

    def _column_text(self, value: str, mode: str | None = None) -> str:
        if (mode or self._texts) == "drop":
            self._done[self._where, "texts", "dropped"] += 1
            return HIDDEN_PART
        return self._text(value)

    def _text(self, value: str) -> str:
        if self._texts != "keep":
            value, masked = mask_text(value)
            for what in masked:
                self._done[self._where, what, "masked"] += 1
        made = _UUID.sub(lambda match: self._ids.get(match[0].lower(), match[0]), value)
        self._done[self._where, "ids", "replaced"] += made != value
        words = {"", *_WORD.findall(made.casefold())} & self._patterns.keys()
        found = [each for word in words for each in self._patterns[word]]
        for _, pattern, pseudonym in sorted(found, key=lambda each: -len(each[0])):
            made, count = pattern.subn(pseudonym, made)
            self._done[self._where, "names", "replaced"] += bool(count)
        return made

    def _json(self, value: str, mode: str | None = None) -> str:
        if value == "{}":
            return value
        try:
            made = self._value(read_value(value.encode()), "", mode or self._texts)
            return msgspec.json.encode(made).decode()
        except UNREADABLE:
            return self._column_text(value, mode)

    def _value(self, value: Any, key: str, mode: str | None = None, parent: str = "") -> Any:
        mode = mode or self._texts
        if isinstance(value, dict):
            return {
                self._field(name): self._value(mask(member), "", "mask")
                if mode != "keep" and (is_secret(name, member) or (mode == "drop" and name in _CONTENTS))
                else self._value(member, name, mode, key)
                for name, member in value.items()
            }
        if isinstance(value, list):
            return [self._value(item, key, mode, parent) for item in value]
        if isinstance(value, str):
            return self._string(value, key, mode, parent)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if key in _TIMES or key.endswith(("_at", "_time")):  # seconds or milliseconds since 1970
            unit = 1000 if abs(value) < 1e11 else 1
            return value - self._shift_ms / unit if abs(value) > 1e8 else value
        if isinstance(value, float) or abs(value) < 1e12:
            return value
        made = self._text(str(value))  # a card number, say
        return value if made == str(value) and abs(value) < 1 << 63 else made

    def _item(self, value: Any, name: str) -> Any:
        is_list = pd.api.types.is_list_like(value) and not isinstance(value, dict)
        return self._value(list(value), name) if is_list else self._value(value, name)

    def _field(self, name: str) -> str:
        if name not in self._fields:
            self._fields[name] = self._text(name)
        return self._fields[name]

    def _string(self, value: str, key: str, mode: str, parent: str) -> str:
        if mask(value) == value:
            return value
        if key in _IDS or key.endswith(("_id", "_ids", "Id")):
            return self._counted(self._id, "ids")(value)
        # The year 1 says "no time" in Go, and there is none before it.
        if _MOMENT.fullmatch(value) and (moment := parse_moment(value)) and moment.year > 99:
            return str(self._earlier(moment).isoformat()).replace("+00:00", "Z")
        if _PERSONAL.fullmatch(key) or (key == "name" and _PERSONAL.fullmatch(parent)):
            return self._counted(lambda name: self._name(name, "person"), "names")(value)
        return mask(value) if mode == "drop" and key not in _STRUCTURE else self._text(value)

    def _earlier(self, moment: Any) -> Any:
        return None if moment is None else moment - timedelta(milliseconds=self._shift_ms)


def _holds_ids(column: str) -> bool:
    return column in ("id", "agent_version") or column.endswith("_id")


def _can_be_found(name: str) -> bool:
    """Whether a name or an id is more than a syllable, which stands in other words."""
    return len(name) > 2 or (len(name) == 2 and not (name.isascii() and name.isalpha()))


def _hide_json(text: str) -> str | None:
    """JSON with masked values; None if it is not an object."""
    try:
        value = read_value(text.encode())
    except UNREADABLE:
        return None
    made: bytes = msgspec.json.encode(mask(value))
    return made.decode() if isinstance(value, dict) else None
