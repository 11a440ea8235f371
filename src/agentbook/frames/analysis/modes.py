"""From reading to failure modes: a list to read, groups of notes, and their rates.

Whoever reads turns to learn what goes wrong does not read at random: failures are rare.
So a list is drawn with known chances, and each turn of it has a weight, the number of
turns it stands for. Shares that use the weights are those of all turns (Hájek, 1971).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..._text import count_text, title, visible
from ..labels import TEXT, labels_of, targets_of
from ..parse.schemas import STR
from ..tabular import typed, with_provenance
from .arguments import OTHER, warn_caller, whole
from .shares import shares
from .topics import html_of, topics, words_of
from .turns import Floats, turns_in

_WHO, _LIKE = ("agent", "author", "agent_id", "author_id"), ("prompt_chars", "reply_chars", "subtasks")
_TOP = 0.95  # what is slower, or more unlike the rest, than this share is worth reading
_KEPT = ("workspace", "agent", "author", "session", "initiator", "asked_at", "workspace_id", "agent_id")
SPREAD, RANDOM = "spread over agents and people", "random"
EXAMPLES = 3


def reading_list(
    data: Any, n: int = 100, *, unit: str = "turn", seed: int = 0, since: Any = None, until: Any = None
) -> pd.DataFrame:
    """Turns or sessions that are worth reading, drawn so that shares can be computed.

    About a third is drawn at random, a third from those that failed, were slow or are
    unlike the rest, and a third spread evenly over agents and people. Read from the
    top: a part of the list is drawn the same way.

    Parameters
    ----------
    data : History, DataFrame, Listing, or any other table
        A history, events, or turns.
    n : int
        How many; all, if there are fewer. Default 100.
    unit : {"turn", "session"}
        What is read.
    seed : int
        The same seed and turns give the same list.
    since, until : str, datetime or Timedelta, optional
        Turns asked from `since` on and before `until`: instants with a time zone,
        dates, or lengths of time such as ``"30d"`` before the data were loaded.

    Returns
    -------
    DataFrame
        The turns, or a row per session, in the order in which to read them, with two
        more columns:

        ====== ======= =================================================================
        column dtype   meaning
        ====== ======= =================================================================
        why    str     ``random``, ``failed``, ``slow``, ``unlike the rest`` or ``spread
                       over agents and people``
        weight float64 how many turns or sessions it stands for: 1 / the chance that it
                       was drawn
        ====== ======= =================================================================

    Raises
    ------
    ValueError
        If a column is missing, `n` is not a positive number, or the unit is unknown.

    Notes
    -----
    Slow is above the 95th percentile of the agent; unlike the rest, by the lengths of
    question and reply and by the number of steps.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> todo = ab.reading_list(history, n=60)
    >>> len(todo), bool(todo["weight"].ge(1).all())
    (60, True)
    >>> labeller = ab.label(todo, {"ok": bool, "note": str}, events=history.turn_events,
    ...                     folder=folder / "read", rater="ada")
    >>> labeller.answer(ok=False, note="names no source")
    """
    if unit not in ("turn", "session"):
        raise ValueError(f"reading_list reads turns or sessions: unit= must be 'turn' or 'session', not {unit!r}.")
    n = whole(n, 1, "reading_list draws n= turns: a whole number of 1 or more")
    seed = whole(seed, 0, "reading_list: seed is a whole number from 0")
    table, _, _, span = turns_in(
        data, "session_id", "turn", "status", "latency_s", caller="reading_list", since=since, until=until
    )
    table = table.drop(columns=[name for name in ("(at)", "why", "weight") if name in table])
    failed = table["status"].isin(["failed", "unanswered"])
    like = {name: pd.to_numeric(table[name]).astype("float64") for name in _LIKE if name in table}
    rows = pd.DataFrame({"failed": failed, "latency_s": table["latency_s"].astype("float64"), **like}, table.index)
    if unit == "session":
        session = table["session_id"]
        how = {"failed": "any", "latency_s": "max", **dict.fromkeys(like, "sum")}
        rows = rows.groupby(session, sort=False).agg(how).reset_index(drop=True)
        first = {name: (name, "first") for name in _KEPT if name in table}
        table = table.groupby(session, sort=False).agg(turns=("turn", "size"), **first).reset_index()
    who = [name for name in _WHO if name in table][:2]
    rng, count = np.random.default_rng(seed), len(table)
    group = table.groupby(who, observed=True, dropna=False).ngroup().to_numpy() if who else np.zeros(count, np.int64)
    reason = _reasons(rows, table[who[0]] if who else None)
    chance, even = _chances(reason != "", group, min(n, count))
    # Systematic: a start at random, then equal steps through the groups in turn.
    order = np.lexsort((rng.random(count), group))
    ends = np.cumsum(chance[order])
    n = min(n, count)
    places = np.searchsorted(ends, (rng.random() + np.arange(n)) * chance.sum() / max(n, 1))
    drawn = rng.permutation(order[np.unique(places.clip(max=max(count - 1, 0)))])
    # What is drawn for several reasons is listed under one, a third under each.
    third = len(drawn) // 3
    why = np.full(len(drawn), RANDOM, object)
    worth = np.flatnonzero(reason[drawn] != "")[:third]
    why[worth] = reason[drawn[worth]]
    rest = np.flatnonzero(why == RANDOM)
    why[rest[np.argsort(-even[drawn[rest]], kind="stable")][:third]] = SPREAD
    listed = table.iloc[drawn].reset_index(drop=True)
    listed = listed.assign(why=pd.Series(why, dtype=STR), weight=1 / chance[drawn])
    counts = {"n": len(listed), "of": count}
    return with_provenance(listed, table, "reading_list", unit=unit, seed=seed, **counts, **span.details())


def _reasons(rows: pd.DataFrame, agent: pd.Series | None) -> Any:
    """Why each row is worth reading; empty where nothing is special."""
    of = np.zeros(len(rows), np.int64) if agent is None else pd.factorize(agent, use_na_sentinel=True)[0]
    slow = rows["latency_s"] > rows["latency_s"].groupby(of).transform("quantile", _TOP)
    apart = pd.Series(0.0, rows.index)
    for name in rows.columns.difference(["failed", "latency_s"]):
        value = np.log1p(rows[name])
        middle = value.groupby(of).transform("median")
        spread = (value - middle).abs().groupby(of).transform("mean")
        apart = np.maximum(apart, ((value - middle).abs() / spread.clip(lower=0.1)).fillna(0))
    unlike = (apart > apart.quantile(_TOP)) if len(rows) else apart > 0
    return np.select([rows["failed"], slow, unlike], ["failed", "slow", "unlike the rest"], "").astype(object)


def _chances(worth: Any, group: Any, n: int) -> tuple[Floats, Floats]:
    """The chance of each row to be drawn, and that of the third that is spread."""
    count = len(worth)
    even = 1 / np.maximum(np.bincount(group)[group] * len(np.unique(group)), 1) if count else np.zeros(0)
    marked = worth / worth.sum() if worth.any() else np.full(count, 1 / max(count, 1))
    chance = n * (1 / max(count, 1) + marked + even) / 3
    while (chance > 1 + 1e-9).any():
        sure = chance >= 1
        chance = np.where(sure, 1.0, chance * max(n - sure.sum(), 0) / chance[~sure].sum())
    return np.minimum(chance, 1.0), even


class FailureModes:
    """Notes in groups, each a way of failing. Made by `failure_modes`.

    ``modes["wrong price"]`` are the turns of a mode with their notes, such as for
    ``lab.add_inputs``, which then also adds a check by the lab's judge. `rename`,
    `merge` and `split` return new ones.

    Attributes
    ----------
    frame : DataFrame
        A row per mode, as `failure_modes` describes.
    """

    def __init__(
        self, notes: pd.DataFrame, read: pd.DataFrame, terms: Mapping[str, list[str]], turns: pd.DataFrame | None,
        proposed: Mapping[str, str], seed: int,
    ) -> None:  # fmt: skip
        self._notes, self._read, self._terms, self._turns = notes, read, dict(terms), turns
        self._proposed, self._seed = dict(proposed), seed
        self.frame = self._framed()

    def _framed(self) -> pd.DataFrame:
        rows = [
            (name, part["target"].nunique(), self._terms.get(str(name), []), list(dict.fromkeys(part["note"]))[:EXAMPLES])
            for name, part in self._notes.groupby("mode", sort=False)
        ]  # fmt: skip
        rows.sort(key=lambda row: (row[0] == OTHER, -row[1]))
        frame = typed(
            pd.DataFrame(rows, columns=["mode", "notes", "terms", "examples"]), {"mode": "str", "notes": "int64"}
        )
        frame.insert(2, "share", frame["notes"] / self._notes["target"].nunique())
        if self._proposed:
            frame["proposed"] = frame["mode"].map(self._proposed).astype(STR)
        return frame

    @property
    def labels(self) -> pd.DataFrame:
        """The mode of each note, as labels of ``mode`` for `save_labels`."""
        columns = ["session_id", "message_id", "rater"]
        made = self._notes[columns].assign(question="mode", value=self._notes["mode"], kind="choice", source="notes")
        return made.drop_duplicates([*columns, "value"]).reset_index(drop=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self.frame["mode"])

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, name: str) -> pd.DataFrame:
        mine = self._notes[self._notes["mode"] == self._known(name)]
        if self._turns is None:
            raise ValueError(
                "These modes know the notes alone: pass the turns too, as in ab.failure_modes(labels, 'note', todo)."
            )
        notes = mine.groupby("target")["note"].agg("; ".join)
        _, session, message = targets_of(self._turns, "failure_modes")
        target = session if message is None or mine["message_id"].isna().all() else message
        found = self._turns.assign(note=target.map(notes).astype(STR).to_numpy())[target.isin(notes.index).to_numpy()]
        if found.empty:
            raise ValueError(f"No turn of {name!r} is among those passed: pass the history that was read.")
        check = f"judge: It does not fail in this way: {name}."
        return with_provenance(found.reset_index(drop=True), self._turns, "failure_modes", check=check)

    def _known(self, name: Any) -> str:
        if name not in set(self.frame["mode"]):
            raise ValueError(f"There is no mode {name!r}; there are {', '.join(map(repr, self))}.")
        return str(name)

    def _changed(self, names: pd.Series, terms: Mapping[str, list[str]]) -> FailureModes:
        notes = self._notes.assign(mode=names.astype(STR))
        return FailureModes(notes, self._read, {**self._terms, **terms}, self._turns, self._proposed, self._seed)

    def rename(self, names: Mapping[str, str]) -> FailureModes:
        """The modes with other names; modes that get the same name become one.

        Parameters
        ----------
        names : dict
            New names by the present ones.

        Raises
        ------
        ValueError
            If there is no such mode, or a name is empty.
        """
        new = {self._known(old): str(name).strip() for old, name in names.items()}
        if not all(new.values()):
            raise ValueError("rename needs names that are not empty.")
        terms: dict[str, list[str]] = {}
        for old, name in new.items():
            terms.setdefault(name, []).extend(self._terms.get(old, []))
        return self._changed(self._notes["mode"].replace(new), terms)

    def merge(self, names: Sequence[str], into: str) -> FailureModes:
        """The modes with several of them as one.

        Parameters
        ----------
        names : sequence of str
        into : str
            The name of the new mode.

        Raises
        ------
        ValueError
            If there is no such mode, or the name is empty.
        """
        return self.rename(dict.fromkeys([names] if isinstance(names, str) else names, into))

    def split(self, name: str, by: int | Mapping[str, str] = 2) -> FailureModes:
        """The modes with one of them in parts.

        Parameters
        ----------
        name : str
        by : int or dict
            The number of groups, by the words of the notes; or new names with a text
            that their notes contain, in any case. Other notes stay.

        Raises
        ------
        ValueError
            If there is no such mode, or no note contains a text.
        """
        inside = self._notes["mode"] == self._known(name)
        notes, names = self._notes.loc[inside, "note"], self._notes["mode"].copy()
        terms: dict[str, list[str]] = {}
        if isinstance(by, Mapping):
            for new, text in by.items():
                has = notes[notes.str.casefold().str.contains(str(text).casefold(), regex=False)]
                if has.empty:
                    raise ValueError(f"No note of {name!r} contains {text!r}.")
                names[has.index], terms[new] = new, [str(text)]
        else:
            found, terms, _ = _grouped(notes, by, self._seed)
            names[inside] = found
        return self._changed(names, terms)

    def rates(self, data: Any) -> pd.DataFrame:
        """How frequent each mode is among all turns, or sessions, not only those read.

        Parameters
        ----------
        data : History, DataFrame, Listing, or any other table
            What the reading list was drawn from.

        Returns
        -------
        DataFrame
            By mode:

            ========= ======= ==========================================================
            column    dtype   meaning
            ========= ======= ==========================================================
            mode      str
            notes     int64   turns or sessions that were read and have it
            share     float64 of all turns or sessions, by the weights of those read
            low, high float64 its 95 % interval, which knows how the list was drawn; the
                              share itself if all were read
            about     Int64   how many turns or sessions that is
            ========= ======= ==========================================================

            Null if the labels do not say how their turns were drawn, or nobody noted
            the mode.

        Raises
        ------
        ValueError
            If turns that were read are not in `data`: it was drawn from another
            history.

        Warns
        -----
        UserWarning
            If the labels have no weights.
        """
        table, session, message = targets_of(data, "rates")
        read, by_session = self._read, bool(self._read["message_id"].isna().all())
        every = pd.Index((session if message is None or by_session else message).dropna().unique())
        if missing := int((~read["target"].isin(every)).sum()):
            raise ValueError(
                f"{missing:,} of the {len(read):,} that were read are not in this history: pass the one that the list "
                "was drawn from."
            )
        self._turns = table if self._turns is None else self._turns
        raters = read["raters"].to_numpy(np.float64)
        is_all = len(read) == len(every)
        weight = np.ones(len(read)) if is_all else read["weight"].to_numpy(np.float64)
        if not (is_known := not np.isnan(weight).any()):
            warn_caller(
                "rates: the labels do not say how their turns were drawn, so nobody knows what they say of the others. "
                "Label what ab.reading_list(history) draws, or pass it: ab.failure_modes(labels, 'note', todo).",
                UserWarning,
            )
        number = pd.factorize(read["session_id"])[0].astype(np.int64)
        rows = []
        for name in self.frame["mode"]:
            mine = self._notes[self._notes["mode"] == name].groupby("target")["rater"].nunique()
            hit = read["target"].map(mine).fillna(0).to_numpy(np.float64) / raters
            found = [float(each[0]) for each in shares(hit, np.zeros(len(read), np.int64), number, weight)]
            found = [found[0]] * 3 if is_all else found
            rows.append((name, len(mine), *(found if is_known and len(mine) else [np.nan] * 3)))
        dtypes = {"mode": "str", "notes": "int64", **dict.fromkeys(("share", "low", "high"), "float64")}
        rates = typed(pd.DataFrame(rows, columns=list(dtypes)), dtypes)
        rates["about"] = (rates["share"] * len(every)).round().astype("Int64")
        return with_provenance(rates, table, "rates", read=len(read), of=len(every))

    def __repr__(self) -> str:
        return (
            f"<FailureModes: {count_text(len(self), 'mode')} in {count_text(self._notes['target'].nunique(), 'note')}>"
        )

    def _repr_html_(self) -> str:
        shown = self.frame.assign(
            mode=self.frame["mode"].map(visible), share=self.frame["share"].map("{:.0%}".format),
            terms=self.frame["terms"].map(", ".join),
            examples=[" · ".join(visible(title(text, 90)) for text in texts) for texts in self.frame["examples"]],
        )  # fmt: skip
        return html_of(shown)


def failure_modes(
    labels: Any,
    question: str = "note",
    data: Any = None,
    *,
    k: int | str = "auto",
    seed: int = 0,
    names: Any = None,
    client: Any = None,
    workspace: Any = None,
) -> FailureModes:
    """Groups of notes: the ways in which agents fail, to be renamed by a person.

    Notes are grouped by their words. What a person has chosen as the label ``mode`` of
    a turn, as in ``ab.label(todo, {"note": str, "mode": list(modes)})``, counts
    instead.

    Parameters
    ----------
    labels : DataFrame, path or Store
        As `read_labels` gives them: the notes, and all other labels of what was read. A
        turn without a note counts as read too.
    question : str
        The question whose answers are the notes. Default ``"note"``. Each choice of a
        question with choices is a mode.
    data : History, DataFrame, Listing, or any other table, optional
        The reading list, or the history: for the questions of a mode's turns, and for
        the weights, if the labels have none.
    k : int or str
        The number of groups; ``"auto"`` (default) as for `topics`.
    seed : int
        The same notes and seed give the same groups.
    names : str or Record, optional
        An agent that proposes a name for each group, in the column ``proposed``. It is
        shown terms and notes, masked. A proposal changes nothing until you
        `rename`.
    client, workspace : optional
        For `names`, as for `topics`.

    Returns
    -------
    FailureModes
        ``modes.rates(history)`` is the share of all turns that each mode has. Its
        ``frame`` has the largest mode first, and ``"other"``, notes that are like none,
        last:

        ======== =========== ==========================================================
        column   dtype       meaning
        ======== =========== ==========================================================
        mode     str         its name: the first terms
        notes    int64       turns or sessions with such a note
        share    float64     of all that have a note, 0 to 1
        terms    list of str what sets it apart, the clearest first
        examples list of str three notes, the most typical first
        proposed str         a name that an agent proposes, with `names`
        ======== =========== ==========================================================

    Raises
    ------
    ValueError
        If nobody wrote a note, or `k` is greater than the number of notes.

    Examples
    --------
    >>> notes = ["no source", "names no source", "wrong price", "price is wrong"]
    >>> labels = pd.DataFrame({"message_id": list("abcd"), "value": notes})
    >>> labels = labels.assign(question="note", kind="text", rater="ada")
    >>> modes = ab.failure_modes(labels, k=2)
    >>> modes = modes.rename({name: "no source" for name in modes if "source" in name})
    >>> dict(zip(modes.frame["mode"], modes.frame["notes"]))["no source"]
    2
    """
    found = labels_of(labels, "failure_modes")
    found = found if "weight" in found else found.assign(weight=np.nan)
    said = found[(found["question"] == question) & found["value"].str.strip().fillna("").ne("")]
    if said.empty:
        raise ValueError(
            f"failure_modes found no note of the question {question!r}; the questions are "
            f"{', '.join(map(repr, found['question'].unique())) or 'none'}."
        )
    notes = said.assign(note=said["value"].str.strip())[["target", "session_id", "message_id", "rater", "note"]]
    notes = notes.reset_index(drop=True)
    asks = {} if names is None else {"names": names, "client": client, "workspace": workspace}
    notes["mode"], terms, proposed = _grouped(notes["note"], k, seed, asks)
    if (said["kind"] != TEXT).all():  # a question with choices: each is a mode
        notes["mode"] = notes["note"]
    chosen = found[(found["question"] == "mode") & (found["kind"] != TEXT) & (question != "mode")]
    chosen = chosen.drop_duplicates(["target", "rater"], keep="last")
    notes = notes.merge(chosen[["target", "rater", "value"]], how="left", on=["target", "rater"])
    notes["mode"] = notes.pop("value").fillna(notes["mode"])
    bare = chosen[~chosen["target"].isin(notes["target"])]
    notes = pd.concat([notes, bare.assign(note=bare["value"], mode=bare["value"])[list(notes)]], ignore_index=True)
    read = found.groupby("target", sort=False).agg(
        session_id=("session_id", "first"), message_id=("message_id", "first"), raters=("rater", "nunique"),
        weight=("weight", "last"),
    ).reset_index()  # fmt: skip
    read["session_id"] = read["session_id"].fillna(read["target"])
    turns = None
    if data is not None:
        turns, session, message = targets_of(data, "failure_modes")
        target = session if message is None or read["message_id"].isna().all() else message
        known = turns.assign(target=target, own=session).dropna(subset="target")
        known = known.drop_duplicates("target").set_index("target")
        read["session_id"] = read["target"].map(known["own"]).fillna(read["session_id"])
        if "weight" in known:
            read["weight"] = read["target"].map(known["weight"]).fillna(read["weight"]).astype("float64")
    return FailureModes(notes, read, terms, turns, proposed, seed)


def _grouped(
    notes: pd.Series, k: int | str, seed: int, asks: Mapping[str, Any] | None = None
) -> tuple[pd.Series, dict[str, list[str]], dict[str, str]]:
    """The group of each note, the terms of each group, and the names proposed."""
    table = pd.DataFrame({"prompt": notes.to_numpy(), "session_id": notes.index.astype(str), "turn": 1})
    table = table.assign(asked_at=None, status="answered")
    if not any(next(words_of(note), None) for note in notes):
        return pd.Series(OTHER, notes.index, dtype=STR), {}, {}
    found = topics(table, k, seed)
    terms = {str(name): list(each) for name, each in zip(found.frame["topic"], found.frame["terms"], strict=True)}
    proposed = {}
    if asks:
        named = topics(table, k, seed, **asks).frame
        pairs = zip(found.frame["topic"], named["topic"], strict=True)
        proposed = {old: str(new) for old, new in pairs if old != OTHER}
    return found.of(table).set_axis(notes.index), terms, proposed
