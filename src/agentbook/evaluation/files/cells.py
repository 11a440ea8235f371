"""Turns a file into cells, and a cell into the message that is sent.

It merges defaults, multiplies lists of values, and repeats. A rendered prompt is the
agent's system prompt, and one message.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .. import javascript, patterns, template
from ..conversations import CannotContinue, Say
from ..model import Case, Config, Prompt, Reply
from .source import HISTORY, ConfigError, parse_source

_REFERENCE = re.compile(r"\{\{\s*(\w+)\s*\}\}", re.ASCII)
# From the last of several opening marks, so that many of them take no longer.
_UNCLOSED = re.compile(r"\{%[^%]*$|\{\{(?:[^{}\n]|\{(?!\{))*+$|\{#[^#]*$", re.MULTILINE)
_RAW, _END_OF_RAW = re.compile(r"\{%\s*raw\s*%\}"), re.compile(r"\{%\s*endraw\s*%\}")
_PASSES = 5
# What promptfoo takes for JSON: {…}, or […] that goes on as a list in JSON does.
_JSON = re.compile(r"\{.*\}|\[\s*(?:[\[{\"\d-].*|true.*|false.*|null.*)?\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cell:
    """One prompt with the values of one case, sent once.

    Attributes
    ----------
    number : int
        The case's number, counted from 0 over repeats, like promptfoo's ``testIdx``.
    repeat : int
        Counted from 1.
    prompt : Prompt
    prompt_number : int
        Counted from 0.
    case : Case
        The case with the defaults, and one value for each name.
    """

    number: int
    repeat: int
    prompt: Prompt
    prompt_number: int
    case: Case


def expand(config: Config) -> list[Cell]:
    """All cells of a file, case by case.

    Examples
    --------
    >>> case = Case({"a": ["x", "y"], "b": ["1", "2"]})
    >>> config = Config((Prompt("ask", "{{a}}{{b}}"),), (case,))
    >>> [render(cell.prompt, cell.case) for cell in expand(config)]
    ['x1', 'x2', 'y1', 'y2']
    """
    numbered = enumerate(
        (repeat, atom)
        for case in config.cases or (Case(),)
        for merged in [with_defaults(config.default, case)]
        for repeat in range(1, int(merged.options.get("repeat") or config.repeat) + 1)
        for atom in multiply(merged)
    )
    return [
        Cell(number, repeat, prompt, prompt_number, case)
        for number, (repeat, case) in numbered
        for prompt_number, prompt in enumerate(config.prompts)
        if _is_for(case, prompt)
    ]


def select(
    config: Config,
    *,
    first: int | None = None,
    failing: Iterable[Mapping[str, Any]] | None = None,
    pattern: str | None = None,
) -> Config:
    """The file with some of its cases.

    Parameters
    ----------
    config : Config
    first : int, optional
        The number of cases to keep, of those that the others keep.
    failing : iterable of mapping, optional
        Keeps the cases with the values of one of these rows of results that did not
        pass.
    pattern : str, optional
        Keeps the cases in whose description this pattern of JavaScript is found.

    Raises
    ------
    ConfigError
        If the pattern cannot be read, or no case is left.

    Examples
    --------
    >>> cases = Case(description="a refund"), Case(description="an order")
    >>> config = Config((Prompt("ask", "Hi"),), cases)
    >>> [case.description for case in select(config, pattern="order").cases]
    ['an order']
    """
    cases = list(config.cases or (Case(),))
    if failing is not None:
        failed = {_values_key(row["vars"]) for row in failing if not row["success"]}
        merged = {id(case): multiply(with_defaults(config.default, case)) for case in cases}
        cases = [case for case in cases if any(_values_key(each.vars) in failed for each in merged[id(case)])]
    if pattern is not None:
        try:
            cases = [case for case in cases if patterns.search_ecmascript(pattern, case.description or "")]
        except (patterns.InvalidPattern, patterns.SearchFailed) as error:
            raise ConfigError(f"The pattern {pattern!r} cannot be searched for: {error}") from None
    if any(template.uses(prompt.text, HISTORY) for prompt in config.prompts):  # what was said before, too
        ids = [_conversation_of(config, case) for case in cases]
        cases = [case for case in config.cases if _conversation_of(config, case) in ids]
    if not cases:
        raise ConfigError(f"No case of {len(config.cases)} is left to ask; drop or change the filters of the command.")
    return dataclasses.replace(config, cases=tuple(cases[:first]))


def _conversation_of(config: Config, case: Case) -> Any:
    return with_defaults(config.default, case).metadata.get("conversationId")


def _values_key(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, default=str)


def _is_for(case: Case, prompt: Prompt) -> bool:
    if case.prompts is None:
        return True
    labels = [label for label in (prompt.label, prompt.id) if label]
    return any(
        label == allowed or label.startswith(f"{allowed.removesuffix('*').removesuffix(':')}:")
        for label in labels
        for allowed in case.prompts
    )


def merge(base: Case, case: Case) -> Case:
    """A case that takes what it leaves open from another one."""
    open_fields = [name for name in ("description", "threshold", "prompts", "reply") if getattr(case, name) is None]
    return dataclasses.replace(
        case,
        vars={**base.vars, **case.vars},
        asserts=(*base.asserts, *case.asserts),
        options={**base.options, **case.options},
        metadata={**base.metadata, **case.metadata},
        **{name: getattr(base, name) for name in open_fields},
    )


def with_defaults(default: Case, case: Case) -> Case:
    """A case with the defaults of all cases, but their description and their reply."""
    asserts = () if case.options.get("disableDefaultAsserts") is True else default.asserts
    merged = merge(dataclasses.replace(default, asserts=asserts, description=None, reply=None), case)
    # An empty prefix or suffix does not replace the default's.
    affixes = {name: default.options[name] for name in ("prefix", "suffix") if default.options.get(name)}
    kept = {name: text for name, text in affixes.items() if not merged.options[name]}
    return dataclasses.replace(merged, options={**merged.options, **kept})


def multiply(case: Case) -> Iterator[Case]:
    """A case for each combination of its lists; the first list changes last.

    A list that does not begin with a string is a single value.
    """
    if case.options.get("disableVarExpansion"):
        yield case
        return
    choices = [_choices(value) for value in case.vars.values()]
    for values in itertools.product(*choices):
        yield dataclasses.replace(case, vars=dict(zip(case.vars, values, strict=True)))


def _choices(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value and isinstance(value[0], str) else [value]


# Templates


def resolve(values: Mapping[str, Any]) -> dict[str, Any]:
    r"""Values without a trailing line break, in which other values are filled in.

    Examples
    --------
    >>> resolve({"name": "Ada\n", "greeting": "Dear {{ name }},"})["greeting"]
    'Dear Ada,'
    """
    resolved = {name: value.removesuffix("\n") if isinstance(value, str) else value for name, value in values.items()}
    for _ in range(_PASSES):
        changed = False
        for name, value in resolved.items():
            match = _REFERENCE.search(value) if isinstance(value, str) else None
            if match is not None and match[1] in resolved:
                resolved[name] = _fill(value, match, javascript.to_text(resolved[match[1]]))
                changed = True
        if not changed:
            break
    return resolved


def _fill(text: str, match: re.Match[str], value: str) -> str:
    """The text with a value in place of the match; ``$&`` is the match itself."""
    special = {"$$": "$", "$&": match[0], "$`": text[: match.start()], "$'": text[match.end() :]}
    longest = max(map(len, special.values()))
    template.require_length(len(text) + len(value) + value.count("$") * longest)
    filled = re.sub(r"\$[$&`']", lambda sign: special[sign[0]], value)
    return f"{text[: match.start()]}{filled}{text[match.end() :]}"


def render(prompt: Prompt, case: Case, env: Iterable[str] = (), more: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The prompt with the values of a case.

    JSON is rendered string by string, so that a quote in a value does no harm.

    Parameters
    ----------
    prompt : Prompt
    case : Case
    env : iterable of str
        Variables of the environment that the prompt may use.
    more : mapping of str to object
        Further values, which are no templates.

    Raises
    ------
    TemplateError
    """
    prefix, suffix = (str(case.options.get(name) or "") for name in ("prefix", "suffix"))
    if "{" in f"{prefix}{suffix}":
        env = ()  # they may be cells of a table, and a template within the prompt's
    return render_text(f"{prefix}{prompt.text}{suffix}", {**resolve(case.vars), **more}, env=env)


