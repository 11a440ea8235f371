"""Labels: what people said about turns and sessions, in files that only grow.

Each rater has a file of their own in a folder, so nobody waits for another, and what
two people wrote is the union of their files. A line is an OpenTelemetry log record, the
event ``gen_ai.evaluation.result`` of the GenAI conventions, as the collector's file
exporter writes it (OTLP/JSON). The newest label of a rater wins; one without a value
takes the earlier one back.
"""

from __future__ import annotations

import codecs
import getpass
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from .._files import append
from ..api.span import normalize
from .analysis.arguments import require
from .analysis.clusters import t_quantile
from .analysis.turns import is_sessions, people_of, turns_of
from .formats.model import moment_of, separator_of
from .formats.otlp import MESSAGE, SCHEMA, SESSION, attributes_of, values_of
from .parse.frame import list_column
from .parse.schemas import STR
from .tabular import frame_of, is_tabular, part_of, typed, with_links, with_provenance

COLUMNS = {
    **{"session_id": "str", "message_id": "str", "question": "str", "value": "str", "kind": "str"},
    **{"rater": "str", "source": "str", "at": "datetime64[us, UTC]"},
}
YES, NO = "yes", "no"
GOOD = "good"  # the question that a thumb answers
BOOL, CHOICE, TEXT = "bool", "choice", "text"
_TARGET = ["session_id", "message_id", "question"]

_EVENT = "gen_ai.evaluation.result"
_NAME, _LABEL = "gen_ai.evaluation.name", "gen_ai.evaluation.score.label"
_SCORE, _TEXT = "gen_ai.evaluation.score.value", "gen_ai.evaluation.explanation"
_RATER, _SOURCE, _WEIGHT = "agentbook.rater", "agentbook.source", "agentbook.weight"

_RESAMPLES = 2000
_MIN_SESSIONS = 5  # fewer say nothing about how much sessions differ


def read_labels(*sources: Any) -> pd.DataFrame:
    """The labels in folders and files, merged: the newest of each rater counts.

    Parameters
    ----------
    *sources : path, Store or DataFrame
        A folder of labels, such as that of `label`, or a store, which keeps them in its
        folder ``labels``; a CSV file, also as Excel saves it, with semicolons or as
        Unicode text with tabs, which needs the columns ``question``, ``value`` and
        ``message_id`` or ``session_id``; or JSON Lines with events
        ``gen_ai.evaluation.result`` of OpenTelemetry.

    Returns
    -------
    DataFrame
        A row per label, the latest last:

        ========== =================== ===============================================
        column     dtype               meaning
        ========== =================== ===============================================
        session_id str                 the session
        message_id str                 the question of the turn, or the reply of a turn
                                       without one; null if the session was labelled
        question   str                 what was asked
        value      str                 the answer; ``yes`` or ``no``, a choice, a text
        kind       str                 ``bool``, ``choice`` or ``text``
        rater      str                 who answered
        source     str                 ``person``, ``judge`` or ``import``
        at         datetime64[us, UTC] when
        ========== =================== ===============================================

        Also ``weight`` (float64) if some were on a list of `reading_list`.
        ``attrs["agentbook"]["unreadable"]`` counts lines that are no labels, such as
        half a line of a process that was killed.

    Raises
    ------
    FileNotFoundError
        If there is no such folder or file.
    ValueError
        If a file holds no labels; the message names it.

    Notes
    -----
    The names in a line are those of OpenTelemetry's GenAI conventions 0.1.0, which are
    still in development.

    Examples
    --------
    >>> labels = pd.DataFrame({"message_id": ["m1"], "question": "solved"})
    >>> labels = labels.assign(value="yes", rater="ada")
    >>> paths = ab.save_labels(labels, folder / "labels")
    >>> found = ab.read_labels(folder / "labels")
    >>> found[["message_id", "value", "kind", "rater"]].values.tolist()
    [['m1', 'yes', 'bool', 'ada']]
    """
    unreadable, frames = 0, []
    for source in sources:
        if is_tabular(source):
            frames.append(_typed(frame_of(source, caller="read_labels"), "read_labels", "somebody"))
            continue
        path = folder_of(source)
        if path.is_dir():
            files = sorted(path.glob("*.jsonl"))
        elif path.exists():
            files = [path]
        else:
            raise FileNotFoundError(
                f"There are no labels in {path}: ab.label(history, questions, folder=...) makes some."
            )
        for file in files:
            frame, lost = _read(file)
            unreadable += lost
            frames.append(frame)
    labels = _newest(pd.concat(frames, ignore_index=True) if frames else _typed(pd.DataFrame(columns=list(COLUMNS))))
    labels.attrs["agentbook"] = {"operation": "read_labels", "unreadable": unreadable}
    return with_links(labels, labels)


