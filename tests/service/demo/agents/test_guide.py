"""The guide finds the right page, quotes it unchanged, and says when nothing fits."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbook.service.demo.agents.docstrings import REFERENCE
from agentbook.service.demo.agents.documentation import Library, library, manual, read_page
from agentbook.service.demo.agents.guide import Guide, understand
from agentbook.service.engines.base import Message
from service.engines.engine_runs import collect, finished_tools, reply, request, run

# question -> how the source of the best section begins
QUESTIONS = {
    "How do I install agentbook?": "Getting started",
    "How do I connect to my own platform?": "Connecting",
    "Which environment variables are read?": "Connecting › Environment variables",
    "How do I start a chat session?": "Sessions and events",
    "What is a turn?": "Sessions and events › Turns",
    "What is a draft?": "Sessions and events › Drafts",
    "How does from_id work?": "Streaming and reconnecting",
    "How do I stream events live?": "Streaming and reconnecting › Stream a session",
    "What happens when my connection drops?": "Streaming and reconnecting › Reconnecting",
    "Can I filter the stream by event type?": "Streaming and reconnecting › Filter by type",
    "How do I load events into a DataFrame?": "DataFrames › load_events",
    "Which columns does the events frame have?": "DataFrames › Columns",
    "How do I find stale credentials?": "Credentials",
    "Can I see when a credential was last used?": "Credentials › Unused",
    "What does restrict_account_credentials do?": "Credentials",
    "How do I open a chat panel?": "Chat panel › Open",
    "Is HTML from an agent dangerous?": "Chat panel › Is agent output safe",
    "How do I try out different prompts?": "Prompt lab",
    "What does 409 mean?": "Errors › 409",
    "Why do I get 403 InsufficientScope?": "",
    "What does TURN_TIMEOUT mean?": "Errors › Run limits",
    "What scopes does my key need to chat?": "Scopes and keys",
    "How do I revoke a key?": "Scopes and keys › Revoke",
    "How does OAuth work with PKCE?": "OAuth",
    "What is the maximum page size?": "Limits › Page size",
    "What is unlimited power mode?": "Limits › Fan-out",
    "How do I create a workspace?": "Workspaces › Create",
    "Why is a workspace missing from my list?": "Workspaces › Restricted",
    "How do I configure an LLM agent?": "Agents and versions › Configure",
    "What is the difference between EPHEMERAL and COMMITTED?": "Agents and versions › Versions",
    "How do I make test data for load tests?": "The embedded service",
    "How do I run this on Binder?": "Binder and tutorials",
    "The agent never replies, what can I do?": "Troubleshooting › A reply never comes",
    "I got 404 but it exists": "Troubleshooting › 404",
    # questions of newcomers
    "How do I get started?": "Getting started",
    "Which Python versions are supported?": "Getting started",
    "Does it need internet?": "Getting started",
    "Which agents are there?": "Agents and versions › Which agents",
    "What is the analyst?": "Analyses and charts",
    "Is my API key stored in the notebook?": "Connecting",
    "How do I compare two agents side by side?": "Chat panel › Compare",
    "How do I save a chat?": "Chat panel › Save or export",
    "How do I use %%chat?": "Chat panel › Magics",
    "How do I use the prompt lab?": "Prompt lab › Use the prompt lab",
    "How do I use my own language model?": "",
    "Who is active when?": "Analyses and charts",
    "How do I compare this week with last week?": "Analyses and charts › Which agents got slower",
    "How do I draw a chart?": "Analyses and charts › Charts",
    "How do I see slow answers?": "Analyses and charts › latency",
    "What does severity mean in the credential report?": "Credentials › Severity",
    "How does the local store work?": "Local store and Dask › Keep events",
    "How do I run SQL?": "Local store and Dask › Query",
    "My data does not fit into memory": "Local store and Dask › Dask",
    "How do I export to CSV?": "DataFrames › Export",
    "Can I use polars?": "DataFrames › Arrow and Polars",
    "Something does not work, what now?": "Troubleshooting › Something does not work",
    "What does agentbook doctor check?": "Troubleshooting › What doctor checks",
    "Where is my data stored?": "The embedded service and the command line › Where",
    "How do I sign in as a person?": "OAuth › Sign in as a person",
    "How do I share a notebook?": "Binder and tutorials › Share",
    "How do I load the events of several sessions?": "DataFrames › load_events",
    "Where is the documentation site?": "Getting started › The documentation site",
    "Where is the gallery of charts?": "Analyses and charts › Charts to draw",
    "Can I use JupyterLite?": "Binder and tutorials › JupyterLite",
}


# What newcomers ask -> how the source of the answer begins; any other would be wrong.
NEWCOMERS = {
    "Which tutorial should I start with?": "Binder and tutorials › Which tutorial",
    "How long does the first tutorial take?": "Binder and tutorials › Which tutorial",
    "How do I open the tutorials?": "Binder and tutorials › Open the tutorials",
    "Where is the API reference?": "Getting started › Where is the API reference",
    "What is agentbook?": "Getting started › What agentbook is",
    "What do I need to install?": "Getting started",
    "Does it work on Python 3.12?": "Getting started › What is needed",
    "What does it cost?": "Getting started › What it costs",
    "Does it work in VS Code?": "Getting started › What is needed",
    "How do I update agentbook?": "Getting started › Update",
    "How do I uninstall agentbook?": "Getting started › Update",
    "How do I ask an agent from Python?": "Getting started › Ask and wait",
    "My account is empty, how do I begin?": "Getting started › A new account",
    "What is an agent?": "Agents and versions › What an agent is",
    "How do I create an agent?": "Agents and versions › Create an agent",
    "How do I change the prompt of an agent?": "Agents and versions › Configure",
    "What is a version?": "Agents and versions › Versions",
    "What is a session?": "Sessions and events › What a session is",
    "What is an event?": "Sessions and events › Events",
    "What is a cursor?": "Sessions and events › Cursors",
    "How do I find my sessions again?": "Sessions and events › Find your sessions",
    "What is a subtask?": "Glossary › Subtask",
    "What is a run limit?": "Errors › Run limits",
    "What is a workspace?": "Workspaces › What a workspace is",
    "How do I stream events? Show code.": "Streaming and reconnecting › Stream a session",
    "How do I use Ollama?": "The embedded service and the command line › Use a language model",
    "How do I use OpenAI?": "The embedded service and the command line › Use a language model",
    "What is the embedded service?": "The embedded service and the command line › What the embedded service is",
    "How do I reset the demo data?": "Getting started › Update, reset",
    "Which commands are there?": "The embedded service and the command line › Commands",
    "How do I get an API key?": "Scopes and keys › Get an API key",
    "Where do I put my API key?": "Connecting",
    "What is the difference between Client and AsyncClient?": "API reference › ab.AsyncClient",
    "What scopes are there?": "Scopes and keys › What scopes there are",
    "How do I load everything of an account at once?": "Analyses and charts › A whole history at once",
    "Why did a turn fail?": "Sessions and events › Failed turns",
    "How long do replies take?": "Analyses and charts › latency",
    "Which agent got slower?": "Analyses and charts › Which agents got slower",
    "How do I save a chart as PNG?": "Analyses and charts › Save a chart",
    "How do I watch sessions live?": "Analyses and charts › Watch live",
    "How do I write my own analysis?": "Analyses and charts › Write your own analysis",
    "How do I export to Excel?": "DataFrames › Export a frame",
    "How do I chat with an agent in a notebook?": "Chat panel",
    "How do I stop a reply?": "Chat panel › Stop a reply",
    "How do I replay a session?": "Chat panel › Replay a session",
    "How do I test a prompt?": "Prompt lab",
    "What happens at the rate limit?": "Limits › Request rate",
    "How do I resume a load that stopped?": "Troubleshooting › A load stopped partway",
    "My chart is missing": "Troubleshooting › A chart does not appear",
    "Why is the first cell so slow?": "Troubleshooting › The first cell takes long",
    "How do I report a bug?": "Troubleshooting › Report a bug",
    "What does load_events return?": "API reference › ab.load_events",
    "What are the parameters of ab.turns?": "API reference › ab.turns",
    "What can client.sessions.stream do?": "API reference › client.sessions.stream",
    "What are the parameters of ChatPanel?": "API reference › ab.ChatPanel",
    # A number, in digits or as a word, only counts things, unless it is a status.
    "How do I load the events of 3 sessions?": "DataFrames › load_events",
    "How do I load the events of three sessions?": "DataFrames › load_events",
    "Can I load 10 sessions at once?": "DataFrames › load_events",
    "How do I compare 2 agents?": "Chat panel › Compare",
    "How do I get the 5 slowest turns?": "Analyses and charts › latency",
    "Why do 2 of 3 requests get a 429?": "Errors › 429",
    "How many tokens did an agent use?": "Analyses and charts › usage",
    "How do I send a file to an agent?": "Chat panel › Attach a table, a file",
    "How do I see what my agents did last week?": "Analyses and charts › Analyse without pandas: ask the analyst",
    "What is in the demo data?": "The embedded service and the command line › Demo data",
    "How do I print the text of a reply?": "Getting started › Ask and wait for a reply",
    "How do I turn a transcript into a notebook?": "Chat panel › Save or export a chat: the transcript",
    "How do I back up the database?": "Deployment on PostgreSQL › Back up and restore",
    "How do I set up nginx?": "Deployment on PostgreSQL › nginx in front",
    "How do I filter sessions by agent?": "Sessions and events › Find your sessions",
    "How do I log out?": "OAuth › Sign out",
    "How do I delete a session?": "Sessions and events › Delete",
    "How do I install it?": "Getting started › Install",
    "How do I get a key?": "Scopes and keys › Get an API key",
    "Where are my credentials stored?": "Connecting › Where credentials are stored",
    "How do I make my first chart?": "Analyses and charts › Charts to draw",
    "How do I load the sessions of last week?": "Analyses and charts › A whole history at once",
    "How do I attach a DataFrame to a message?": "Chat panel › Attach",
    "How do I export a conversation?": "Chat panel › Save or export",
    "Can I try it on Binder?": "Binder and tutorials › Run on Binder",
    "How do I use it with the real platform's URL?": "Connecting",
    "What do I do about a 401 error?": "Errors › 401",
    "Why do I get a 403?": "Errors › 403",
    "What does 429 mean?": "Troubleshooting › 429",
    "How do I stop a turn?": "Chat panel › Stop a reply",
    "How do I replay a conversation?": "Chat panel › Replay",
    "How do I compare two agents?": "Chat panel › Compare",
    "How do I evaluate a prompt?": "Prompt lab › A prompt lab as",
    "How much does a run cost?": "Prompt lab › Limit what",
    "Can I delete an agent?": "Agents and versions › Update, archive",
    "How do I rename a session?": "Sessions and events › Delete",
    "How do I see the sessions of a colleague?": "Sessions and events › Find your sessions",
    "How do I search for a word in all conversations?": "Chat panel › New session",
    "How do I list my workspaces?": "Workspaces › List",
    "How do I switch to another account?": "Connecting › Switching",
    "How do I turn off the embedded service?": "The embedded service and the command line › Stop",
    "How do I change the port?": "Troubleshooting › The port",
    "How do I see the tool calls of an agent?": "Chat panel › What the agent did",
    "How do I get the latest sessions?": "Sessions and events › Find your sessions",
    "How do I plot latency per agent?": "Analyses and charts › Charts to draw",
    "Can I edit a message that I sent?": "Chat panel › Edit",
    "How do I cancel a running agent?": "Chat panel › Stop",
    "Does agentbook send data anywhere?": "Connecting › What leaves",
    "How do I use dark mode?": "Chat panel › Dark mode",
    "How do I schedule a report?": "DataFrames › A report",
    "Which Jupyter versions work?": "Getting started › What is needed",
    "How do I use a proxy?": "Troubleshooting › Nothing streams behind",
    "How do I change the timezone?": "Analyses and charts › Change the time zone",
    "How do I write a report?": "DataFrames › A report",
    "How do I give someone access to a workspace?": "Workspaces › Give people access",
    "How do I hide my API key?": "Connecting › Where credentials",
    "How do I continue an old conversation?": "Chat panel › New session",
    "What is a skill?": "Agents and versions › Skills",
    "How do I log in?": "OAuth › Sign in",
    "How do I use my own API key?": "Scopes and keys › Get",
    "How do I save my chat as markdown?": "Chat panel › Save",
    "Can I use it without internet?": "Getting started › What is needed",
    "How do I rerun only failed inputs?": "Prompt lab",
    "How do I invite a colleague?": "Workspaces",
    "How do I see the cost per agent?": "Analyses and charts › usage",
    "How can I limit costs?": "Prompt lab › Limit",
    "How do I clear the chat?": "Chat panel › New session",
    "Why is the panel empty?": "Chat panel",
}


@pytest.mark.parametrize(("question", "source"), [*QUESTIONS.items(), *NEWCOMERS.items()])
def test_the_best_section_for_a_question(question: str, source: str) -> None:
    [first, *_] = library().search(understand(question, []).query)
    assert first.section.source.startswith(source), first.section.source
    answer = reply(Guide(), question)
    assert first.section.blocks[0] in answer
    assert first.section.source in answer


@pytest.mark.parametrize(
    "question", ["What is the weather in Paris?", "Best pizza in Rome", "zxqv bnmt", "Wie spät ist es?"]
)
def test_it_says_when_nothing_fits_and_lists_the_pages(question: str) -> None:
    answer = reply(Guide(), question)
    assert "found nothing" in answer
    assert all(title in answer for title in ("Getting started", "Errors", "Troubleshooting"))


def words(text: str) -> str:
    """`text` however its lines are wrapped."""
    return " ".join(text.split())


def test_quotes_are_in_the_pages() -> None:
    pages = words("\n".join(page.read_text(encoding="utf-8") for page in manual().glob("*.md")))
    pages += words("\n".join(section.text for section in library().sections if section.document == REFERENCE))
    for question in [*QUESTIONS, *NEWCOMERS]:
        body = reply(Guide(), question).split("\n\n*Source")[0]
        for block in body.split("\n\n"):
            assert words(block) in pages or block.startswith("From *"), block
        assert body.count("```") % 2 == 0


def test_a_follow_up_continues_the_question_before_it() -> None:
    history = [Message("user", "How do I stream events live?"), Message("assistant", "…")]
    example = reply(Guide(), "Show me an example", history=history)
    assert "client.sessions.stream" in example
    assert "```" in example
    assert understand("and in more detail?", history).query.startswith("How do I stream")
    assert understand("How do I revoke a key?", history).query == "How do I revoke a key?"
    more = reply(Guide(), "Tell me more", history=[*history[:1], Message("assistant", reply(Guide(), history[0].text))])
    assert not more.startswith(library().search(history[0].text)[0].section.blocks[0])


def test_one_search_runs_as_a_tool() -> None:
    assert finished_tools(run(Guide(), "What is a turn?")) == ["search_documentation"]


@given(st.text(max_size=200) | st.text(alphabet='"*()^:{}-+ANDORNOTNEAR events', max_size=80))
def test_a_question_is_never_read_as_search_syntax(question: str) -> None:
    answer = reply(Guide(), question, history=[Message("user", question)])
    assert "Source" in answer or "pages" in answer


def test_concurrent_questions() -> None:
    async def all_at_once() -> list[str]:
        turns = [collect(Guide(), request(question)) for question in QUESTIONS]
        return [steps[-1].text for steps in await asyncio.gather(*turns)]  # type: ignore[union-attr]

    assert asyncio.run(all_at_once()) == [reply(Guide(), question) for question in QUESTIONS]


def test_code_blocks_stay_whole_with_lines_that_look_like_headings() -> None:
    page = "# Page\n\n## One\n\nLook:\n\n```python\n# not a heading\n\nx = 1\n```\n\n## Two\n\ntext\n"
    first, second = read_page(page)
    assert first.blocks == ("Look:", "```python\n# not a heading\n\nx = 1\n```")
    assert (second.source, second.text) == ("Page › Two", "text")


def test_an_empty_library_finds_nothing() -> None:
    assert "found nothing" in reply(Guide(Library([])), "What is a turn?")


def test_every_page_has_a_title_and_sections_with_text() -> None:
    titles = library().documents()
    assert len(titles) == len(set(titles)) >= 15
    assert all(section.text and section.document for section in library().sections)