def render_text(text: str, values: Mapping[str, Any], *, literal: bool = False, env: Iterable[str] = ()) -> str:
    """A text, or the strings within JSON, with the values filled in.

    Parameters
    ----------
    text : str
    values : mapping of str to object
        The values. A value that is itself a template is rendered too.
    literal : bool
        True fills in the values as they are: an agent's text is not a template.
    env : iterable of str
        Variables of the environment that the text, but no value, may use.

    Raises
    ------
    TemplateError
    """
    try:
        return javascript.to_json(render_data(javascript.parse_json(text), values, env), 2)
    except (ValueError, template.TemplateError):
        rendered = values if literal else {name: _render_value(value, values) for name, value in values.items()}
        return _render_whole(text, lambda whole: template.render(whole, rendered, env))


def _render_value(value: Any, values: Mapping[str, Any]) -> Any:
    """Render a value that is itself a template, unless it needs a missing name."""
    if not isinstance(value, str) or "{" not in value:
        return value
    if value.count("{{") > template.MAX_TAGS:
        raise template.TemplateError(f"The value fills in more than {template.MAX_TAGS:,} others.")
    try:
        if any(values.get(name) is None and name not in values for name in template.names(value)):
            return value
    except template.TemplateError:
        pass
    return _render_whole(value, lambda whole: template.render_value(whole, values))