def save_labels(labels: Any, folder: Any) -> list[Path]:
    """Add labels to a folder, as `label` writes them, unless they are there already.

    Parameters
    ----------
    labels : DataFrame or path
        From `read_labels`, `PromptLab.labels` or `Compare.labels`, or any other table
        with the columns ``question``, ``value`` and ``message_id`` or ``session_id``.
    folder : path or Store
        Created if it does not exist.

    Returns
    -------
    list of Path
        The files of the raters whose labels were added.

    Raises
    ------
    OSError
        If the folder cannot be written.
    ValueError
        If these are no labels.

    Notes
    -----
    The files are the OpenTelemetry form; ``ab.export(labels, "labels.csv")`` writes
    CSV, which `read_labels` reads.

    Examples
    --------
    >>> labels = pd.DataFrame({"session_id": ["s1"], "question": "kind"})
    >>> labels = labels.assign(value="refused", rater="ada")
    >>> paths = ab.save_labels(labels, folder / "imported")
    >>> [path.name for path in paths]
    ['ada-fdee43.jsonl']
    """
    table, path = labels_of(labels, "save_labels"), writable(folder)
    known = table.merge(labels_in(path), on=[*_TARGET, "rater", "value", "kind"], how="left", indicator=True)
    table = table[(known["_merge"] == "left_only").to_numpy()]
    files = []
    for rater, rows in table.groupby("rater"):
        files.append(path / file_name(str(rater)))
        write(files[-1], rows.to_dict("records"))
    return files


def with_labels(data: Any, labels: Any, *, rater: str | None = None) -> pd.DataFrame:
    """Turns or sessions with a column per question.

    The columns can be grouped by, as in ``ab.latency(labelled, by="solved")``, and
    compared: ``ab.compare_periods(labelled, metric="solved")``.

    Parameters
    ----------
    data : DataFrame, Listing, History, or any other table
        What was labelled. A session's label counts for all its turns.
    labels : DataFrame, path or Store
        Labels, as `read_labels` reads them.
    rater : str, optional
        Only this rater's. Default: what most raters said, and null if they are divided;
        the newest of several texts.

    Returns
    -------
    DataFrame
        `data` with more columns, one per question and named like it: boolean for a
        yes-or-no question, otherwise str. Null for what was not labelled.

    Raises
    ------
    ValueError
        If `data` has a column of a question's name already, no row was labelled, or
        there is no such rater.

    Examples
    --------
    >>> turns = ab.load_history(client, "acme").turns
    >>> labels = turns[["session_id", "message_id"]].head(2).assign(question="solved")
    >>> labels = labels.assign(value=["yes", "no"], rater="ada")
    >>> labelled = ab.with_labels(turns, labels)
    >>> labelled["solved"].dropna().to_list()
    [True, False]
    """
    table, session, message = targets_of(data, "with_labels")
    found = labels_of(labels, "with_labels")
    if rater is not None:
        names = sorted(set(found["rater"]))
        found = found[found["rater"] == rater]
        if found.empty:
            raise ValueError(f"There is no label by {rater!r}; the raters are {', '.join(names) or 'none'}.")
    columns: dict[str, pd.Series] = {}
    for question, rows in found.groupby("question", sort=False):
        name = str(question)
        if name in table:
            raise ValueError(
                f"with_labels would replace the column {name!r}: drop it, or name the question differently."
            )
        values = verdicts(rows)
        column = session.map(values) if message is None else message.map(values).fillna(session.map(values))
        if set(rows["kind"]) == {BOOL}:
            columns[name] = (column == YES).astype("boolean").mask(column.isna())
        else:
            columns[name] = column.astype(STR)
    if columns and len(table) and all(column.isna().all() for column in columns.values()):
        raise ValueError("None of these turns was labelled: pass the turns that ab.label showed.")
    labelled: pd.DataFrame = table.assign(**columns)
    labelled.attrs = table.attrs
    return labelled


