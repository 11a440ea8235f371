# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""Releases: chats about notes, the scheduled digest, and builds that a trigger reports."""

from __future__ import annotations

from .thread import Exchange, Thread

CHATS: tuple[Thread, ...] = (
    Thread(
        "Notes for {version}",
        "The notes for {version} are ready: {small} fixes, one new feature in {service}, nothing that breaks.",
        (
            Exchange(
                "[Draft the release notes for {version}.|Please write the notes for {version}.]",
                "**{version}**\n\n- New: {service} remembers the last filter you used.\n- Fixed: exports with more than {count} rows no longer stop half-way.\n- Fixed: the time zone of {city} in reports.",
                ("list_changes", "read_pull_requests", "read_pull_requests", "classify"),
            ),
            Exchange(
                "[Shorter, please.|Make it friendlier.|Less technical, please.]",
                "**What is new in {version}**\n\nYour filters stay where you left them, and large exports arrive whole.",
                ("rewrite",),
            ),
            Exchange(
                "Does anything break for [integrators|API users]?",
                "No. I compared the public schema with the last release: one optional field was added to {service}, none removed or renamed.",
                ("diff_schema", "list_changes"),
            ),
            Exchange(
                "Publish it on {weekday}.",
                "It is scheduled for {weekday} at 09:00. {person} is listed as the contact.",
                ("schedule",),
            ),
        ),
    ),
    Thread(
        "Is {version} ready?",
        "{version} waits for one thing: the migration of `{table}` has not been rehearsed.",
        (
            Exchange(
                "Is {version} ready [to ship|to go out]?",
                "Nearly. Tests pass and the changelog is complete. The migration of `{table}` has not been rehearsed on a copy of production.",
                ("read_checks", "read_checklist", "list_changes"),
            ),
            Exchange(
                "How long would a rehearsal take?",
                "The last one took {minutes} minutes for a table half the size, so plan for twice that.",
                ("read_job_log",),
            ),
            Exchange(
                "[Start it.|Go ahead.]",
                "Started on the copy in {region}. I will add the result to the checklist when it is done.",
                ("start_job",),
            ),
        ),
    ),
    Thread(
        "Who changed {service}?",
        "The change in {service} came with {version}; {person} reviewed it.",
        (
            Exchange(
                "Which change made {service} [slower|noisier]?",
                "The most likely one is in {version}: it logs every retry. {person} reviewed it on {weekday}.",
                ("list_changes", "read_pull_requests", "read_metrics"),
            ),
            Exchange(
                "Can we undo only that?",
                "Yes, it stands alone. Reverting it touches two files and no migration.",
                ("read_pull_requests",),
            ),
        ),
    ),
)

DIGESTS: tuple[Thread, ...] = (
    Thread(
        "Morning digest",
        "{small} changes since yesterday, none urgent.",
        (
            Exchange(
                "Summarise what changed since the last digest.",
                "**Since yesterday**: {small} changes merged, {percent} open.\n\n- {service}: clearer error when a device is unknown\n- reports: faster for {region}\n- documentation: a page on {topic}",
                ("list_changes", "read_pull_requests", "summarise"),
            ),
        ),
    ),
    Thread(
        "Morning digest",
        "A quiet day: documentation and one fix in {service}.",
        (
            Exchange(
                "Summarise what changed since the last digest.",
                "A quiet day. One fix in **{service}** ({ticket}), and {person} rewrote the page on {topic}. Nothing waits for review longer than a day.",
                ("list_changes", "summarise"),
            ),
        ),
    ),
)

BUILDS: tuple[Thread, ...] = (
    Thread(
        "Build {version}",
        "Build {version} passed in {minutes} minutes.",
        (
            Exchange(
                '{{"build": "{version}", "result": "passed", "minutes": {minutes}}}',
                "Build {version} passed in {minutes} minutes. I moved {small} issues to *Ready for release* and told {person}.",
                ("read_checks", "update_issues"),
            ),
        ),
    ),
    Thread(
        "Build {version} failed",
        "Build {version} failed in the tests of {service}.",
        (
            Exchange(
                '{{"build": "{version}", "result": "failed", "job": "{service}"}}',
                "Build {version} failed in **{service}**: one test timed out after {minutes} minutes. The same test failed {small} times last week, so I marked it as unreliable and restarted the job once.",
                ("read_checks", "read_job_log", "search_incidents", "restart_job"),
            ),
        ),
    ),
)
