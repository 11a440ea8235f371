"""A better prompt: GEPA looks for it on one half of the inputs, the other proves it.

GEPA proposes prompts from replies that did not pass, and keeps what does better on the
inputs that it may see. The verdict comes from those that it never saw: they are asked
once, at the end, and compared in pairs as any two variants are. Everything is in the
file of one run. A search that was stopped starts again from its beginning, with what
the file has, and so arrives where it was without asking anybody.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._text import safe_repr
from ..api.errors import AgentbookError
from ..events import loop
from . import runs, statistics
from .experiment import Answer, to_frame
from .file import lab_data
from .inputs import Input
from .run import Lab, Options, Plan
from .suggest import Suggestion, ask_proposer, diff_of, prompt_of, read_proposal, request, require_proposer
from .variant import Variant

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 5  # inputs that can show a difference, if it shows on each of them
_BATCH = 3  # replies that a proposal is made from
_LONG_WORD, _SEQUENCE = 5, 4  # letters of a word, and words in a row, that count as copied
_WORD = re.compile(r"[^\W\d_]+")
_PROMPT = "system_prompt"
_COLUMNS = {"variant": "str", "passed": "float64", "inputs": "int64", "why": "str", _PROMPT: "str"}


@dataclass(frozen=True, slots=True, repr=False)
class Optimization:
    """What a search for a better prompt found.

    Attributes
    ----------
    verdict : str
        What the inputs that were held out say.
    is_better : bool
        Whether they show, beyond noise, that the new prompt passes more.
    variant : Variant
        The best prompt found, for `PromptLab.add_variant`; the one that the search
        began with if it found none.
    before : str
        The prompt that the search began with.
    comparison : DataFrame
        As `PromptLab.compare_variants`, on the inputs held out; empty without a new
        prompt.
    candidates : DataFrame
        A row per prompt that was tried: ``variant``, ``passed`` (the mean share of the
        checks that its replies pass), ``inputs`` (how many of those that the search may
        see were asked: all, unless it was no better on the first), ``why`` and
        ``system_prompt``.
    copied : list of str
        Long words and sequences that the new prompt took from inputs.
    questions : int
        Number of questions asked, without those to the proposer.
    cost : float or None
        Of everything, with ``prices=``; None if that of a reply or proposal is unknown.
    notes : list of str
    """

    verdict: str
    is_better: bool
    variant: Variant
    before: str
    comparison: pd.DataFrame
    candidates: pd.DataFrame
    copied: list[str]
    questions: int
    cost: float | None
    notes: list[str] = field(default_factory=list)

    @property
    def diff(self) -> str:
        """The change of the system prompt."""
        return diff_of(self.before, self.variant.system_prompt or "")

    def as_suggestion(self) -> Suggestion:
        """The best prompt, with what its last proposal tried to mend."""
        why = self.candidates.loc[self.candidates["variant"] == self.variant.name, "why"].iloc[0]
        return Suggestion(self.variant, str(why), self.diff)

    @safe_repr
    def __repr__(self) -> str:
        lines = [self.verdict, self.diff]
        if self.copied:
            lines.append(f"Taken from the inputs: {', '.join(self.copied)}.")
        cost = "" if self.cost is None else f", {self.cost:.3g} spent"
        return "\n".join([*filter(None, lines), f"{self.questions} questions{cost}.", *self.notes])


@dataclass
class Search:
    """The options and the state of one search; GEPA's adapter.

    Raises
    ------
    ValueError
        If there is no check, too few inputs, or too small a budget.
    """

    lab: Lab
    variant: Variant
    model: str
    rounds: int
    max_cost: float | None
    max_minutes: float | None
    held_out: float
    seed: int
    options: Options
    notify: Callable[[str], None]
    is_stopped: Callable[[], bool]

    def __post_init__(self) -> None:
        lab = self.lab
        if not lab.all_checks:
            raise ValueError("The lab has no checks, so no prompt can be better: lab.check({...}).")
        if not 0 < self.held_out < 1 or self.rounds < 1:
            raise ValueError("held_out is a share between 0 and 1, and rounds is 1 or more.")
        self.seen, self.unseen = split(lab, self.held_out, self.seed)
        if len(self.unseen) < FEWEST or len(self.seen) < _BATCH:
            fewest = max(math.ceil(FEWEST / self.held_out), math.ceil(_BATCH / (1 - self.held_out)))
            raise ValueError(
                f"{len(self.unseen)} of the {len(lab.inputs)} inputs are held out, and {len(self.seen)} are seen: a "
                f"verdict needs {FEWEST} and a search {_BATCH}. Pass at least {fewest} inputs, from as many sessions."
            )
        self.notes: list[str] = []
        if any(check.rubrics for check in lab.all_checks.values()) and all(a.thumb is None for a in lab.all_answers):
            self.notes.append("The judge has not been compared with people: see lab.calibrate.")
        self._deadline = math.inf if self.max_minutes is None else time.monotonic() + 60 * self.max_minutes
        self.work = work = Lab(lab.client, lab.agent, lab.workspace, lab.follow)
        work.is_recorded = False
        work.default_judge, work.repeats, work.input_set = lab.default_judge, 1, lab.input_set.copy()
        work.use_checks(dict(lab.checks))
        self._each = self._cost_of_a_question()
        self._earlier: list[_Proposal] = []  # of a search that is continued
        self._proposals: list[_Proposal] = []
        self._names: dict[str, str] = {}  # by prompt
        self._recorder: runs.Recorder | None = None
        self._error: Exception | None = None

    def _cost_of_a_question(self) -> float:
        """What a question may cost; 0 without a bound."""
        if self.max_cost is None:
            return 0.0
        known = [answer.cost for answer in self.lab.all_answers if answer.cost is not None]
        if not known:
            raise ValueError(
                "max_cost= needs to know what a question costs: run the lab once with prices=, and then optimize. "
                "Without a price for its model, there is no bound."
            )
        floor = (2 * len(self.seen) + 2 * len(self.unseen)) * max(known)
        if self.max_cost < floor:
            raise ValueError(f"One round and the verdict may cost {floor:.3g}: max_cost={self.max_cost:g} is less.")
        return max(known)

    @property
    def facts(self) -> dict[str, Any]:
        """What a search has to have in common with this one, to be continued as it."""
        settings = [self.model, self.rounds, self.held_out, self.seed, self.variant.as_data()]
        content = json.dumps([settings, lab_data(self.work, place=self.lab.place)], default=str, sort_keys=True)
        place = {**self.lab.place, "base_url": getattr(self.lab.client, "base_url", None)}
        return {**place, "file": f"optimize {hashlib.sha256(content.encode()).hexdigest()[:16]}"}

    def run(self) -> Optimization:
        """Search, and ask what was held out. Blocks the thread; not the toolkit's."""
        loop.run(require_proposer(self.lab, self.model))
        prompt = loop.run(prompt_of(self.lab, self.variant))
        earlier = runs.unfinished(self.facts)
        if earlier is not None:
            entries = list(runs.entries(earlier.path))
            self._earlier = [_Proposal(**entry["proposal"]) for entry in entries if "proposal" in entry]
            self._names = {entry["prompt"]: entry["candidate"] for entry in entries if "candidate" in entry}
            self.work.answered = {answer.key: answer for answer in earlier.answers if answer.status == "answered"}
            self.work.spent = sum(cost or 0.0 for cost in self._costs(self._earlier))
            known = f"{len(self.work.answered)} replies and {len(self._earlier)} proposals"
            self.notes.append(f"Continued: {known} were there.")
        end = self._record(earlier)
        try:
            base = self._variant(prompt)
            result = self._verdict(base, prompt, self._search(prompt))
            if self._recorder is not None and not self.is_stopped():
                self._recorder.end()
        finally:
            end()
        return result

    def _record(self, earlier: runs.SavedRun | None) -> Callable[[], None]:
        """Write every reply to the file of this search, until the result is called."""
        try:
            recorder = runs.Recorder({**self.facts, "lab": lab_data(self.work)}, earlier)
        except OSError as error:
            self.notes.append(f"This search is not stored, so it cannot be continued: {error}.")
            return lambda: None
        self._recorder, end_listening = recorder, self.work.listen(recorder.record)

        def end() -> None:
            end_listening()
            recorder.close()

        return end

    def _write(self, **entry: Any) -> None:
        if self._recorder is not None:
            self._recorder.write(**entry)

    def _search(self, prompt: str) -> str:
        """The prompt that passes most on the inputs that the search may see."""
        from gepa.api import optimize

        optimize(
            {_PROMPT: prompt},
            self.seen,
            adapter=self,  # type: ignore[arg-type] # it has what GEPA calls
            stop_callbacks=self._is_done,  # type: ignore[arg-type]
            reflection_minibatch_size=_BATCH,
            seed=self.seed,
            logger=self,
        )
        if self._error is not None:
            raise self._error
        return self._best() or prompt

    def _costs(self, proposals: Iterable[_Proposal]) -> list[float | None]:
        asked = [answer for answer in self.work.answered.values() if answer.status in ("answered", "failed")]
        return [*(answer.cost for answer in asked), *(each.cost for each in proposals)]

    def _best(self) -> str | None:
        """The prompt that passes most, of those that were asked all that is seen."""
        tried = [*itertools.islice(self._names, 1), *(each.prompt for each in self._proposals if each.prompt)]
        whole = [prompt for prompt in tried if prompt in self._names and self._measured(prompt)[1] == len(self.seen)]
        return max(whole, key=lambda prompt: self._measured(prompt)[0], default=None)

    def _measured(self, prompt: str) -> tuple[float, int]:
        """The mean share of the checks that a prompt passes, and of how many inputs."""
        found = (self.work.answered.get((self._names[prompt], each.text, 1)) for each in self.seen)
        scores = [self._score(answer) for answer in found if answer is not None]
        return sum(scores) / max(len(scores), 1), len(scores)

    def log(self, message: str) -> None:
        """GEPA's log, which nobody reads."""

    def _is_done(self, state: Any) -> bool:
        prompt = self._best()
        best = 0.0 if prompt is None else self._measured(prompt)[0]
        spent = self.work.spent + (len(self.seen) + 2 * len(self.unseen)) * self._each
        left = self._deadline - time.monotonic()
        texts = [f"round {len(self._proposals)} of {self.rounds}", f"{best:.0%} passed"]
        texts += [f"{self.work.spent:.3g} spent"] if self.max_cost is not None else []
        texts += [f"{max(0.0, left) / 60:.0f} min left"] if self.max_minutes is not None else []
        self.notify(", ".join(texts))
        return (
            self._error is not None
            or self.is_stopped()
            or len(self._proposals) >= self.rounds
            or state.i >= 5 * self.rounds  # rounds with nothing to mend
            or best >= 1
            or left <= 0
            or (self.max_cost is not None and spent > self.max_cost)
        )

    # GEPA's adapter

    def evaluate(self, batch: list[Input], candidate: Mapping[str, str], capture_traces: bool = False) -> Any:
        """Ask what is not answered yet."""
        from gepa.core.adapter import EvaluationBatch

        answers = self._ask([self._variant(candidate[_PROMPT])], batch)
        scores = [self._score(answer) for answer in answers]
        return EvaluationBatch(outputs=[each.reply for each in answers], scores=scores, trajectories=answers)

    def make_reflective_dataset(
        self, candidate: Mapping[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, Answer]]]:
        """The replies of the batch, and then all others to this prompt."""
        name = self._names[candidate[_PROMPT]]
        others = (self.work.answered.get((name, each.text, 1)) for each in self.seen)
        shown = {answer.key: answer for answer in (*eval_batch.trajectories, *filter(None, others))}
        return {_PROMPT: [{"answer": answer} for answer in shown.values()]}

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Any]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """The proposer's prompt; the same one, which costs nothing, if it has none."""
        try:
            if self._error is not None:  # GEPA logs an error, and tries once more
                raise self._error
            return {_PROMPT: self._proposed(candidate[_PROMPT], [row["answer"] for row in reflective_dataset[_PROMPT]])}
        except Exception as error:
            self._error = error
            raise

    def _proposed(self, prompt: str, answers: Sequence[Answer]) -> str:
        if self._earlier and self._earlier[0].of == prompt:
            said = self._earlier.pop(0)
        else:
            self._earlier.clear()
            tried = [each.prompt for each in self._proposals if each.of == prompt and each.prompt is not None]
            message = request(self.work, prompt, answers, tried)
            asked = loop.run(ask_proposer(self.lab, self.model, message, self.options))
            if asked.status != "answered":
                raise AgentbookError(f"{self.model} proposed nothing: {asked.reason}")
            self.work.spent += asked.cost or 0.0
            new, why = read_proposal(asked.reply) or (None, "")
            said = _Proposal(prompt, new, why, asked.cost)
            self._write(proposal=asdict(said))
        self._proposals.append(said)
        return prompt if said.prompt is None else said.prompt

    # Questions

    def _variant(self, prompt: str) -> Variant:
        if prompt not in self._names:
            number = len(self._names)
            self._names[prompt] = f"{self.variant.name} {number}" if number else self.variant.name
            self._write(candidate=self._names[prompt], prompt=prompt)
        return replace(self.variant, name=self._names[prompt], system_prompt=prompt)

    def _ask(self, variants: Sequence[Variant], batch: Iterable[Input]) -> list[Answer]:
        inputs = {each.text: each for each in batch}
        rounds = [[(variant.name, text, 1) for variant in variants] for text in inputs]
        left = None if self.max_cost is None else self.max_cost - self.work.spent
        options = replace(self.options, max_cost=left and max(left, 1e-9))
        judgements = sum(len(check.rubrics) for check in self.work.all_checks.values())
        loop.run(self.work.ask(Plan(variants, rounds, options, inputs, judgements), self.notify))
        self.notes += [note for note in self.work.notes if note not in self.notes]
        empty = {key: Answer(*key, status="stopped") for key in itertools.chain.from_iterable(rounds)}
        return [self.work.answered.get(key, answer) for key, answer in empty.items()]

    def _score(self, answer: Answer) -> float:
        """The share of its checks that a reply passes; 0 without a reply."""
        grades = [answer.verdicts.get(name) for name in self.work.all_checks] if answer.status == "answered" else []
        points = [
            float(grade.passed is True) if grade.score is None else grade.score
            for grade in grades
            if grade is not None and (grade.passed is not None or grade.error)
        ]
        return sum(points) / len(points) if points else 0.0

    # What it found

    def _verdict(self, base: Variant, prompt: str, best: str) -> Optimization:
        import pandas as pd

        variant, checks = self._variant(best), list(self.work.all_checks)
        answers: list[Answer] = []
        why = {each.prompt: each.why for each in reversed(self._proposals)}
        rows = [(name, *self._measured(text), why.get(text), text) for text, name in self._names.items()]
        if best != prompt and not self.is_stopped():
            answers = self._ask([base, variant], self.unseen)
        comparison = statistics.compare_variants(to_frame(answers, checks), checks, base.name, "passed")
        is_better, verdict = False, "No better than before: no prompt passes more than the one that it began with."
        if self.is_stopped():
            verdict = "Stopped, so there is no verdict: call it again within a day, and it continues."
        elif best != prompt:
            verdict, is_open = statistics.decision(comparison, variant.name, base.name)
            is_better = not is_open and bool((comparison["verdict"] == "better").all())
            verdict = verdict or "There is no verdict: too few of the replies to what was held out could be checked."
        elif len(rows) == 1 and rows[0][1] >= 1:
            verdict = "Nothing to mend: the prompt passes every check on the inputs that the search may see."
        costs = self._costs(self._proposals)
        return Optimization(
            verdict,
            is_better,
            variant,
            prompt,
            comparison,
            pd.DataFrame(rows, columns=[*_COLUMNS]).astype(_COLUMNS),
            copied(prompt, best, self.seen),
            len(costs) - len(self._proposals),
            self.work.spent if None not in costs else None,
            self.notes,
        )


