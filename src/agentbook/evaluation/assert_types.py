"""The types of asserts: which run here, and why the others do not."""

from __future__ import annotations

import difflib

SUPPORTED = (
    *("equals", "contains", "icontains", "contains-any", "contains-all", "icontains-any", "icontains-all"),
    *("starts-with", "regex", "is-json", "contains-json", "latency", "cost", "similar", "llm-rubric"),
    *("levenshtein", "word-count", "python", "javascript"),
    # Those that only agentbook has.
    *("agentbook:characters", "agentbook:json", "agentbook:overlap", "agentbook:pattern", "agentbook:steps"),
)
SET = "assert-set"

_NO_COUNTERPART = "agentbook has no counterpart of it"
_COMPARES = "it compares the replies of several prompts; use `lab.compare_variants` for that"
_REASONS = {
    "agentbook:function": "a file holds no function; write it as `python`",
    "agentbook:cases": "write the asserts of each case below it",
    "ruby": "it runs Ruby, and agentbook runs Python only; write it as `python`",
    "webhook": "it sends replies to another server",
    "select-best": _COMPARES,
    "max-score": _COMPARES,
    "human": "people judge in the form of the prompt lab",
    "moderation": "it needs OpenAI's moderation service",
    "guardrails": "the platform reports no guardrails",
    "perplexity": "the platform reports no log probabilities",
    "perplexity-score": "the platform reports no log probabilities",
    "is-valid-function-call": "a reply of the platform is text",
    "is-valid-openai-function-call": "a reply of the platform is text",
    "is-valid-openai-tools-call": "a reply of the platform is text",
    "model-graded-closedqa": "write it as `llm-rubric`",
    "model-graded-factuality": "write it as `llm-rubric`",
    "factuality": "write it as `llm-rubric`",
    "g-eval": "write it as `llm-rubric`",
    "answer-relevance": "write it as `llm-rubric`",
}
_OTHERS = (
    *("agent-rubric", "bleu", "classifier", "contains-html", "contains-sql", "contains-xml", "context-faithfulness"),
    *("context-recall", "context-relevance", "conversation-relevance", "ends-with", "finish-reason", "gleu", "is-html"),
    *("is-refusal", "is-sql", "is-xml", "meteor", "pi", "rouge-n", "search-rubric", "skill-used", "tool-call-f1"),
    *("similar:cosine", "similar:dot", "similar:euclidean", "character-count", "tokens-used", "math-equivalent"),
)
REFUSED = (*_REASONS, *_OTHERS)


def is_promptfoos(kind: str) -> bool:
    """Whether promptfoo has a type that does not run here."""
    return kind in REFUSED or kind.startswith(("promptfoo:", "trajectory:", "trace-"))


def refusal(kind: str) -> str | None:
    """Why an assert of this type cannot run; None if it can.

    Parameters
    ----------
    kind : str
        The type without ``not-``.

    Examples
    --------
    >>> refusal("contains"), refusal("webhook")
    (None, 'it sends replies to another server')
    >>> refusal("contians")
    "there is no such type; did you mean 'contains'?"
    """
    if kind in SUPPORTED:
        return None
    if is_promptfoos(kind):
        return _REASONS.get(kind, _NO_COUNTERPART)
    similar = difflib.get_close_matches(kind, [*SUPPORTED, SET], 1)
    return (
        f"there is no such type; {f'did you mean {similar[0]!r}?' if similar else 'those are ' + ', '.join(SUPPORTED)}"
    )
