"""A better prompt: GEPA looks for it on one half of the inputs, the other proves it.

GEPA proposes prompts from replies that did not pass, and keeps what does better on the
inputs that it may see. The verdict comes from those that it never saw: they are asked
once, at the end, and compared in pairs as any two variants are. Everything is in the
file of one run. A search that was stopped starts again from its beginning, with what
the file has, and so arrives where it was without asking anybody.
"""

from __future__ import annotations

import difflib
import itertools
import math
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from .._text import safe_repr
from ..events import loop
from . import runs, statistics
from .experiment import Answer, to_frame
from .file import lab_data
from .inputs import Input
from .run import Lab, Options, Plan
from .suggest import Proposer, Suggestion, prompt_of, request
from .variant import Variant

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 5  # inputs that can show a difference, if it shows on each of them
_BATCH = 3  # replies that a proposal is tried on first
_LONG_WORD, _SEQUENCE = 5, 4  # letters of a word, and words in a row, that count as copied
_WORD = re.compile(r"[^\W\d_]+")
_PROMPT = "system_prompt"


@dataclass(frozen=True, slots=True, repr=False)
class Optimization(Suggestion):
    """What a search for a better prompt found.

    Attributes
    ----------
    variant : Variant
        The best prompt found, for `PromptLab.add_variant`; the one that the search
        began with if it found none.
    why : str
        What its last proposal tries to mend, in the proposer's words.
    before : str
        The prompt that the search began with.
    verdict : str
        What the inputs that were held out say.
    is_better : bool
        Whether they show, beyond noise, that the new prompt passes more.
    comparison : DataFrame
        As `PromptLab.compare_variants`, on the inputs held out; empty without a new
        prompt.
    candidates : DataFrame
        A row per prompt that did better than the one it came from, on the first inputs
        it was tried on: ``variant``, ``passed`` (the mean share of the checks that its
        replies to all inputs pass that the search may see) and ``system_prompt``.
    copied : list of str
        Sequences and long words that the new prompt took from inputs.
    questions : int
        Number of questions asked, without those to the proposer.
    cost : float or None
        Of everything, with ``prices=``; None if that of a reply or proposal is unknown.
    notes : list of str
    """

    verdict: str
    is_better: bool
    comparison: pd.DataFrame
    candidates: pd.DataFrame
    copied: list[str]
    questions: int
    cost: float | None
    notes: list[str]

    @safe_repr
    def __repr__(self) -> str:
        taken = f"Taken from the inputs: {', '.join(self.copied)}." if self.copied else ""
        cost = "" if self.cost is None else f", {self.cost:.3g} spent"
        return "\n".join(
            filter(None, [self.verdict, self.diff, taken, f"{self.questions} questions{cost}.", *self.notes])
        )


