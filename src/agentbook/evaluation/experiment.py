"""An experiment: variants, inputs, checks and answers, without agent and widgets.

The answers are objects, and a table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from .._text import safe_repr
from ..frames.analysis.prices import PriceTable, cost_of, price_table
from ..frames.analysis.turn_details import BY_MODEL, MEASURES
from ..frames.tabular import to_strings, typed
from ..live.listeners import Listeners
from . import statistics
from .asserts import grade_check
from .check import Check
from .checks import read_checks
from .inputs import InputSet, numbered
from .model import Grade, Reply, Step
from .variant import Variant, same_settings

if TYPE_CHECKING:
    import pandas as pd

    from ..frames.plot.chart import Chart

Status = Literal["asking", "answered", "failed", "stopped"]
STATUSES: tuple[Status, ...] = get_args(Status)
Key = tuple[str, str, int]

# column -> dtype; the columns of the checks follow.
COLUMNS = {
    "variant": "str",
    "agent": "str",
    "version": "str",
    "input": "str",
    "repeat": "int64",
    "reply": "str",
    "latency_s": "float64",
    "status": "category",
    "reason": "str",
    "session_id": "str",
    "request_id": "str",
    "asked_at": "datetime64[us, UTC]",
    "model": "str",
    "tokens": "Int64",
    "cost": "float64",
    "finish_reason": "str",
    "run_at": "datetime64[us, UTC]",
}
# What follows the column of a check where it is known.
CHECK_COLUMNS = {"score": "float64", "reason": "str", "judge": "str"}
LAST_COLUMNS = ("passed", "check_error", "thumb", "note")
_OF_SUMMARY = ("pass_rate", "n", "answered", "failed", "p50_s", "p95_s", "max_s")  # besides those of the results


@dataclass(slots=True)
class Answer:
    """The answer of one variant to one input.

    Of a conversation, `reply` is the last one, `latency_s` is that of the slowest, and
    steps, tokens and cost are those of all turns.

    Attributes
    ----------
    variant, input : str
    repeat : int
        Counts from 1; the same input may be asked several times.
    status : {"asking", "answered", "failed", "stopped"}
    reason : str or None
        Why it failed, in words.
    still_open : bool
        Whether the agent may still finish the turn. If so, the next run looks for the
        reply in the session before it asks again.
    latency_s : float or None
        Seconds from sending to the reply.
    verdicts : dict of str to Grade
        By the name of the check; empty until there is a reply.
    steps : list of Step or None
        What the agent ran before it replied, such as tools; None if not known.
    model : str or None
        The model that answered, if the platform says so.
    input_tokens, output_tokens, tokens, cached_tokens, cache_write_tokens : int or None
        What the reply used, if the platform says so; likewise `reported_cost` and
        `usage_by_model`, as in `turns`.
    thumb : bool or None
        What a person thinks of the reply: up, down, or nothing yet.
    note : str or None
        What a person wrote about it.
    message : str or None
        What was sent, if that is not the input itself (see `inputs.Input`).
    row : dict
        The row that the input comes from: its values by column.
    cost : float or None
        In the currency of the prices; None if not known.
    finish_reason : str or None
        Why the model stopped writing, such as ``"length"``; None if not known.
    turns : list of Reply
        Those of a conversation, as far as it got; empty for a single question.
    run_at : datetime or None
        When the run that asked it began; the same for all that it asked.
    """

    variant: str
    input: str
    repeat: int = 1
    status: Status = "asking"
    agent: str | None = None
    version: str | None = None
    reply: str | None = None
    reason: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    asked_at: datetime | None = None
    latency_s: float | None = None
    still_open: bool = False
    verdicts: dict[str, Grade] = field(default_factory=dict)
    steps: list[Step] | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reported_cost: float | None = None
    usage_by_model: str | None = None
    thumb: bool | None = None
    note: str | None = None
    message: str | None = None
    row: dict[str, Any] = field(default_factory=dict)
    cost: float | None = None
    finish_reason: str | None = None
    turns: list[Reply] = field(default_factory=list)
    run_at: datetime | None = None

    @property
    def question(self) -> str:
        """What was sent."""
        return self.input if self.message is None else self.message

    @property
    def shown(self) -> str:
        """The reply, or all of a conversation, as Markdown."""
        said = ((turn.prompt.replace("\n", "\n> "), turn.text) for turn in self.turns)
        return "\n\n".join(f"> {message}\n\n{reply}" for message, reply in said) or self.reply or ""

    def cost_by(self, prices: PriceTable) -> float | None:
        """What it costs by these prices; None if not known."""
        return cost_of({name: getattr(self, name) for name in ("model", *MEASURES, BY_MODEL)}, prices)

    @property
    def key(self) -> Key:
        return self.variant, self.input, self.repeat

    def as_reply(self) -> Reply:
        """What a check may know about it."""
        values, prompt = {"input": self.question, **self.row}, self.turns[-1].prompt if self.turns else self.question
        return Reply(
            self.reply or "", self.latency_s, self.cost, prompt, values, self.input, self.steps, self.turns,
            self.session_id, self.finish_reason,
        )  # fmt: skip

    def judge(self, checks: Iterable[Check]) -> None:
        """Apply the checks that have no grade yet, except those that ask a judge."""
        if self.status == "answered" and self.reply is not None:
            for check in checks:
                if check.name not in self.verdicts and not check.judges:
                    self.verdicts[str(check.name)] = grade_check(check, self.as_reply())

    def passed(self, names: Iterable[str]) -> bool | None:
        """Whether it passed all of these checks; None if not known."""
        grades = [self.verdicts.get(name, _PENDING) for name in names]
        verdicts = [grade.passed for grade in grades if grade.passed is not None or grade.error is not None]
        if not verdicts or self.status != "answered":
            return None
        return False if False in verdicts else None if None in verdicts else True

    def as_data(self) -> dict[str, Any]:
        """The answer as plain data, ready for JSON."""
        data = {name: getattr(self, name) for name in _FIELDS}  # asdict would copy more than needed
        data["verdicts"] = {name: grade_data(grade) for name, grade in list(self.verdicts.items())}
        data["row"] = dict(self.row)
        data["turns"] = [{name: getattr(turn, field) for name, field in _TURN.items()} for turn in self.turns]
        for name in _TIMES:
            data[name] = data[name].isoformat() if data[name] is not None else None
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Answer:
        """The answer that `as_data` wrote."""
        turns = [{_TURN[name]: value for name, value in turn.items()} for turn in data.get("turns", ())]
        return msgspec.convert({**data, "turns": turns}, cls)


_PENDING = Grade(None, error="not graded yet")


def grade_data(grade: Grade) -> dict[str, Any]:
    """A grade as plain data, ready for JSON."""
    return {name: getattr(grade, name) for name in ("passed", "score", "error", "reason", "judge")}


def pending(grade: Grade | None) -> bool:
    """Whether a check that applies has no outcome."""
    return grade is None or grade.error is not None


_FIELDS = tuple(attribute.name for attribute in fields(Answer))
_TIMES = ("asked_at", "run_at")
# The fields of a turn in data, and those of a `Reply`.
_TURN = {"message": "prompt", "reply": "text"}
_TURN |= {name: name for name in ("latency_s", "cost", "session_id", "steps", "finish_reason")}


def to_frame(answers: Sequence[Answer], checks: Sequence[str] = ()) -> pd.DataFrame:
    """Answers as a tidy DataFrame.

    Parameters
    ----------
    answers : sequence of Answer
    checks : sequence of str
        Names of the checks that get a column.

    Returns
    -------
    DataFrame
        One row per variant, input and repeat. An empty frame has the same dtypes.

        ===========  ===================  ====  ==================================
        column       dtype                unit  meaning
        ===========  ===================  ====  ==================================
        variant      str                        name of the variant
        agent        str                        the agent that answered
        version      str                        version number the agent had
        input        str
        repeat       int64                      counts from 1
        reply        str                        missing until there is one
        latency_s    float64              s     from sending to the reply
        status       category                   answered, failed, stopped; asking
                                                during a run
        reason       str                        why it failed
        session_id   str                        where it was asked
        request_id   str                        id of the refused request
        asked_at     datetime64[us, UTC]        when it was asked
        model        str                        language model, where the platform
                                                sends it; so the next two
        tokens       Int64                      that the model read and wrote
        cost         float64                    with ``prices=``, in their currency
        finish_reason str                       why the model stopped writing, such as
                                                ``length``, where the platform says so
        run_at       datetime64[us, UTC]        when the run that asked it began
        (check)      boolean                    a column per check: passed or not;
                                                missing without a reply
        (..)_score   float64                    of a check that returns scores; missing
                                                where it could not decide
        (..)_reason  str                        of a check that gives reasons
        (..)_judge   str                        the agent that judged, its version, and
                                                the version of its prompt
        passed       boolean                    whether it passed every check
        check_error  str                        why a check could not decide
        thumb        boolean                    what a person thinks of the reply
        note         str                        what a person wrote about it
        (column)     object                     of the rows that inputs come from;
                                                ``input_…`` if the name is taken
        ===========  ===================  ====  ==================================

    Examples
    --------
    >>> frame = to_frame([Answer("brief", "Hi", status="answered", reply="Hello.")])
    >>> frame.loc[0, ["variant", "reply", "status"]].tolist()
    ['brief', 'Hello.', 'answered']
    """
    import pandas as pd

    columns: dict[str, Any] = {name: [getattr(each, name) for each in answers] for name in COLUMNS}
    dtypes = dict(COLUMNS)
    for name in checks:
        verdicts = [each.verdicts.get(name, Grade(None)) for each in answers]
        columns[name], dtypes[name] = [verdict.passed for verdict in verdicts], "boolean"
        for part, dtype in CHECK_COLUMNS.items():
            known = [getattr(verdict, part) for verdict in verdicts]
            if any(each is not None for each in known):
                columns[f"{name}_{part}"], dtypes[f"{name}_{part}"] = known, dtype
    columns["passed"] = [each.passed(checks) for each in answers]
    columns["check_error"] = [_errors(each, checks) for each in answers]
    columns |= {name: [getattr(each, name) for each in answers] for name in ("thumb", "note")}
    dtypes |= {"passed": "boolean", "check_error": "str", "thumb": "boolean", "note": "str"}
    frame = typed(pd.DataFrame(columns, dtype=object), dtypes, {"status": STATUSES})
    for name in dict.fromkeys(name for each in answers for name in each.row):
        values = pd.Series([each.row.get(name) for each in answers], dtype=object).infer_objects()
        free = next(each for number in itertools.count() if (each := "input_" * number + name) not in frame)
        frame[free] = to_strings(values) if values.dtype == object else values
    return frame


def _errors(answer: Answer, checks: Sequence[str]) -> str | None:
    verdicts = ((name, answer.verdicts.get(name)) for name in checks)
    return "; ".join(f"{name}: {verdict.error}" for name, verdict in verdicts if verdict and verdict.error) or None


Listener = Callable[[Answer | None], None]


@dataclass(frozen=True, slots=True, repr=False)
class Revision:
    """An earlier text of a variant.

    Attributes
    ----------
    variant : Variant
        As it was.
    answers : tuple of Answer
        The replies to it.
    """

    variant: Variant
    answers: tuple[Answer, ...]

    @safe_repr
    def __repr__(self) -> str:
        return f"Revision({self.variant!r}, {len(self.answers)} replies)"


class Experiment:
    """What is being tried out, and the results.

    Attributes
    ----------
    answered : dict of (str, str, int) to Answer
        By variant, input and repeat.
    earlier : dict of str to list of Revision
        By variant: its earlier texts with the answers to them, newest first.
    input_set : InputSet
    default_judge : str or None
        The agent that judges where a check names none.
    repeats : int
        Number of times that a run asks each input, unless it is told otherwise.
    regressions : DataFrame or None
        The cells that the last run broke since the previous run of the same cells, with
        the columns of `agentbook.evaluation.runs.compare_runs`. None before a run, and
        if there is no earlier one.
    """

    def __init__(self) -> None:
        self.default_judge: str | None = None
        self.answered: dict[Key, Answer] = {}
        self.earlier: dict[str, list[Revision]] = {}
        self._variants: dict[str, Variant] = {}
        self._running: frozenset[str] = frozenset()  # variants that a run is asking
        self.input_set = InputSet()
        self._checks: dict[str, Check] = {}
        self.repeats = 1
        self.regressions: pd.DataFrame | None = None
        self._listeners = Listeners[Answer | None]()

    # Inputs

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs in tables; for most, the text itself."""
        return self.input_set.texts

    @inputs.setter
    def inputs(self, inputs: Iterable[str]) -> None:
        self.input_set.texts = list(inputs)

    # Variants

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The variants by name, in the order they were added."""
        return MappingProxyType(self._variants)

    def variant(self, variant: str | Variant) -> Variant:
        """The variant with this name; a new `Variant` is added.

        Raises
        ------
        ValueError
            If there is no such name, or another variant has the name.
        """
        if isinstance(variant, Variant):
            return self.add_variant(variant)
        if variant not in self._variants:
            names = ", ".join(self._variants) or "none yet"
            raise ValueError(f"There is no variant {variant!r}; there are: {names}.")
        return self._variants[variant]

    def add_variant(self, variant: Variant) -> Variant:
        """See `PromptLab.add_variant`."""
        existing = self._variants.setdefault(variant.name, variant)
        if existing != variant:
            raise ValueError(
                f"There is already a different variant {variant.name!r}. Choose another name, or edit that one "
                "(lab.edit_variant, or “Edit” beside it in the form), which keeps its results as a revision."
            )
        if existing is variant:
            self.notify()
        return existing

    def edit_variant(self, variant: str | Variant, /, **changes: Any) -> Variant:
        """See `PromptLab.edit_variant`."""
        old = self.variant(variant)
        if old.name in self._running:
            raise ValueError(f"A run is asking {old.name!r}: stop it, or wait for its end, and edit the variant then.")
        new = replace(old, **changes)
        if new.name != old.name and new.name in self._variants:
            raise ValueError(f"There is already a variant {new.name!r}. Choose another name.")
        self.swap_answers(old, new, [key for key in list(self.answered) if key[0] == old.name])
        self._variants = {
            each.name: each for each in (new if each is old else each for each in self._variants.values())
        }
        self.notify()
        return new

    def swap_answers(self, old: Variant, new: Variant, keys: Iterable[Key]) -> None:
        """Keep these answers as a revision, and bring back those that `new` had.

        The revisions follow a new name. If only the name differs, the answers stay.
        """
        revisions, current = self.earlier.pop(old.name, []), [self.answered.pop(key) for key in keys]
        if not same_settings(old, new):
            if current:
                revisions = [Revision(old, tuple(current)), *revisions]
            again = next((each for each in revisions if same_settings(each.variant, new)), None)
            current = list(again.answers) if again is not None else []
            revisions = [each for each in revisions if each is not again]
        if revisions:
            self.earlier[new.name] = revisions
        for answer in current:
            answer.variant = new.name
            self.answered.setdefault(answer.key, answer)

    def duplicate_variant(self, variant: str | Variant, name: str | None = None) -> Variant:
        """Add a copy of a variant, to change it; `name` is that of the copy."""
        original = self.variant(variant)
        names = numbered(f"{original.name} copy", "{} {}")
        name = name or next(each for each in names if each not in self._variants)
        return self.add_variant(replace(original, name=name))

    def revisions(self, variant: str | Variant) -> list[Revision]:
        """See `PromptLab.revisions`."""
        return list(self.earlier.get(self.variant(variant).name, ()))

    @contextmanager
    def reserve(self, variants: Iterable[str]) -> Iterator[None]:
        """Refuse changes to these variants meanwhile, because a run is asking them."""
        self._running = frozenset(variants)
        try:
            yield
        finally:
            self._running = frozenset()

    def remove_variant(self, name: str) -> None:
        """See `PromptLab.remove_variant`."""
        del self._variants[self.variant(name).name]
        for key in [key for key in self.answered if key[0] == name]:  # in place: a run may be using them
            del self.answered[key]
        self.earlier.pop(name, None)
        self.notify()

    # Checks

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks of all inputs, by name."""
        return MappingProxyType(self._checks)

    @property
    def all_checks(self) -> Mapping[str, Check]:
        """The checks by name, with those that inputs have of their own.

        Raises
        ------
        ValueError
            If an input has one with the name of another check of all.
        """
        own = self.input_set.own
        if own and (clash := next(filter(self._checks.__contains__, own), None)) is not None:
            raise ValueError(f"An input has a check {clash!r} of its own, and so have all: rename one of them.")
        return {**self._checks, **own} if own else self._checks

    def check(self, checks: Any) -> pd.DataFrame:
        """See `PromptLab.check`."""
        self.use_checks(read_checks(checks))
        return self.results

    def use_checks(self, new: dict[str, Check]) -> None:
        """As `check`, for checks that are read, without the results."""
        require_names([*new, *self.input_set.own])
        unchanged = {name for name, check in new.items() if self._checks.get(name, check) == check}
        unchanged |= self.input_set.own.keys()
        self._checks = new
        for answer in self.all_answers:
            self.judge_again(answer, unchanged)
        self.notify()

    def price(self, prices: Any) -> None:
        """See `PromptLab.price`."""
        table = price_table(prices)
        if table is None:
            return
        unchanged = {name for name, check in self.all_checks.items() if not check.reads("cost")}
        answers = self.all_answers
        for answer in answers:
            cost = answer.cost_by(table)
            if cost is not None and cost != answer.cost:
                answer.cost = cost
                self.judge_again(answer, unchanged)
                if self.answered.get(answer.key) is answer:  # not an answer to an earlier text
                    self.notify(answer)

    def judge_again(self, answer: Answer, unchanged: Set[str]) -> None:
        """Apply the checks, except those whose verdicts are `unchanged`."""
        answer.verdicts = {name: verdict for name, verdict in answer.verdicts.items() if name in unchanged}
        answer.judge(self.all_checks.values())

    # Answers

    @property
    def answers(self) -> list[Answer]:
        """The answers, in the order of variants, inputs and repeats."""
        places = [{name: n for n, name in enumerate(names)} for names in (self.variants, self.inputs)]
        last = max(map(len, places))

        def place(each: Answer) -> tuple[int, int, int]:
            return places[0].get(each.variant, last), places[1].get(each.input, last), each.repeat

        return sorted(self.answered.values(), key=place)

    @property
    def all_answers(self) -> list[Answer]:
        """The answers, including those to earlier texts of the variants."""
        revisions = itertools.chain.from_iterable(list(self.earlier.values()))
        return [*self.answered.values(), *(answer for each in revisions for answer in each.answers)]

    def record(self, answer: Answer) -> None:
        """Store an answer and notify the listeners."""
        self.answered[answer.key] = answer
        self.notify(answer)

    def rate(self, key: Key, thumb: bool | None = None, note: str | None = None) -> None:
        """See `PromptLab.rate`."""
        answer = self.answered.get(key)
        if answer is None or answer.reply is None:
            raise ValueError(f"There is no reply of {key[0]!r} to {key[1]!r} (repeat {key[2]}) that could be labelled.")
        answer.thumb, answer.note = thumb, (note or "").strip() or None
        self.notify(answer)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change with the answer that changed, or None.

        Parameters
        ----------
        listener : callable
            Takes the answer or None. During a run it is called on the toolkit's thread.
            Errors that it raises are not raised here: the logger ``agentbook`` logs
            them.

        Returns
        -------
        callable
            Call it to stop listening: ``end = lab.listen(draw)``.
        """
        return self._listeners.add(listener)

    def notify(self, answer: Answer | None = None) -> None:
        """Tell the listeners that this answer has changed; None for anything else."""
        self._listeners.notify(answer)

    # Results

    @property
    def results(self) -> pd.DataFrame:
        """All answers as a frame."""
        return self.frame(self.answers)

    def frame(self, answers: Iterable[Answer]) -> pd.DataFrame:
        """These answers as a frame, with a column per check."""
        return to_frame(list(answers), list(self.all_checks))

    def summary(self) -> pd.DataFrame:
        """See `PromptLab.summary`."""
        return statistics.summarise(self.results, list(self.all_checks))

    def compare_variants(
        self, baseline: str | Variant | None = None, *, metrics: str | Iterable[str] | None = None
    ) -> pd.DataFrame:
        """See `PromptLab.compare_variants`."""
        if baseline is None and not self.variants:
            raise ValueError("There is no variant yet: lab.add_variant(name, system_prompt=...).")
        first = next(iter(self.variants)) if baseline is None else self.variant(baseline).name
        return statistics.compare_variants(self.results, list(self.all_checks), first, metrics)

    def decision(self, variant: Variant) -> tuple[str, bool]:
        """What the comparison says of a configuration, and whether it leaves it open.

        See `agentbook.evaluation.statistics.decision`: compared is the variant with
        these settings, with the first one.
        """
        name = next((each.name for each in self._variants.values() if same_settings(each, variant)), None)
        first = next(iter(self._variants), "")
        return ("", False) if name is None else statistics.decision(self.compare_variants(), name, first)

    def chart(self) -> Chart:
        """Pass rates and latencies per variant, as a chart.

        See `agentbook.evaluation.statistics.chart`.
        """
        return statistics.chart(self.results, list(self.all_checks))

    def copy(self) -> Experiment:
        """A copy to read while another thread keeps changing this one."""
        copy = Experiment()
        copy._assign(self)
        return copy

    def replace_with(self, other: Experiment) -> None:
        """Take over the content of another experiment; the listeners stay."""
        self._assign(other)
        self.notify()

    def _assign(self, other: Experiment) -> None:
        self.input_set, self._checks = other.input_set.copy(), dict(other._checks)
        self.repeats, self.default_judge = other.repeats, other.default_judge
        self._variants, self.earlier = dict(other._variants), dict(other.earlier)
        # Verdicts change in place.
        answers = dict(other.answered)
        self.answered = {key: replace(each, verdicts=dict(each.verdicts)) for key, each in answers.items()}


def require_names(names: Iterable[str]) -> None:
    """Raise a ValueError if a check cannot have its name, as it is that of a column."""
    taken = [*COLUMNS, *LAST_COLUMNS, *_OF_SUMMARY]
    for name in names:
        own = [name, *(f"{name}_{part}" for part in (*CHECK_COLUMNS, "n", "passed", "rate"))]
        if clash := set(own) & set(taken):
            there = f"the results or their summary have another column {min(clash)!r}"
            raise ValueError(f"A check cannot be called {name!r}: {there}. Give it another name.")
        taken += own