def agreement(labels: Any, data: Any = None, *, seed: int = 0) -> pd.DataFrame:
    """How far raters agree, beyond chance: Krippendorff's alpha of each question.

    Parameters
    ----------
    labels : DataFrame, path or Store
        Labels, as `read_labels` reads them. Texts are left out.
    data : DataFrame, Listing, History, or any other table, optional
        What was labelled, turns or sessions: the interval then counts the people who
        started the sessions. Default: it counts sessions.
    seed : int
        The same seed gives the same interval.

    Returns
    -------
    DataFrame
        A row per question:

        ======== ======= ==============================================================
        column   dtype   meaning
        ======== ======= ==============================================================
        question str
        alpha    float64 1 if all agree, 0 as if by chance, below 0 if they differ more;
                         NaN if all answers are the same
        low      float64 of a 95 % interval; NaN with fewer than five sessions, or
                         people
        high     float64 of that interval
        items    int64   turns or sessions that two or more raters answered
        raters   int64   who answered one of them
        disputed list    ids of the turns or sessions that they answered differently,
                         the most disputed first
        ======== ======= ==============================================================

    Raises
    ------
    ValueError
        If no two turns were labelled by two raters.

    Notes
    -----
    Alpha for nominal data (Krippendorff, 2011, "Computing Krippendorff's
    alpha-reliability"), for any number of raters and missing answers. The interval
    resamples sessions, because the turns of one resemble each other; with `data`, all
    sessions of a person together. Few clusters get wider percentiles (Hesterberg, 2015,
    "What teachers should know about the bootstrap"). Where nobody differed, its lower
    end is the alpha that would still show no difference in one of 20 samples.

    Examples
    --------
    >>> labels = pd.DataFrame({"message_id": list("aabbccdd"), "question": "solved"})
    >>> values = ["yes", "yes", "no", "no", "yes", "yes", "yes", "no"]
    >>> found = ab.agreement(labels.assign(rater=["ada", "tim"] * 4, value=values))
    >>> found[["alpha", "items", "raters"]].round(3).values.tolist()
    [[0.533, 4.0, 2.0]]
    >>> found["disputed"].explode().to_list()
    ['d']
    """
    found = labels_of(labels, "agreement")
    found["cluster"] = found["session_id"].fillna(found["target"])
    if data is not None:
        table, session, _ = targets_of(data, "agreement")
        known = people_of(table).set_axis(session)
        found["cluster"] = found["cluster"].map(known[~known.index.duplicated()]).fillna(found["cluster"])
    closed = found[found["kind"] != TEXT]
    rows, disputed = [], []
    for question, part in closed.groupby("question", sort=False):
        shared = part[part.groupby("target")["rater"].transform("nunique") > 1]
        if shared["target"].nunique() > 1:
            figures = dict(zip(("alpha", "low", "high"), _alpha(shared, np.random.default_rng(seed)), strict=True))
            counts = {"items": shared["target"].nunique(), "raters": shared["rater"].nunique()}
            rows.append({"question": question, **figures, **counts})
            disputed.append(_disputed(shared))
    if not rows:
        raters = sorted(set(closed["rater"]))
        raise ValueError(
            f"Agreement needs two or more turns that two raters labelled; there are none among {len(closed)} labels by "
            f"{', '.join(raters) or 'nobody'}: let both label the same turns, ab.label(..., double=0.2)."
        )
    dtypes = {
        "question": "str",
        **dict.fromkeys(("alpha", "low", "high"), "float64"),
        "items": "int64",
        "raters": "int64",
    }
    frame = typed(pd.DataFrame(rows), dtypes).assign(disputed=lambda table: list_column(disputed, table.index))
    return with_provenance(frame, found, "agreement")


