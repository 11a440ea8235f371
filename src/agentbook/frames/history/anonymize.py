"""A history without the people in it: pseudonyms, masked texts, and other times.

Ids and names are collected first, because texts and payloads hold them too. One pattern
of all of them then reads each text folded, with small letters without marks, and once
more with its escapes decoded, because texts hold JSON and URLs. A pseudonym is an
HMAC of what it stands for, so it is the same everywhere, and without the key nobody can
test a guess. Pseudonyms of UUIDv7s are UUIDv7s in the same order, because turns and
steps read the times in them.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
import os.path
import re
import secrets
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pandas as pd

from ..._masking import HIDDEN_PART, NO_HOST, is_secret, is_secret_name, mask, mask_text
from ...api.record import UNREADABLE, read_value
from ...api.span import is_persisted, milliseconds_of, normalize, parse_length
from ...events.turns import parse_moment
from ..analysis.turn_details import CONTAINERS, COUNTS, FIELDS, OF_TOOLS
from ..analysis.turns import read_events
from ..parse.schemas import SCHEMAS, STR
from ..tabular import SESSION_URL, to_strings
from .history import History

TEXTS = ("mask", "drop", "keep")
NAMES = ("agents", "workspaces")
# What may stay.
NOT_PROMISED = (
    ("texts", "names of people and firms that are not names in this history, other spellings, short forms, initials"),
    ("texts", "names of one or two letters, parts of names of fewer than four (one of Chinese or Japanese is two)"),
    ("texts", "ids that are numbers of fewer than six digits"),
    ("texts", "titles of sessions, and names of credentials of a single word"),
    ("texts", "addresses but IP, links, dates, local phone numbers, and other words that tell who wrote them"),
    ("texts", "what is encoded as neither JSON nor a URL, such as HTML and Base64"),
    ("arguments and results", "names of people that are not names in this history"),
    ("names of agents", "all that is not the name of a person, unless names=() is passed"),
    ("times", "weekdays, gaps and lengths stay, so who knows one event can find the others"),
    ("counts", "sizes, models, costs and tokens stay"),
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_IDS = {"id", "ids", *FIELDS["call"], *FIELDS["parent"]}
_TIMES = {*FIELDS["started_at"], *FIELDS["ended_at"], "timestamp", "time"}
_CONTENTS = {*FIELDS["arguments"], *FIELDS["result"]}
_FIXED = {*FIELDS["kind"], *FIELDS["state"]}
_STRUCTURE = {*FIELDS["name"], *_FIXED}  # without it, there are no steps
_READ = {"usage", "text", *CONTAINERS, *OF_TOOLS}.union(*FIELDS.values(), *COUNTS.values())  # names of fields that stay
# Fields in snake case: of people, each a name or an object; of what tells who one is;
# and of what tells nobody.
_PERSONAL = re.compile(
    r"(\w+_)?(user|owner|creator|author|initiator|member|person|maintainer|invitee|customer|employee|sender|recipient"
    r"|assignee|participant|contact|viewer|reviewer|approver|requester)s?(_?name)?"
    r"|login|(user|nick|first|last|given|family|full|display)_?name|(created|updated|archived|published)_by"
)
_PROFILE = re.compile(
    r"email|phone|mobile|address|postal|birth|avatar|banner|photo|picture|biograph|gender|passport|nationality"
    r"|linkedin|github|gitlab|mastodon|twitter|facebook|instagram|youtube|website|homepage|employer|company"
    r"|\b(bio|x_url|ip|city|street|zip|zip_code|location|job_title|domain)\b"
)
_PLAIN = re.compile(r"(\w+_)?(type|kind|role|status|state|count)")
_NEUTRAL = ("params_fingerprint", "latest_version")
_DERIVED = ("workspace", "agent", "session", "initiator")  # what a history adds itself
_NOUNS = ("workspace", "agent", "session", "credential")
# The columns of names, and what they name; those of events and sessions may be keys'.
_NAMED: dict[Any, str] = {
    "owner_name": "account",
    "webhook_url": "host",
    **{(f"{noun}s", column): noun for noun in _NOUNS for column in ("name", "full_name")},
}
_NOBODY = {*_NOUNS, "person", "account", "user", "system", "admin", "unknown", "none"}

# How texts write names. A known name is its words, folded and joined by "\0".
_WORD, _LETTER, _GAP = re.compile(r"[^\W_]+"), r"[^\W\d_]", r"[\W_]{0,3}"
_BYTE, _MORE = r"%(?:25)*", r"%(?:25)*[89ab][0-9a-f]"
_ESCAPE = re.compile(
    r"(?i)(?<!\\)\\++(?:ud[89ab][0-9a-f]{2}\\++ud[c-f][0-9a-f]{2}|u[0-9a-f]{4}|[nrt])"
    rf"|(?P<bytes>{_BYTE}(?:f[0-7](?:{_MORE}){{3}}|e[0-9a-f](?:{_MORE}){{2}}|[cd][0-9a-f]{_MORE}|[0-9a-f]{{2}}))"
)
_ADDRESS = (
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)"
    r"|(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{1,4})?(?![\w:])"
)
_HEX = r"(?<![0-9a-f])[0-9a-f]{8}(?:[-\u2010-\u2015]?[0-9a-f]{4}){3}[-\u2010-\u2015]?[0-9a-f]{12}(?![0-9a-f])"
# What has no marks to lose.
_ALIKE = str.maketrans({"ı": "i", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "\u0640": ""})


def anonymize(
    history: History,
    *,
    texts: str = "mask",
    shift: str | timedelta | None = None,
    key: str | bytes | None = None,
    names: Iterable[str] = ("agents",),
) -> History:
    """The history with pseudonyms for people and ids, masked texts and other times.

    Analyses, reports, charts and the Explorer give the same counts and durations.

    Parameters
    ----------
    history : History
        It is not changed.
    texts : str
        What becomes of texts, arguments and results. ``"mask"`` (default) replaces what
        is secret by its form (e-mail addresses, keys, passwords, numbers of cards, bank
        accounts and phones, addresses of networks) and the names and ids of this
        history: in any case, with or without accents, and in JSON and URLs; of people
        and accounts also parts of four letters or more. ``"drop"`` leaves
        ``[…]`` of texts, but for the messages of failures, which are masked; and of
        arguments and results, the names of fields and the lengths of values.
        ``"keep"`` replaces only names and ids, and what ``extra`` says of people.
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
        self._kept_names: dict[str, str] = {}
        self._fields: dict[str, str] = {}  # of payloads
        self._known: dict[str, str] = {}  # words of a name or an id, as one -> what stands for it
        self._people = self._pattern = re.compile("(?!)")  # of known names; of people, and of all with ids
        self._done: Counter[tuple[str, str, str]] = Counter()
        self._where = ""

    def run(self) -> History:
        history = self._history
        frames = {
            "events": history._loaded, "sessions": history._all_sessions, "workspaces": history.workspaces,
            "agents": history.agents, "credentials": history.credentials.drop(columns="owner_name", errors="ignore"),
            "contexts": history.contexts,
        }  # fmt: skip
        frames = {name: frame.drop(columns=[*_DERIVED], errors="ignore") for name, frame in frames.items()}
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
            moment = milliseconds_of(value) - self._shift_ms if is_persisted(value) else -1
            if moment >= 0:
                chance = (number >> 64 & 0xFFF) << 64 | number & (1 << 62) - 1
                self._ids[value] = str(uuid.UUID(int=moment << 80 | 7 << 76 | 2 << 62 | chance))
            elif _UUID.fullmatch(value):
                self._ids[value] = str(uuid.UUID(int=number, version=4))
            else:
                self._ids[value] = f"id-{number:032x}"[:19]
        return self._ids[value]

    def _name(self, value: str, noun: str) -> str:
        owner, separator, name = value.rpartition("~")
        if separator and noun in _NOUNS:
            return f"{self._name(owner, 'account')}~{self._name(name, noun)}"
        if f"{noun}s" in self._kept or value == NO_HOST:
            return self._kept_names.setdefault(value, value)
        return self._names.setdefault(value, self._pseudonym(value, noun))

    def _pseudonym(self, value: str, noun: str) -> str:
        return f"{noun}-{self._digest(unicodedata.normalize('NFC', value)).hex()[:8]}"

    def _account(self, value: str) -> str:
        return self._id(value) if normalize(value) in self._ids else self._name(value, "account")

    def _collect(self, frames: dict[str, pd.DataFrame]) -> None:
        """Give all ids and names their pseudonyms."""
        for frame in frames.values():
            for column in filter(_holds_ids, map(str, frame)):
                for value in to_strings(frame[column]).dropna().unique():
                    self._id(value)
        if any(is_persisted(value) and milliseconds_of(value) < self._shift_ms for value in self._ids):
            raise ValueError("shift leads to times before 1970: pass a shorter one, such as shift='1d'.")
        self._keep_order(frames["events"])
        for resource, frame in frames.items():
            for column in map(str, frame):
                self._names_of(resource, frame, column)
        for resource, frame in frames.items():
            self._where = f"{resource}.extra"
            for value in frame["extra"].dropna().unique() if "extra" in frame else ():
                self._json(value, "keep")
        if self._history.account is not None:
            self._account(self._history.account)
        self._done.clear()
        self._fields.clear()
        self._know(frames["workspaces"]["full_name"].dropna())

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
            known = {name: self._name(name, _author(kind)) for name, kind in ordered if name}
            return lambda name: known.get(name, name)
        noun = _NAMED.get((resource, column)) or _NAMED.get(column, "person")
        if noun == "person" and not _PERSONAL.fullmatch(_snake(column)):
            return None
        for name in to_strings(frame[column]).dropna().unique():
            self._name(name, noun)
        return lambda name: self._name(name, noun)

    # -- what is known in texts -------------------------------------------------------

    def _know(self, full_names: Iterable[str]) -> None:
        """Make the patterns of all that has a pseudonym."""
        others = {_joined(name): self._name(name, "workspace") for name in full_names}
        people: dict[str, str] = {}
        parts: dict[str, set[str]] = {}
        for name, made in self._names.items():
            noun = made.partition("-")[0]
            if noun in ("person", "account") and name.lower() not in _NOBODY:
                words = _joined(name).split("\0")
                people |= {"\0".join(words): made, "\0".join(reversed(words)): made}
                for word in words if len(words) > 1 else ():
                    parts.setdefault(word, set()).add(made)
            elif noun != "session" and not (noun == "credential" and name.isalpha()):
                others.setdefault(_joined(name), made)
        for part in parts.keys() - _NOBODY:
            if _weight(part) > 3 and not part.isdecimal():
                [made, *more] = parts[part]
                people.setdefault(part, self._pseudonym(part, "person") if more else made)
        self._known, self._people = _keys(people), _pattern(people, [])
        self._kept_names = {name: self._swap(name, self._people) for name in self._kept_names}
        others = {_joined(name): made for name, made in self._kept_names.items()} | others
        for name, made in self._ids.items():
            if not (_UUID.fullmatch(name) or (name.isdecimal() and len(name) < 6)):
                others.setdefault(_joined(name), made)
        self._known, self._pattern = _keys(others) | self._known, _pattern(people, others)

    def _swap(self, text: str, pattern: re.Pattern[str]) -> str:
        """The text with what the pattern finds in it, as it is or decoded, replaced."""
        found: list[tuple[int, int, str, str, str, str]] = []
        for decode in (False, True)[: 1 + bool(_ESCAPE.search(text))]:
            folded, places = _fold(text, decode)
            for match in pattern.finditer(folded):
                begin, end = places[match.start()], max(places[match.end()], places[match.end() - 1] + 1)
                made, what, how = self._made_of(match)
                if made and made != text[begin:end]:
                    found.append((begin, -end, made, self._where, what, how))
        pieces: list[str] = []
        copied = 0
        for begin, end, made, *_ in sorted(found):
            pieces += [text[copied:begin], made] if begin >= copied else []
            copied = max(copied, -end)
        self._done.update({(where, what, how) for _, _, _, where, what, how in found})
        return "".join([*pieces, text[copied:]])

    def _made_of(self, match: re.Match[str]) -> tuple[str, str, str]:
        """What stands for a match, or nothing; what it is, and what is done with it."""
        if match.lastgroup == "address":
            is_one = self._texts != "keep" and _is_address(match[0])
            return HIDDEN_PART if is_one else "", "an address of a network", "masked"
        if match.lastgroup == "uuid":
            plain = re.sub(r"[^0-9a-f]", "", match[0])
            known = str(uuid.UUID(plain))
            if known not in self._ids and len(plain) == len(match[0]) and not is_persisted(known):
                return "", "ids", "replaced"  # a hash, say
            made = self._id(known)
            return made if len(plain) < len(match[0]) else made.replace("-", ""), "ids", "replaced"
        made = self._known["".join(_WORD.findall(match[match.lastgroup or 0]))]
        return "" if made in self._kept_names else made, "ids" if made.startswith("id-") else "names", "replaced"

    # -- frames -----------------------------------------------------------------------

    def _frame(self, resource: str, frame: pd.DataFrame, failing: Any) -> pd.DataFrame:
        kinds = {column.name: column.kind for column in SCHEMAS[resource].columns}
        columns: dict[Any, Any] = {}
        for name in map(str, frame.columns.drop("link", errors="ignore")):
            self._where = f"{resource}.{name}"
            column, kind = frame[name].reset_index(drop=True), kinds.get(name, "")
            if isinstance(column.dtype, pd.DatetimeTZDtype) or column.dtype.kind == "M":
                column = column - pd.Timedelta(self._shift_ms, "ms")
                self._done[self._where, "times", "shifted"] += column.nunique()
            elif not kind and _tells_who(_snake(name), "extra"):
                column = column.map(self._hidden, na_action="ignore").astype(STR)
            elif not _holds_ids(name) and pd.api.types.is_numeric_dtype(column.dtype):  # booleans too
                pass
            elif any(map(pd.api.types.is_list_like, column.array)):
                items: Any = [self._value(value, name, self._texts) for value in column.array.tolist()]
                column = pd.Series(items, dtype=column.dtype)
            elif (kind != "enum" or name.endswith("_name")) and name not in _NEUTRAL:
                change = self._change_of(resource, frame, name, kind)
                column = self._mapped(column, change, failing if resource == "events" else None)
            columns[name] = column
        result = pd.DataFrame(columns)
        known = frame.attrs.get("agentbook", {})
        result.attrs["agentbook"] = {name: known[name] for name in ("resource", "complete", "tz") if name in known}
        result.attrs["agentbook"][SESSION_URL] = ""  # the ids lead nowhere
        if loaded_at := parse_moment(str(known.get("loaded_at"))):
            result.attrs["agentbook"]["loaded_at"] = self._earlier(loaded_at).isoformat()
        return result

    def _change_of(self, resource: str, frame: pd.DataFrame, name: str, kind: str) -> Callable[..., str]:
        if is_secret_name(name):
            return _hide
        if _holds_ids(name):
            return self._counted(self._id, "ids")
        if name == "agent_version":  # its number says nothing about anybody
            return lambda value: self._counted(self._id, "ids")(value) if is_persisted(value) else value
        if make := self._names_of(resource, frame, name):
            return self._counted(make, "names")
        if kind == "label":
            return self._counted(lambda value: self._swap(value, self._people), "names")
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
        return self._swap(value, self._pattern)

    def _json(self, value: str, mode: str | None = None) -> str:
        rule = "extra" if self._where.endswith(".extra") else ""
        made = _json_with(value, lambda inside: self._value(inside, "", mode or self._texts, rule))
        return self._column_text(value, mode) if made is None else made

    def _value(self, value: Any, key: str, mode: str, rule: str = "", parent: str = "") -> Any:
        """A JSON value; `rule` is ``person`` for fields of people, ``extra`` in one."""
        if isinstance(value, dict):
            return {self._field(name): self._member(member, name, mode, rule, key) for name, member in value.items()}
        if pd.api.types.is_list_like(value):  # of a frame, an array too
            return [self._value(item, key, mode, rule, parent) for item in value]
        if isinstance(value, str):
            return self._string(value, key, mode, rule, parent)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if key in _TIMES or key.endswith(("_at", "_time")):  # seconds or milliseconds since 1970
            unit = 1000 if abs(value) < 1e11 else 1
            return value - self._shift_ms / unit if abs(value) > 1e8 else value
        if _tells_who(key, rule):
            return self._hidden(value)
        if isinstance(value, float) or abs(value) < 1e12:
            return value
        made = self._text(str(value))  # a card number, say
        return value if made == str(value) and abs(value) < 1 << 63 else made

    def _member(self, member: Any, name: str, mode: str, rule: str, parent: str) -> Any:
        field = _snake(name)
        if mode != "keep" and (is_secret(name, member) or (mode == "drop" and field in _CONTENTS)):
            return self._value(mask(member), "", "mask")
        if rule == "extra" and field in _CONTENTS:
            rule = ""
        if _PERSONAL.fullmatch(field) and isinstance(member, dict | list) and (rule or mode != "keep"):
            rule = "person"
        return self._value(member, field, mode, rule, parent)

    def _field(self, name: str) -> str:
        if name not in self._fields:
            self._fields[name] = name if name in _READ else self._text(name)
        return self._fields[name]

    def _string(self, value: str, key: str, mode: str, rule: str, parent: str) -> str:
        if not value or mask(value) == value:
            return value
        is_name = _PERSONAL.fullmatch(key) or (key == "name" and (rule == "person" or _PERSONAL.fullmatch(parent)))
        is_id = key in _IDS or key.endswith(("_id", "_ids")) or (is_name and normalize(value) in self._ids)
        if is_id or _UUID.fullmatch(value):
            return self._counted(self._id, "ids")(value)
        # The year 1 says "no time" in Go, and there is none before it.
        if _MOMENT.fullmatch(value) and (moment := parse_moment(value)) and moment.year > 99:
            return str(self._earlier(moment).isoformat()).replace("+00:00", "Z")
        if is_name:  # of whom words name is a person in this place only
            known = self._kept_names.get(value) or self._names.get(value)
            make = self._name if rule else self._pseudonym
            return self._counted(lambda name: known or make(name, "person"), "names")(value)
        if _tells_who(key, rule):
            return str(self._hidden(value))
        if key in _FIXED and value.isascii() and value.isidentifier():
            return value
        if value.lstrip()[:1] in ("{", "["):
            made = _json_with(value, lambda inside: self._value(inside, key, mode, rule, parent))
            if made is not None:
                return made
        return mask(value) if mode == "drop" and key not in _STRUCTURE else self._text(value)

    def _hidden(self, value: Any) -> Any:
        self._done[self._where, "data of a person", "masked"] += 1
        return mask(value)

    def _earlier(self, moment: Any) -> Any:
        return None if moment is None else moment - timedelta(milliseconds=self._shift_ms)