def _render_whole(text: str, render: Callable[[str], str]) -> str:
    """Render a text; one with an unclosed tag is returned unchanged."""
    return text if _UNCLOSED.search(text) and not _has_raw(text) else render(text)


def _has_raw(text: str) -> bool:
    start = _RAW.search(text)
    return start is not None and _END_OF_RAW.search(text, start.end()) is not None


def render_data(data: Any, values: Mapping[str, Any], env: Iterable[str] = ()) -> Any:
    """Data with each string in it rendered."""
    if isinstance(data, str):
        return template.render(data, values, env)
    if isinstance(data, Mapping):
        return {name: render_data(item, values, env) for name, item in data.items()}
    return [render_data(item, values, env) for item in data] if isinstance(data, list) else data


# Messages


class UnsendablePrompt(ValueError):
    """A chat that cannot be sent as one message to an agent."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to an agent.

    Attributes
    ----------
    text : str
    system_prompt : str or None
        None keeps the agent's own.
    earlier : tuple of str
        What the user and the agent said before, in turn.
    """

    text: str
    system_prompt: str | None = None
    earlier: tuple[str, ...] = ()


def read_message(prompt: str, *, has_history: bool = False) -> Message:
    """The message in a rendered prompt, which may be a chat in JSON or YAML.

    As in promptfoo, text that begins with ``- role:`` must be YAML, and text that looks
    like JSON must be JSON.

    Parameters
    ----------
    prompt : str
    has_history : bool
        Whether the chat may contain what was said before.

    Raises
    ------
    UnsendablePrompt
        If the chat cannot be read, or does not end with a message of the user, its only
        one unless there is a history.

    Examples
    --------
    >>> read_message("Hello").text
    'Hello'
    >>> read_message('[{"role": "user", "content": "Hi"}]').text
    'Hi'
    >>> read_message("- role: user\\n  content: Hi").text
    'Hi'
    """
    chat = parse_chat(prompt)
    if not isinstance(chat, list) or not chat or not all(isinstance(each, dict) and "role" in each for each in chat):
        return Message(prompt)
    texts = [(str(each["role"]), each.get("content")) for each in chat]
    if not all(isinstance(content, str) for _, content in texts):
        raise UnsendablePrompt("The messages of a chat must be texts; the platform takes no images or parts.")
    system = [str(content) for role, content in texts if role in ("system", "developer")]
    said = [(role, str(content)) for role, content in texts if role not in ("system", "developer")]
    in_turn = all(role == ("user", "assistant")[number % 2] for number, (role, _) in enumerate(said))
    if len(said) % 2 == 0 or not in_turn or texts[-1][0] != "user" or (len(said) > 1 and not has_history):
        raise UnsendablePrompt(
            "A chat must begin with its system messages; user and assistant then take turns, and the user has the last one."
            if has_history
            else "An agent gets one message in a session of its own, so a chat must be system messages and one user message."
        )
    *earlier, last = (content for _, content in said)
    return Message(last, "\n\n".join(system) or None, tuple(earlier))


def parse_chat(prompt: str) -> Any:
    """The data in a rendered prompt, as promptfoo reads it; None if it is plain text.

    Raises
    ------
    UnsendablePrompt
        If it begins as a chat in YAML or looks like JSON, and is not.
    """
    text = javascript.strip(prompt)
    if text.startswith("- role:"):
        try:
            chat = parse_source(prompt, "prompt").value
        except ConfigError as error:
            raise UnsendablePrompt(f"The prompt begins as a chat in YAML, but is not one: {error}") from None
        if not isinstance(chat, list) or not all(isinstance(each, dict) and "role" in each for each in chat):
            raise UnsendablePrompt("The prompt begins as a chat in YAML, but some of its messages have no role.")
        return chat
    try:
        return javascript.parse_json(prompt)
    except ValueError as error:
        if _JSON.fullmatch(text):
            raise UnsendablePrompt(f"The prompt looks like JSON, but is not: {error}.") from None
        return None