# Frames


def labels_of(labels: Any, caller: str) -> pd.DataFrame:
    """Labels of any source, with their ``target``: the turn's id, or the session's."""
    table = labels if is_tabular(labels) else read_labels(labels)
    found = _newest(_typed(frame_of(table, caller=caller, resource="labels"), caller, "somebody"))
    return found.assign(target=found["message_id"].fillna(found["session_id"]))


def targets_of(data: Any, caller: str) -> tuple[pd.DataFrame, pd.Series, pd.Series | None]:
    """What can be labelled: a table, the ids of its sessions, and those of its turns.

    The last is None if it is a table of sessions.
    """
    table = part_of(data, "turns")
    table = frame_of(data, caller=caller, resource="turns") if table is None else table
    if is_sessions(table):
        return table, table["session_id" if "session_id" in table else "id"].map(normalize, na_action="ignore"), None
    table = turns_of(table, caller=caller)
    require(table, "session_id", "message_id", "reply_id", caller=caller)
    return table, table["session_id"], table["message_id"].fillna(table["reply_id"])


def labels_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Labels as a frame, in their order."""
    return _typed(pd.DataFrame(list(rows), columns=[*COLUMNS, "weight"], dtype=object))


def share(*parts: Any) -> float:
    """A number from 0 to 1 that looks random, and is the same on every machine.

    Examples
    --------
    >>> round(share(0, "m1"), 3)
    0.592
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6]) / 2**48


def _typed(frame: pd.DataFrame, caller: str = "labels", rater: str = "", source: str = "import") -> pd.DataFrame:
    if "message_id" not in frame and "session_id" not in frame:
        raise ValueError(f"{caller} needs labels with the column 'message_id' or 'session_id'.")
    require(frame, "question", "value", caller=caller)
    weight = pd.to_numeric(frame["weight"], errors="coerce") if "weight" in frame else None
    frame = frame.reindex(columns=[*COLUMNS]).astype(object)
    bools = frame["value"].map(lambda value: isinstance(value, bool | np.bool_))
    frame["value"] = frame["value"].mask(bools, frame["value"].map({True: YES, False: NO}))
    at = frame["at"].map(moment_of, na_action="ignore")
    if (unread := frame["at"].notna() & at.isna()).any():
        raise ValueError(
            f"{caller}: at is no time that can be read: {frame['at'][unread].iloc[0]!r:.60}. Use ISO 8601."
        )
    frame["at"] = pd.to_datetime(at, utc=True)
    labels = typed(frame, COLUMNS)
    if weight is not None and weight.notna().any():
        labels["weight"] = weight.astype("float64")
    asks = labels["value"].isin([YES, NO]) | labels["value"].isna()
    guessed = asks.groupby(labels["question"]).transform("all").map({True: BOOL, False: CHOICE})
    fill = {"rater": rater, "source": source}
    return labels.assign(kind=labels["kind"].fillna(guessed)).fillna(
        {name: text for name, text in fill.items() if text}
    )


def _newest(labels: pd.DataFrame) -> pd.DataFrame:
    """The newest label of each rater; without those that were taken back."""
    ordered = labels.sort_values("at", kind="stable", na_position="first")
    last = ordered.drop_duplicates([*_TARGET, "rater"], keep="last")
    return last[last["value"].notna()].reset_index(drop=True)