@dataclass
class Search:
    """The options and the state of one search; GEPA's adapter.

    Set `is_stopped` to end it once the open questions are answered.

    Raises
    ------
    ValueError
        If there is no check, too few inputs, or too small a budget.
    """

    lab: Lab
    variant: Variant
    model: str
    rounds: int = 10
    max_minutes: float | None = None
    held_out: float = 0.5
    seed: int = 0
    options: Options = field(default_factory=Options)
    notify: Callable[[str], None] = print
    is_stopped: bool = False

    def __post_init__(self) -> None:
        lab = self.lab
        if not lab.all_checks:
            raise ValueError("The lab has no checks, so no prompt can be better: lab.check({...}).")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out is a share between 0 and 1, not {self.held_out!r}.")
        self.seen, self.unseen = split(map(lab.input_set.find, lab.inputs), self.held_out, self.seed)
        if len(self.unseen) < FEWEST or len(self.seen) < _BATCH:
            fewest = max(math.ceil(FEWEST / self.held_out), math.ceil(_BATCH / (1 - self.held_out)))
            raise ValueError(
                f"{len(self.unseen)} of the {len(lab.inputs)} inputs are held out, and {len(self.seen)} are seen: a "
                f"verdict needs {FEWEST} and a search {_BATCH}. Pass at least {fewest} inputs, from as many sessions."
            )
        self._judgements = sum(len(check.rubrics) for check in lab.all_checks.values())
        self.notes: list[str] = []
        if self._judgements and all(answer.thumb is None for answer in lab.all_answers):
            self.notes.append("The judge has not been compared with people: see lab.calibrate.")
        self._max_cost = math.inf if self.options.max_cost is None else self.options.max_cost
        self._dearest = 0.0 if self.options.max_cost is None else self._cost_of_a_question()
        self._deadline = math.inf if self.max_minutes is None else time.monotonic() + 60 * self.max_minutes
        self.work = Lab(lab.client, lab.agent, lab.workspace, lab.follow)
        self.work.is_recorded = False
        self.work.default_judge, self.work.input_set = lab.default_judge, lab.input_set.copy()
        self.work.use_checks(dict(lab.checks))
        self.proposer = Proposer(lab, self.model, self.options)
        self._round = 0
        self._error: Exception | None = None
        self._why: dict[str, str] = {}  # of the proposals, by prompt

    def _cost_of_a_question(self) -> float:
        costs = [answer.cost for answer in self.lab.all_answers if answer.cost is not None]
        if not costs:
            raise ValueError(
                "max_cost= needs to know what a question costs: run the lab once with prices=, and then optimize. "
                "Without a price for its model, there is no bound."
            )
        floor = 2 * (len(self.seen) + len(self.unseen)) * max(costs)
        if self._max_cost < floor:
            raise ValueError(f"One round and the verdict may cost {floor:.3g}: max_cost={self._max_cost:g} is less.")
        return max(costs)

    @property
    def spent(self) -> float:
        """What it has cost so far, as far as it is known."""
        return self.work.spent + self.proposer.spent

    def run(self) -> Optimization:
        """Search, and ask what was held out. Blocks the thread; not the toolkit's."""
        try:
            from gepa.api import optimize
        except ImportError:
            raise ImportError("lab.optimize needs gepa: pip install gepa.") from None
        loop.run(self.proposer.require())
        prompt = loop.run(prompt_of(self.lab, self.variant))
        with self._recorded():
            found: Any = optimize(
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
            return self._result([self._variant(each[_PROMPT]) for each in found.candidates], found.val_aggregate_scores)

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Take over what was stopped, and write all that is asked to one file."""
        facts = {
            **self.lab.place,
            "base_url": getattr(self.lab.client, "base_url", None),
            "file": "optimize",
            "search": [self.variant.as_data(), self.held_out, self.seed],
            "lab": lab_data(self.work),
        }
        earlier = runs.unfinished(facts)
        if earlier is not None:
            for variant in earlier.experiment.variants.values():
                self.work.add_variant(variant)
            for answer in earlier.answers:
                if answer.status == "answered":
                    lab = self.proposer if answer.variant == self.model else self.work
                    lab.answered[answer.key] = answer
                    lab.spent += answer.cost or 0.0
            known = f"{len(self.work.answered)} replies and {len(self.proposer.answered)} proposals"
            self.notes.append(f"Continued: {known} were there.")
        self._recorder = runs.Recorder({**facts, "lab": lab_data(self.work)}, earlier)
        with closing(self._recorder):
            for lab in (self.work, self.proposer):
                lab.listen(self._recorder.record)
            yield
            if not self.is_stopped:
                self._recorder.end()

    # What GEPA calls

    def log(self, message: str) -> None:
        """GEPA's log, which nobody reads."""

    def _is_done(self, state: Any) -> bool:
        best, left = max(state.program_full_scores_val_set), self._deadline - time.monotonic()
        texts = [f"round {self._round} of {self.rounds}", f"{best:.0%} passed"]
        texts += [f"{self.spent:.3g} spent"] if self.options.prices is not None else []
        texts += [f"{max(0.0, left) / 60:.0f} min left"] if self.max_minutes is not None else []
        self.notify(", ".join(texts))
        is_dear = self.spent + (len(self.seen) + 2 * len(self.unseen)) * self._dearest > self._max_cost
        is_over = self._round >= self.rounds or best >= 1 or left <= 0 or is_dear
        return is_over or self.is_stopped or self._error is not None

    def evaluate(self, batch: list[Input], candidate: Mapping[str, str], capture_traces: bool = False) -> Any:
        """Ask what is not answered yet."""
        from gepa.core.adapter import EvaluationBatch

        answers = self._ask([self._variant(candidate[_PROMPT])], batch)
        return EvaluationBatch([each.reply for each in answers], list(map(self._score, answers)), answers)

    def make_reflective_dataset(self, candidate: Mapping[str, str], eval_batch: Any, components: Any) -> Any:
        """The replies of the batch, and then all others to this prompt."""
        everything = [*eval_batch.trajectories, *self._ask([self._variant(candidate[_PROMPT])], self.seen)]
        return {_PROMPT: [{"answer": answer} for answer in {each.key: each for each in everything}.values()]}

    def propose_new_texts(self, candidate: Mapping[str, str], reflective_dataset: Any, components: Any) -> Any:
        """The proposer's prompt; the same one, which costs nothing, if it has none."""
        self._round += 1
        prompt, answers = candidate[_PROMPT], [row["answer"] for row in reflective_dataset[_PROMPT]]
        message = request(self.work, prompt, answers, [each for each in self._why if each != prompt])
        proposal = None
        try:
            if message:
                proposal = loop.run(self.proposer.propose(message, self._round))
        except Exception as error:  # GEPA would log it, and go on
            self._error = error
        new, why = proposal or (prompt, "")
        self._why.setdefault(new, why)
        return {_PROMPT: new}

    # Questions

    def _variant(self, prompt: str) -> Variant:
        """The variant with a prompt; the file of the run gets new ones."""
        variants = self.work.variants
        known = next((each for each in variants.values() if each.system_prompt == prompt), None)
        if known is None:
            name = f"{self.variant.name} {len(variants)}" if variants else self.variant.name
            known = self.work.add_variant(replace(self.variant, name=name, system_prompt=prompt))
            self._recorder.write(facts={"lab": lab_data(self.work)})
        return known

    def _ask(self, variants: Sequence[Variant], inputs: Iterable[Input]) -> list[Answer]:
        asked = {each.text: each for each in inputs}
        rounds = [[(variant.name, text, 1) for variant in variants] for text in asked]
        left = max(self._max_cost - self.spent, 1e-9)
        options = replace(self.options, max_cost=left if left < math.inf else None)
        if not self.is_stopped:
            loop.run(self.work.ask(Plan(variants, rounds, options, asked, self._judgements), self._say))
            self.notes += [note for note in self.work.notes if note not in self.notes]
        keys = itertools.chain.from_iterable(rounds)
        answers = [self.work.answered.get(key) or Answer(*key, status="stopped") for key in keys]
        self.is_stopped |= any(each.status == "stopped" for each in answers)  # a budget is used up, or a cost unknown
        return answers

    def _say(self, text: str) -> None:
        if text:  # a run says nothing when a pause ends
            self.notify(text)

    def _score(self, answer: Answer) -> float:
        """The share of its checks that a reply passes; 0 without a reply."""
        grades = [each for each in answer.verdicts.values() if each.passed is not None or each.error]
        return fmean(each.passed is True for each in grades) if grades and answer.status == "answered" else 0.0

    def _result(self, kept: Sequence[Variant], scores: Sequence[float]) -> Optimization:
        import pandas as pd

        base, best, names = kept[0], kept[scores.index(max(scores))], list(self.work.all_checks)
        answers = self._ask([base, best], self.unseen) if best != base and not self.is_stopped else []
        comparison = statistics.compare_variants(to_frame(answers, names), names, base.name, "passed")
        verdict, is_open = statistics.decision(comparison, best.name, base.name)
        if self.is_stopped:
            verdict = "Stopped, so there is no verdict: call it again within a day, and it continues."
        elif best == base:
            verdict = "No better than before: no prompt passes more than the one that it began with."
        elif not verdict:
            errors = [grade.error for each in answers for grade in each.verdicts.values() if grade.error]
            verdict = "There is no verdict: too few of the replies to what was held out could be checked."
            verdict = " ".join([verdict, *errors[:1]])
        prompts = [str(each.system_prompt) for each in kept]
        before, after = prompts[0], str(best.system_prompt)
        done = [*self.work.answered.values(), *self.proposer.answered.values()]
        costs = [each.cost for each in done if each.status in ("answered", "failed")]
        return Optimization(
            best,
            self._why.get(after, ""),
            before,
            verdict,
            bool((comparison["verdict"] == "better").any()) and not is_open,
            comparison,
            pd.DataFrame({"variant": [each.name for each in kept], "passed": scores, _PROMPT: prompts}),
            copied(before, after, self.seen),
            len(costs) - len(self.proposer.answered),
            None if None in costs else self.spent,
            self.notes,
        )


def split(inputs: Iterable[Input], held_out: float, seed: int) -> tuple[list[Input], list[Input]]:
    """The inputs that a search may see, and those that are held out.

    Inputs of one session stay together. What an input was once, it stays as others are
    added after it: chance decides, as far as the share leaves a choice.
    """
    groups: dict[str, list[Input]] = {}
    for each in inputs:
        groups.setdefault(each.origin.get("session_id") or each.text, []).append(each)
    halves: tuple[list[Input], list[Input]] = ([], [])
    total = 0
    for name, group in groups.items():
        total += len(group)
        owed = (held_out * total - len(halves[1])) / len(group)
        halves[random.Random(f"{seed} {name}").random() < owed].extend(group)  # noqa: S311
    return halves


def copied(before: str, after: str, inputs: Iterable[Input]) -> list[str]:
    """What a prompt took from inputs: sequences of words, and long words.

    Examples
    --------
    >>> copied("Be kind.", "Be kind. Say that refunds take ten days to arrive.", [
    ...     Input("q", "Why do my refunds take ten days to arrive?")])
    ['refunds take ten days to arrive']
    """
    old, new = _WORD.findall(before.lower()), _WORD.findall(after.lower())
    texts = [" ".join([each.message, *each.then, *map(str, each.row.values())]).lower() for each in inputs]
    own = [_WORD.findall(text) for text in texts]
    blocks = [difflib.SequenceMatcher(None, new, words, autojunk=False).get_matching_blocks() for words in own]
    found = [" ".join(new[at : at + size]) for at, _, size in itertools.chain(*blocks) if size >= _SEQUENCE]
    found = [text for text in found if text not in " ".join(old)]
    words = {word for word in itertools.chain(*own) if len(word) >= _LONG_WORD}.difference(old)
    found += [word for word in new if word in words and not any(word in text for text in found)]
    return list(dict.fromkeys(found))