def _holds_ids(column: str) -> bool:
    return column == "id" or column.endswith("_id")


def _author(kind: str) -> str:
    return next((noun for noun in ("agent", "key", "trigger") if noun in kind), "person")


def _snake(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _tells_who(key: str, rule: str) -> bool:
    """Whether the value of such a field is about a person."""
    return not _PLAIN.fullmatch(key) if rule == "person" else rule == "extra" and bool(_PROFILE.search(key))


def _json_with(text: str, change: Callable[[Any], Any]) -> str | None:
    """JSON with its value changed; None if the text is none."""
    try:
        return str(msgspec.json.encode(change(read_value(text.encode()))), "utf-8")
    except UNREADABLE:
        return None


def _hide(text: str) -> str:
    """The text masked; of JSON, its values."""
    return _json_with(text, mask) or str(mask(text))


# -- names in texts --------------------------------------------------------------------


@functools.cache
def _plain(character: str) -> str:
    """Its small letters without marks; nothing for what nobody sees."""
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    return "".join(each for each in letters if unicodedata.category(each) not in ("Mn", "Cf")).translate(_ALIKE)


def _fold(text: str, decode: bool = False) -> tuple[str, Sequence[int]]:
    """The text folded, and where each character of it, and its end, is in the text."""
    places: Sequence[int] = range(len(text) + 1)
    for _ in range(3 if decode else 0):  # JSON in a URL in JSON
        pieces, origins, at = [], [], 0
        for match in _ESCAPE.finditer(text):
            plain = _decoded(match)
            pieces += [text[at : match.start()], plain]
            origins += [*places[at : match.start()], *[places[match.start()]] * len(plain)]
            at = match.end()
        text, places = "".join([*pieces, text[at:]]), [*origins, *places[at:]]
    if text.isascii():
        return text.lower(), places
    letters = [*map(_plain, text)]
    shown = [places[at] for at, each in enumerate(letters) for _ in each]
    return "".join(letters), [*shown, places[-1]]


def _decoded(match: re.Match[str]) -> str:
    if match["bytes"]:
        data = bytes.fromhex(re.sub(r"%(?:25)*", "", match[0]))
        return data.decode("utf-8" if len(data) > 1 else "latin-1", "replace")
    units = re.sub(r"\\+", r"\\", match[0].lower()).encode().decode("unicode_escape")
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _joined(name: str) -> str:
    return "\0".join(_WORD.findall(_fold(name)[0]))


def _keys(names: dict[str, str]) -> dict[str, str]:
    return {name.replace("\0", ""): made for name, made in names.items()}


def _weight(word: str) -> int:
    """Its letters; a Chinese, Japanese or Korean one says as much as two."""
    return len(word) + sum(letter >= "\u2e80" for letter in word)


def _pattern(people: Iterable[str], others: Iterable[str]) -> re.Pattern[str]:
    """What finds them in a folded text, with ids and addresses.

    Names of people of six letters are found in any word, those of four with an ending
    of up to two. Scripts without capitals hardly separate words, or put others before.
    """
    known: dict[str, list[str]] = {"glued": [], "long": [], "short": [], "whole": []}
    for name in people:
        weight = _weight(name.replace("\0", ""))
        kind = "whole" if weight < 4 else "glued" if name.upper() == name else "long" if weight > 5 else "short"
        known[kind].append(name)
    known["whole"] += others
    glued, long, short, whole = (
        f"(?P<{kind}>{_any_of(sorted({name for name in names if _weight(name) > 1 + name.isascii()})) or '(?!)'})"
        for kind, names in known.items()
    )
    return re.compile(
        f"(?P<uuid>{_HEX})|(?P<address>{_ADDRESS})|{glued}|{long}(?:{_LETTER}{{1,2}}(?!{_LETTER}))?"
        f"|(?<!{_LETTER}){short}{_LETTER}{{0,2}}(?!{_LETTER})|(?<![^\\W_]){whole}(?![^\\W_])"
    )


def _any_of(texts: list[str]) -> str:
    """A pattern of all these texts, which reads each letter of a text once."""
    start, groups = os.path.commonprefix(texts), dict[str, list[str]]()  # noqa: RUF071
    for text in texts:
        if text != start:
            groups.setdefault(text[len(start)], []).append(text[len(start) :])
    tail = f"(?:{'|'.join(map(_any_of, groups.values()))}){'?' * (start in texts)}" if groups else ""
    return "".join(_GAP if letter == "\0" else re.escape(letter) for letter in start) + tail


def _is_address(text: str) -> bool:
    """Whether it is an IP address, and not a time or a version."""
    try:
        return any(map(str.isdigit, text)) and bool(ipaddress.ip_address(text))
    except ValueError:
        return False