def verdicts(labels: pd.DataFrame) -> pd.Series:
    """What most raters said about each target; of texts, the newest."""
    counts = labels.groupby(["target", "value"], sort=False).size().reset_index(name="raters")
    if (labels["kind"] == TEXT).all():
        counts = labels.drop_duplicates("target", keep="last")
    else:
        counts = counts[counts["raters"] == counts.groupby("target")["raters"].transform("max")]
        counts = counts[~counts["target"].duplicated(keep=False)]
    return counts.set_index("target")["value"]


def _disputed(labels: pd.DataFrame) -> list[str]:
    """The targets about which raters differ, by the share of pairs that do."""
    counts = labels.groupby(["target", "value"], sort=False).size()
    by_target = counts.groupby("target", sort=False)
    raters = by_target.sum()
    alike = (counts * (counts - 1)).groupby("target", sort=False).sum() / (raters * (raters - 1))
    return list(alike[by_target.size() > 1].sort_values(kind="stable").index)


def _alpha(labels: pd.DataFrame, random: np.random.Generator) -> tuple[float, float, float]:
    """Alpha with its interval; every target has two raters or more."""
    cluster = labels.groupby("target")["cluster"].first()
    counts = pd.crosstab(labels["target"], labels["value"]).reindex(cluster.index)
    values = counts.to_numpy(float)
    raters = values.sum(axis=1)
    differ = (raters**2 - (values**2).sum(axis=1)) / (raters - 1)
    # The sums of each cluster: disagreement, and how often each value was given.
    code, sessions = pd.factorize(cluster)
    sums = np.zeros((len(sessions), 1 + values.shape[1]))
    np.add.at(sums, code, np.column_stack([differ, values]))

    def alpha(totals: Any) -> Any:
        observed, given = totals[..., 0], totals[..., 1:]
        count = given.sum(axis=-1)
        expected = (count**2 - (given**2).sum(axis=-1)) / (count - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(expected > 0, 1 - observed / expected, np.nan), expected

    (point, expected), size = alpha(sums.sum(axis=0)), len(sessions)
    if size < _MIN_SESSIONS or np.isnan(point):
        return float(point), np.nan, np.nan
    if not differ.any():  # chance may have hidden what is true of 3 in `size` sessions
        return 1.0, float(max(1 - 3 / size * raters.sum() / expected, -1)), 1.0
    batch = max(_RESAMPLES * 1000 // size, 1)
    parts = [min(batch, _RESAMPLES - begin) for begin in range(0, _RESAMPLES, batch)]
    drawn = np.concatenate([random.multinomial(size, np.full(size, 1 / size), part) @ sums for part in parts])
    # Resamples of few clusters differ less than such samples do.
    tail = NormalDist().cdf(-math.sqrt(size / (size - 1)) * t_quantile(size - 1))
    low, high = np.nanquantile(alpha(drawn)[0], (tail, 1 - tail))
    return float(point), float(low), float(high)


# Files


def folder_of(place: Any) -> Path:
    """The folder of labels that a path or a store names."""
    path = os.path.join(place.path, "labels") if hasattr(place, "path") else place
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"Labels are kept in a folder, such as 'labels', not in a {type(place).__name__}.")
    if "://" in str(path):
        raise ValueError(f"Labels need a folder on this machine, not {path}: pass folder='labels'.")
    return Path(path).expanduser()


def writable(folder: Any) -> Path:
    """The folder, made if need be; an `OSError` if nothing can be written there."""
    path = folder_of(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(None, "you may not write there")
    except OSError as error:
        reason = "it is a file" if path.is_file() else error.strerror
        raise OSError(f"Labels cannot be written to the folder {path}: {reason}. Pass another folder.") from error
    return path


def labels_in(folder: Path) -> pd.DataFrame:
    """The labels in a folder; none if there is no such folder."""
    return read_labels(folder) if folder.is_dir() else labels_frame([])


def me() -> str:
    """Who labels, if nobody says so: the name of the user on this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # of a container without users
        return "somebody"


def file_name(rater: str) -> str:
    """The file of a rater's labels.

    Examples
    --------
    >>> file_name("Ada L./1"), file_name("ada l.-1")
    ('Ada-L-1-ba225c.jsonl', 'ada-l-1-662e1f.jsonl')
    """
    return (
        f"{re.sub(r'[^A-Za-z0-9]+', '-', rater)[:40].strip('-')}-{hashlib.sha256(rater.encode()).hexdigest()[:6]}.jsonl"
    )


def write(file: Path, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Add labels to a file; they are on the disk when this returns."""
    append(file, b"".join(_line(row) for row in rows))


def _line(row: Mapping[Any, Any]) -> bytes:
    value, kind = row["value"], row["kind"]
    known = {_NAME: row["question"], MESSAGE: row["message_id"], SESSION: row["session_id"]}
    if not pd.isna(value):
        known |= {_TEXT: value} if kind == TEXT else {_LABEL: value}
        known |= {_SCORE: float(value == YES)} if kind == BOOL else {}
    known |= {_RATER: row["rater"], _SOURCE: row["source"], _WEIGHT: row.get("weight")}
    attributes = attributes_of({key: None if pd.isna(each) else each for key, each in known.items()})
    at = pd.Timestamp.now("UTC") if pd.isna(row["at"]) else pd.Timestamp(row["at"])
    record = {"timeUnixNano": str(at.floor("us").value), "eventName": _EVENT, "attributes": attributes}
    logs = {"scope": {"name": "agentbook.labels"}, "schemaUrl": SCHEMA, "logRecords": [record]}
    return json.dumps({"resourceLogs": [{"scopeLogs": [logs]}]}).encode() + b"\n"


def _read(file: Path) -> tuple[pd.DataFrame, int]:
    """The labels of a file, and how many lines are none."""
    if file.suffix.lower() in (".csv", ".tsv", ".txt"):
        data = file.read_bytes()
        try:
            text = data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
            table = pd.read_csv(io.StringIO(text), dtype=str, sep=separator_of(text.partition("\n")[0]))
        except UnicodeDecodeError:
            raise ValueError(f'{file} is not in UTF-8: save it as "CSV UTF-8", as Excel calls it.') from None
        except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            raise ValueError(f"{file} is not a CSV file of labels: {error}.") from error
        return _typed(table, str(file), file.stem), 0
    rows, lost, lines = [], 0, file.read_text("utf-8", "replace").splitlines()
    for line in filter(str.strip, lines):
        try:
            events = list(_events(json.loads(line)))
            rows += [_row(event, file.stem) for event in events]
            lost += not events
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            lost += 1
    if lost > 1 and not rows:
        raise ValueError(f"{file} has no labels: none of its lines is an event {_EVENT}.")
    return labels_frame(rows), lost


def _events(node: Any) -> Iterator[dict[str, Any]]:
    """The events in a line, however deep a collector has put them."""
    if isinstance(node, dict) and _EVENT in (node.get("eventName"), node.get("event_name"), node.get("name")):
        yield node
    elif isinstance(node, dict | list):
        for each in node.values() if isinstance(node, dict) else node:
            yield from _events(each)


def _row(event: Mapping[str, Any], rater: str) -> dict[str, Any]:
    given = event["attributes"]
    given = values_of(given) if isinstance(given, list) else given
    score, label, text = given.get(_SCORE), given.get(_LABEL), given.get(_TEXT)
    kind = BOOL if label in (YES, NO) and score is not None else CHOICE if (label, score) != (None, None) else TEXT
    at = event.get("timeUnixNano") or event.get("observedTimeUnixNano")
    return {
        "session_id": given.get(SESSION), "message_id": given.get(MESSAGE), "question": given[_NAME],
        "value": label if label is not None else f"{score:g}" if score is not None else text, "kind": kind,
        "rater": given.get(_RATER, rater), "source": given.get(_SOURCE, "import"),
        "at": moment_of(at), "weight": given.get(_WEIGHT),
    }  # fmt: skip