@dataclass(frozen=True, slots=True)
class _Proposal:
    """What was proposed instead of the prompt `of`; None if it could not be read."""

    of: str
    prompt: str | None
    why: str
    cost: float | None = None


def split(lab: Lab, held_out: float, seed: int) -> tuple[list[Input], list[Input]]:
    """The inputs that a search may see, and those that are held out.

    Inputs of one session stay together. What an input was once, it stays in this lab.
    """
    groups: dict[str, list[Input]] = {}
    for each in map(lab.input_set.find, lab.inputs):
        groups.setdefault(each.origin.get("session_id") or each.text, []).append(each)
    chosen = lab.halves.setdefault((held_out, seed), {})
    halves: tuple[list[Input], list[Input]] = ([], [])
    for name in sorted(groups, key=lambda name: (name not in chosen, _digest(f"{seed} {name}"))):
        total = len(halves[0]) + len(halves[1]) + len(groups[name])
        chosen.setdefault(name, len(halves[1]) + len(groups[name]) <= math.ceil(held_out * total))
        halves[chosen[name]].extend(groups[name])
    return halves


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def copied(before: str, after: str, inputs: Iterable[Input]) -> list[str]:
    """What a prompt took from inputs: long words, and sequences of words.

    Examples
    --------
    >>> copied("Be kind.", "Be kind. Say that refunds take ten days to arrive.", [
    ...     Input("q", "Why do my refunds take ten days to arrive?")])
    ['refunds take ten days to arrive']
    """
    known = set(_words(before))
    texts = [_words(" ".join([each.message, *each.then, *map(str, each.row.values())])) for each in inputs]
    own = {word for words in texts for word in words}
    sequences = {tuple(words[at : at + _SEQUENCE]) for words in texts for at in range(len(words) - _SEQUENCE + 1)}
    words, found, at = _words(after), [], 0
    while at < len(words):
        end = at
        while tuple(words[end : end + _SEQUENCE]) in sequences:
            end += 1
        if end > at:
            found.append(" ".join(words[at : end + _SEQUENCE - 1]))
            at = end + _SEQUENCE - 1
            continue
        if len(words[at]) >= _LONG_WORD and words[at] in own and words[at] not in known:
            found.append(words[at])
        at += 1
    return list(dict.fromkeys(found))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