def write_chat(message: str, system_prompt: str | None) -> str:
    """The prompt that `read_message` reads.

    It is a chat even without a system prompt: within JSON, braces in a value are text.

    Examples
    --------
    >>> read_message(write_chat("{{input}}", "Be brief.")).system_prompt
    'Be brief.'
    """
    system = [{"role": "system", "content": system_prompt}] if system_prompt is not None else []
    return javascript.to_json([*system, {"role": "user", "content": message}], 2)


# Conversations: cases whose prompts see the replies before
#
# As in promptfoo, a prompt that uses `_conversation` gets the cases before it with the
# same `metadata.conversationId` (or all, if none has one), with their messages and
# replies. Here, a repeat is a conversation of its own. If the prompt is a chat whose
# history is just what was said so far, its last message is sent in the same session.
# Text that contains the history is sent in a new one.


def conversations(expanded: Iterable[Cell], env: Iterable[str] = ()) -> list[Conversation]:
    """The conversations of a file; cells of prompts without a history are in none."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in expanded:
        if template.uses(cell.prompt.text, HISTORY):
            key = cell.prompt_number, cell.repeat, json.dumps(cell.case.metadata.get("conversationId"), default=str)
            groups.setdefault(key, []).append(cell)
    return [Conversation(tuple(group), tuple(env)) for group in groups.values()]


@dataclass(frozen=True)
class Conversation:
    """The cells of one conversation, in order.

    Attributes
    ----------
    cells : tuple of Cell
    env : tuple of str
        Variables of the environment that the prompt may use.
    """

    cells: tuple[Cell, ...]
    env: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name that changes with anything that is said."""
        first = self.cells[0]
        said = [[cell.case.vars, cell.case.reply, cell.case.options] for cell in self.cells]
        text = json.dumps([first.prompt_number, first.repeat, first.prompt.text, said], default=str)
        identifier = first.case.metadata.get("conversationId", "all cases")
        return f"conversation {identifier} ({hashlib.sha256(text.encode()).hexdigest()[:16]})"

    def system_prompt(self) -> str | None:
        """The system message of the first turn.

        Raises
        ------
        TemplateError, UnsendablePrompt
        """
        _, message, _ = next(self.turns(()))
        return read_message(message, has_history=True).system_prompt

    def turns(self, asked: Iterable[Reply]) -> Iterator[tuple[Cell, str, Reply | None]]:
        """Each cell with its rendered prompt and its turn; the last one may have none.

        Raises
        ------
        TemplateError, UnsendablePrompt
        """
        history: list[dict[str, Any]] = []
        turns = iter(asked)
        for cell in self.cells:
            seen = {} if cell.case.options.get("disableConversationVar") else {HISTORY: list(history)}
            message = render(cell.prompt, cell.case, self.env, seen)
            turn = None if cell.case.reply is not None else next(turns, None)
            yield cell, message, turn
            if turn is None and cell.case.reply is None:
                return
            sent = _parsed(message) or message
            last = sent[-1] if isinstance(sent, list) and sent else None
            said = (last.get("content") or last) if isinstance(last, dict) else last or sent
            output = reply_text(cell.case) if turn is None else turn.text
            history.append({"prompt": sent, "input": said, "output": output})

    async def script(self, asked: Sequence[Reply]) -> Say | None:
        """What is sent next: the message of the next cell without a stored reply."""
        try:
            open_cells = [
                message for cell, message, turn in self.turns(asked) if turn is None and cell.case.reply is None
            ]
            return self._say(open_cells[0], asked) if open_cells else None
        except (template.TemplateError, UnsendablePrompt) as error:
            raise CannotContinue(str(error)) from error

    def _say(self, message: str, asked: Sequence[Reply]) -> Say:
        chat = read_message(message, has_history=True)
        session_id = asked[-1].session_id if asked else None
        said = [text.strip() for turn in asked if turn.session_id == session_id for text in (turn.prompt, turn.text)]
        if chat.system_prompt != self.system_prompt():
            raise UnsendablePrompt("The system message changes within the conversation; an agent keeps its own.")
        if not chat.earlier:
            return Say(chat.text, begins=True)
        if [text.strip() for text in chat.earlier] != said:
            raise UnsendablePrompt(
                "The chat does not repeat the messages of its session, so it cannot be sent there: repeat all of "
                f"{HISTORY}, `input` and `output`, one after the other."
            )
        return Say(chat.text)


def _parsed(message: str) -> Any:
    try:
        return javascript.parse_json(message)
    except ValueError:
        return None


def reply_text(case: Case) -> str:
    """The stored reply of a case, as text."""
    return case.reply if isinstance(case.reply, str) else json.dumps(case.reply, ensure_ascii=False)
