"""`label`: questions about turns, beside the conversation, answered by a person."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..._text import replace_surrogates, safe_repr, shows_call
from ...events import loop
from ...frames.analysis.arguments import zone_in
from ...frames.analysis.modes import FailureModes
from ...frames.labels import BOOL, CHOICE, NO, TEXT, YES, file_name, labels_in, me, share, targets_of, writable, write
from ...frames.tabular import events_of, frame_of, part_of
from ..assets import read_module, read_style
from ..html.sanitize import escape, visible
from ..html.static_transcript import static_element
from ..html.style import live_css
from ..widgets.page_view import PageView
from .conversation import OpenedConversation, open_conversation
from .explorer import READ_TIMEOUT_S, Shown
from .source import Source

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

EXPECTED = "expected"
_NO_TEXTS = (
    "label needs the conversations: pass a History, events=, client=, or turns with their texts, "
    "ab.turns(events, texts=True)."
)


def label(
    turns: Any,
    questions: Mapping[str, Any],
    *,
    folder: Any = "labels",
    rater: str | None = None,
    double: float = 1.0,
    expected: bool = False,
    events: Any = None,
    client: Client | AsyncClient | None = None,
    seed: int = 0,
    tz: str | tzinfo | None = None,
) -> Labeller:
    """Ask a person questions about turns or sessions, each beside its conversation.

    Answers are kept at once in a folder, in a file of each rater, so several people can
    label at the same time; a later call goes on where this one stopped. `read_labels`
    reads them.

    Parameters
    ----------
    turns : History, DataFrame, or any other table
        Turns, such as the `selection` of an `Explorer`; or sessions, as
        ``client.sessions.list(workspace)`` gives them.
    questions : dict
        What is asked, by name: ``bool`` for yes or no, a list of choices, or ``str``
        for a text. The name becomes a column of `with_labels`. ``{"mode": modes}`` asks
        for one of the `failure_modes`, which can be renamed, merged and split there.
    folder : path or Store
        Where labels are kept; a store keeps them in its folder ``labels``.
    rater : str, optional
        Who answers. Default: the name of the user on this machine.
    double : float
        The share, from 0 to 1, that all raters get first, to see how far they agree.
        Every other turn goes to whoever comes first.
    expected : bool
        Whether to ask for the reply that would have been right, as the text
        ``expected``.
    events : DataFrame, optional
        Where conversations are read from, if `turns` has turns only.
    client : Client or AsyncClient, optional
        Reads from the platform the conversations that are not among the events.
    seed : int
        Raters with the same turns and seed get the same share.
    tz : str or tzinfo, optional
        Time zone of the conversation. Default: that of the history, else UTC.

    Returns
    -------
    Labeller
        A cell that ends with it shows it. ``answer(solved=True)`` answers, ``skip()``
        leaves the turn for later, ``undo()`` takes the last step back, ``current`` is
        the row that is shown, ``labels`` are the rater's own, ``progress`` says how
        far each rater is, and ``modes`` are the failure modes that were asked for, as
        they are now.

    Raises
    ------
    OSError
        If the folder cannot be written.
    TypeError, ValueError
        If `turns` has no texts, or a question is not one; the message says what to do.

    Notes
    -----
    Nobody sees what others answered. Keys 1 to 9 answer, Enter goes on, S skips and U
    takes back.

    Examples
    --------
    >>> history = ab.load_history(client, "acme")
    >>> questions = {"solved": bool, "kind": ["wrong", "unclear", "refused"]}
    >>> labeller = ab.label(history, questions, folder=folder / "answers", rater="ada")
    >>> labeller.answer(solved=False, kind="unclear")
    >>> labeller.skip()
    >>> labeller
    <Labeller: ada has labelled 1 of ... turns, 1 skipped>
    >>> ab.with_labels(history, labeller.labels)["kind"].dropna().to_list()
    ['unclear']
    """
    table, session, message = targets_of(turns, "label")
    events = part_of(turns, "turn_events") if events is None else events_of(events, caller="label (events)")
    if events is None and "author_type" in (frame := frame_of(turns, caller="label")) and "turn" not in frame:
        events = frame
    if events is None and client is None:
        if message is None or not {"prompt", "reply"} <= set(table.columns):
            raise ValueError(_NO_TEXTS)
        events = _events_of(table)
        table = table.assign(turn=table.groupby("session_id")["asked_at"].rank(method="first").fillna(1))
    shown = table.assign(session_id=session, message_id=message, **({"turn": 1} if message is None else {}))
    source = Source(turns, shown, shown, None, events, client, "", "")
    target = session if message is None else message
    asked = _asked(
        {**questions, **({EXPECTED: str} if expected else {})} if isinstance(questions, Mapping) else questions
    )
    modes = next(
        ((visible(name).strip(), each) for name, each in questions.items() if isinstance(each, FailureModes)), None
    )
    if clash := next((name for name in asked if name in table), None):
        raise ValueError(f"The turns already have a column {clash!r}: name the question differently.")
    if not isinstance(double, int | float) or not 0 <= double <= 1:
        raise ValueError(f"double must be a share from 0 to 1, such as 0.2, not {double!r}.")
    rows = dict(zip(target[::-1], range(len(table) - 1, -1, -1), strict=True))  # the first of each
    keys = [key for key in dict.fromkeys(target) if isinstance(key, str)]
    if not keys:
        raise ValueError("There is nothing to label: the table is empty.")
    if not isinstance(rater, str | None) or not (rater := (me() if rater is None else rater).strip()):
        raise ValueError(f"rater= must be a name, such as 'ada', not {rater!r}.")
    return Labeller(source, asked, keys, rows, writable(folder), rater, double, seed, zone_in(tz, table), modes)


class LabelView(PageView):
    """Shows a labeller in a page."""

    _esm = read_module("explorer/label.js")
    _css = f"{live_css()} {read_style('explorer/conversation.css', 'explorer/label.css')}"


class Labeller(Shown):
    """Questions about turns, one turn after another. `label` makes one."""

    _view_type = LabelView

    @shows_call("ab.label(history, {'solved': bool})")
    def __init__(
        self,
        source: Source,
        questions: Mapping[str, tuple[str, list[str]]],
        keys: list[str],
        rows: Mapping[str, int],
        folder: Any,
        rater: str,
        double: float,
        seed: int,
        tz: str,
        modes: tuple[str, FailureModes] | None,
    ) -> None:
        super().__init__(_saved_html)
        self._source, self._questions, self._rows, self._tz = source, dict(questions), rows, tz
        self._of_modes: str = modes[0] if modes else ""
        self.modes: FailureModes | None = modes[1] if modes else None
        self._folder, self._rater = folder, rater
        by_chance = sorted(keys, key=lambda key: share(seed, key))
        self._shared = set(by_chance[: math.ceil(double * len(keys))])
        self._keys, self._seed, self._raters = keys, seed, frozenset[str]()
        labels = self.labels
        targets = labels["message_id"].fillna(labels["session_id"])
        self._mine = dict(zip(zip(targets, labels["question"], strict=True), labels["value"], strict=True))
        self._skipped: dict[str, None] = {}
        self._steps: list[tuple[str, str | None, str | None]] = []  # key, question, what was said before
        self._notice, self._current, self._opened = "", "", OpenedConversation(-1, "", "", "")
        self._advance()

    @property
    def labels(self) -> pd.DataFrame:
        """The rater's own labels, with the columns of `read_labels`."""
        labels = labels_in(self._folder)
        return labels[labels["rater"] == self._rater].reset_index(drop=True)

    @property
    def progress(self) -> pd.DataFrame:
        """How far each rater is with each question.

        The columns are ``rater`` and ``question``; ``done``, how many turns they
        answered; ``left``, how many wait for them; ``overlap``, how many others
        answered too (int64); and ``days`` since their last answer (float64, NaN if
        there is none).
        """
        labels = labels_in(self._folder)
        labels = labels.assign(target=labels["message_id"].fillna(labels["session_id"]))
        labels = labels[labels["target"].isin(self._keys) & labels["question"].isin(list(self._questions))]
        now, rows = pd.Timestamp.now("UTC"), []
        for question in self._questions:
            part = labels[labels["question"] == question]
            raters = part.groupby("target")["rater"].nunique()
            for rater in dict.fromkeys([self._rater, *labels["rater"]]):
                mine = part[part["rater"] == rater]
                left = set(self._keys) - set(mine["target"]) - (set(raters.index) - self._shared)
                overlap, days = int((raters[mine["target"]] > 1).sum()), (now - mine["at"].max()) / pd.Timedelta("1D")
                rows.append((rater, question, len(mine), len(left), overlap, days))
        columns = ["rater", "question", "done", "left", "overlap", "days"]
        return pd.DataFrame(rows, columns=columns).astype({"rater": "str", "question": "str", "days": "float64"})

    @property
    def current(self) -> pd.Series[Any] | None:
        """The row that is shown; None if all are labelled.

        What the row lacks is None too, such as the reply of a failed turn.
        """
        if not self._current:
            return None
        row = self._source.turns.iloc[self._rows[self._current]].astype(object)
        return row.where(row.notna(), None)

    def answer(self, **answers: Any) -> None:
        """Answer questions about the turn that is shown, and go on once all are.

        Parameters
        ----------
        **answers
            The values by question: True or False, a choice, a text; None takes an
            answer back.

        Raises
        ------
        OSError
            If the labels cannot be written.
        ValueError
            If there is no such question or choice, or no turn is left.
        """
        if not self._current:
            raise ValueError("All turns are labelled: undo() goes back to the last one.")
        values = {name: self._value(name, value) for name, value in answers.items()}
        self._do(lambda: self._say(values, goes_on=True))

    def skip(self) -> None:
        """Put off the turn that is shown until the end."""
        self._do(self._skip)

    def undo(self) -> None:
        """Undo the last answer or skip, and show its turn.

        Raises
        ------
        OSError
            If the labels cannot be written.
        """
        self._do(self._undo)

    def _do(self, work: Callable[[], None]) -> None:
        def step() -> dict[str, Any]:
            work()
            return self._state()

        loop.run(self._answer(None, step), READ_TIMEOUT_S, operation="label")

    # Steps, one at a time: they run in a worker thread

    def _value(self, question: str, value: Any) -> str | None:
        if question not in self._questions:
            raise ValueError(f"There is no question {question!r}; there are {', '.join(self._questions)}.")
        kind, choices = self._questions[question]
        text = (
            (YES if value else NO)
            if isinstance(value, bool)
            else None
            if value is None
            else replace_surrogates(str(value)).strip() or None
        )
        if kind != TEXT and text is not None and text not in choices:
            raise ValueError(f"{question!r} can be {', '.join(choices)}, not {value!r}.")
        return text

    def _say(self, values: Mapping[str, str | None], *, goes_on: bool) -> None:
        self._put(values)
        if goes_on and self._is_done(self._current):
            self._advance()

    def _put(self, values: Mapping[str, str | None]) -> None:
        row, key = self._source.turns.iloc[self._rows[self._current]], self._current
        said = {name: value for name, value in values.items() if self._mine.get((key, name)) != value}
        lines = [
            {
                "session_id": row["session_id"], "message_id": row["message_id"], "question": name, "value": value,
                "kind": self._questions[name][0], "rater": self._rater, "source": "person", "at": None,
                "weight": row.get("weight"),
            }
            for name, value in said.items()
        ]  # fmt: skip
        if lines:
            write(self._folder / file_name(self._rater), lines)
        for name, value in said.items():
            self._steps.append((key, name, self._mine.pop((key, name), None)))
            if value is not None:
                self._mine[key, name] = value

    def _is_done(self, key: str) -> bool:
        closed = [name for name, (kind, _) in self._questions.items() if kind != TEXT]
        given = [(key, name) in self._mine for name in closed or self._questions]
        return all(given) if closed else any(given)

    def _open_keys(self) -> list[str]:
        """What is left for this rater, beginning after what is shown."""
        taken: set[str] = set()
        if len(self._shared) < len(self._keys):
            labels = labels_in(self._folder)
            labels = labels[labels["rater"] != self._rater]
            taken = set(labels["message_id"].fillna(labels["session_id"])) - self._shared
            if (raters := frozenset([self._rater, *labels["rater"]])) != self._raters:
                self._raters = raters
                self._keys = sorted(self._keys, key=self._place)
        self._left = [key for key in self._keys if key not in taken or self._is_done(key)]
        at = self._left.index(self._current) + 1 if self._current in self._left else 0
        return [key for key in self._left[at:] + self._left[:at] if not self._is_done(key)]

    def _place(self, key: str) -> tuple[int, float]:
        """Where a turn stands: those of all raters, one's own, then others' last ones.

        So two people meet at a turn only when hardly any is left.
        """
        if key in self._shared:
            return 0, 0.0
        by_rater = {share(self._seed, rater, key): rater for rater in self._raters}
        first = min(by_rater)
        return (1, first) if by_rater[first] == self._rater else (2, -first)

    def _of_others(self) -> str:
        """What the others of a team have done, for the view."""
        table = self.progress
        table = table[(table["rater"] != self._rater) & (table["done"] > 0)]
        said = [
            f"{rater}: {part['done'].max():,} done, {part['left'].max():,} left, {part['overlap'].max():,} shared, "
            + ("today" if part["days"].min() < 1 else f"{part['days'].min():.0f} days ago")
            for rater, part in table.groupby("rater", sort=False)
        ]
        return f" ({'; '.join(said)})" if said else ""

    def _advance(self) -> None:
        left = self._open_keys()
        self._team = self._of_others()
        self._show(next((key for key in left if key not in self._skipped), next(iter(left), "")))

    def _show(self, key: str) -> None:
        self._current, row = key, self._rows.get(key, -1)
        if not key:
            self._opened = OpenedConversation(row, "", "", "")
        elif self._opened.row != row:
            self._opened = open_conversation(self._source, row, self._tz)

    def _skip(self) -> None:
        if self._current:
            self._skipped[self._current] = None
            self._steps.append((self._current, None, None))
            self._advance()

    def _undo(self) -> None:
        if self._steps:
            key, question, before = self._steps.pop()
            self._show(key)
            if question is None:
                self._skipped.pop(key, None)
            else:
                self._put({question: before})
                self._steps.pop()

    # The page

    async def _handle(self, message: dict[str, Any]) -> None:
        await self._answer(0, lambda: self._react(message))

    def _react(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a page says: ``answer`` a question, ``next``, ``skip`` or ``undo``.

        A message about another turn than the one that is shown changes nothing.
        """
        self._notice = ""
        if message.get("item") == self._current or message.get("kind") == "undo":
            try:
                self._step(message)
            except (OSError, ValueError) as error:
                self._notice = str(error)
        return self._state()

    def _step(self, message: Mapping[str, Any]) -> None:
        has_texts = any(kind == TEXT for kind, _ in self._questions.values())
        match message.get("kind"):
            case "answer" if self._current:
                name = str(message.get("name"))
                self._say({name: self._value(name, message.get("value"))}, goes_on=not has_texts)
            case "next" if self._current and not self._is_done(self._current):
                self._notice = "Answer the questions first, or skip this one."
            case "next":
                self._advance()
            case "skip":
                self._skip()
            case "undo":
                self._undo()
            case "rename" if self.modes is not None:
                name, to = str(message.get("name")), visible(str(message.get("to"))).strip()
                self._change(self.modes.rename({name: to}), name, to)
            case "split" if self.modes is not None:
                modes = self.modes.split(name := str(message.get("name")))
                if len(modes) == len(self.modes):
                    raise ValueError(f"The notes of {name!r} are alike, so they stay together.")
                self._change(modes, name)

    def _change(self, modes: FailureModes, name: str, to: str | None = None) -> None:
        """Use other modes; what this rater chose changes with them."""
        chosen = [key for (key, question), said in self._mine.items() if (question, said) == (self._of_modes, name)]
        labels, parts = modes.labels, set(modes) - (set(self.modes or ()) - {name})
        noted = dict(zip(labels["message_id"].fillna(labels["session_id"]), labels["value"], strict=True))
        self.modes, self._questions[self._of_modes], shown = modes, (CHOICE, list(modes)), self._current
        for self._current in chosen:
            now = to or noted.get(self._current)
            self._put({self._of_modes: now if to or now in parts else None})
        self._current = shown
        self._steps.clear()  # they may name what is gone

    def _sentence(self) -> str:
        noun = "sessions" if self._source.turns["message_id"].isna().all() else "turns"
        done = sum(self._is_done(key) for key in self._left)
        skipped = sum(key in self._skipped and not self._is_done(key) for key in self._left)
        return f"{self._rater} has labelled {done:,} of {len(self._left):,} {noun}" + (
            f", {skipped:,} skipped" if skipped else ""
        )

    def _state(self) -> dict[str, Any]:
        return {
            "kind": "state",
            "item": self._current,
            "title": visible(self._opened.title),
            "html": self._opened.html,
            "questions": [[name, kind, choices] for name, (kind, choices) in self._questions.items()],
            "values": [self._mine.get((self._current, name)) for name in self._questions],
            "sentence": visible(self._sentence() + self._team),
            "notice": visible(self._notice),
            "undo": bool(self._steps),
            "modes": self.modes and list(self.modes),
        }

    def _saved(self) -> tuple[Any, ...]:
        return self._sentence(), self._opened

    @safe_repr
    def __repr__(self) -> str:
        return f"<Labeller: {self._sentence()}>"


def _asked(questions: Any) -> dict[str, tuple[str, list[str]]]:
    """The kind and the choices of each question."""
    asked: dict[str, tuple[str, list[str]]] = {}
    for name, kind in questions.items() if isinstance(questions, Mapping) else ():
        texts = [visible(str(choice)).strip() for choice in kind] if isinstance(kind, list | tuple) else []
        choices = [text for text in dict.fromkeys(texts) if text]
        choices = list(kind) if (is_modes := isinstance(kind, FailureModes)) else choices
        if isinstance(name, str) and name.strip() and (kind in (bool, str) or is_modes or len(choices) > 1):
            asked[visible(name).strip()] = (
                (BOOL, [YES, NO]) if kind is bool else (TEXT, []) if kind is str else (CHOICE, choices)
            )
    if not asked or len(asked) < len(questions):
        raise ValueError(
            "Questions are bool, str or a list of choices by name, as in "
            f"{{'solved': bool, 'kind': ['wrong', 'unclear'], 'note': str}}, not {questions!r:.80}."
        )
    return asked


def _events_of(turns: pd.DataFrame) -> pd.DataFrame:
    """Questions and replies of turns with texts, as events with ids of their own."""
    asked = turns[["session_id"]].assign(type="message", author_type="user", text=turns["prompt"], at=turns["asked_at"])
    answered = turns[["session_id"]].assign(
        type="runtime_done", author_type="agent", author_name=turns.get("agent"), text=turns["reply"], at=turns["replied_at"]
    )  # fmt: skip
    events = pd.concat([asked, answered[turns["reply"].notna()]]).sort_values("at", kind="stable", ignore_index=True)
    return events.assign(id=[f"00000000-0000-7000-8000-{number:012x}" for number in range(len(events))])


def _saved_html(sentence: str, opened: OpenedConversation, uid: str) -> str:
    title = f'<div class="ab-who">{escape(opened.title)}</div>' if opened.title else ""
    return static_element(uid, f"<p>{escape(sentence)}.</p>{title}{opened.near}", "ab-x-saved")
