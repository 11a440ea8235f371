# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""On call: alerts that arrive by webhook, and the talk around them."""

from __future__ import annotations

from .thread import Exchange, Thread

ALERTS: tuple[Thread, ...] = (
    Thread(
        "High latency: {service} ({region})",
        "Latency of {service} in {region} rose to {ms} ms after a deployment and fell after the rollback.",
        (
            Exchange(
                "ALERT {service} in {region}: p95 latency {ms} ms for {minutes} minutes",
                "p95 of **{service}** in {region} rose to {ms} ms right after {version} was deployed. Error rate is normal. I suggest rolling back; the runbook calls this safe.",
                ("read_metrics", "list_deployments", "search_runbook", "read_metrics"),
            ),
            Exchange(
                "Roll it back.",
                "Rolled back. p95 is falling; I will report in {minutes} minutes.",
                ("start_rollback", "read_metrics"),
            ),
            Exchange(
                "[Status?|How does it look?]",
                "Back to normal for {minutes} minutes. I drafted the incident note under {ticket}.",
                ("read_metrics", "draft_note"),
            ),
        ),
    ),
    Thread(
        "Disk filling: {service} ({region})",
        "A log that was never rotated filled the disk of {service} in {region}.",
        (
            Exchange(
                "ALERT {service} in {region}: disk {percent} % free, falling",
                "At this rate the disk of {service} is full in about {small} hours. The growth comes from one log that is not rotated since {version}.",
                ("read_metrics", "list_files", "list_deployments"),
            ),
            Exchange(
                "[What is the quickest fix?|What can I do right now?]",
                "Rotate it once by hand (runbook, section {small}); it frees most of the space. The lasting fix is one line in the configuration, for which I opened {ticket}.",
                ("search_runbook", "open_ticket"),
            ),
        ),
    ),
    Thread(
        "Errors: {service}",
        "{service} answered {percent} % of requests with errors because a certificate had expired.",
        (
            Exchange(
                "ALERT {service}: error rate {percent} % in {region}",
                "All failing requests of **{service}** go to one upstream whose certificate expired at midnight. Renewing it should end this.",
                ("read_metrics", "sample_rows", "check_certificates"),
            ),
            Exchange(
                "Renewed. [Better?|Did it help?]",
                "Yes: the error rate is back under 0.1 %. I added a reminder {minutes} days before the next expiry.",
                ("read_metrics", "schedule"),
            ),
        ),
    ),
    Thread(
        "Queue backlog: {service}",
        "The backlog of {service} cleared by itself after {minutes} minutes.",
        (
            Exchange(
                "ALERT {service}: {count} messages waiting for {minutes} minutes",
                "The backlog of {service} shrinks already: a consumer restarted and is catching up. It should be clear in about {minutes} minutes. No action needed.",
                ("read_metrics", "read_job_log"),
            ),
        ),
    ),
)

CHATS: tuple[Thread, ...] = (
    Thread(
        "Handover for {weekday}",
        "One open matter at handover: {ticket} on {service}.",
        (
            Exchange(
                "[What do I have to know for my shift?|Handover, please.]",
                "Since {weekday}: {small} alerts, all closed but one. {ticket} on **{service}** is open; {person} waits for a reply from the provider.",
                ("list_alerts", "list_tickets", "summarise"),
            ),
            Exchange(
                "Has anything been [muted|silenced]?",
                "Yes, the disk alert of {service} in {region}, until {weekday}. The reason given is the migration.",
                ("list_alerts",),
            ),
            Exchange("Remind me before it ends.", "I will, one hour before it ends.", ("schedule",)),
        ),
    ),
    Thread(
        "Incident {ticket}: the timeline",
        "{service} was degraded for {minutes} minutes; the cause was a pool of connections that was too small.",
        (
            Exchange(
                "[Write the timeline of {ticket}.|Draft the incident report for {ticket}.]",
                "**Timeline of {ticket}**\n\n- first alert on {service}\n- {small} minutes later: {person} takes over\n- {minutes} minutes later: cause found, the connection pool\n- pool enlarged, errors stop",
                ("list_alerts", "read_messages", "read_metrics", "list_deployments"),
            ),
            Exchange(
                "What do we learn from it?",
                "1. The pool's limit had no alert.\n2. The runbook named a dashboard that no longer exists.\n3. {person}'s idea of a smaller default timeout would have halved the effect.",
                ("search_incidents", "summarise"),
            ),
            Exchange(
                "Open tickets for the first two.",
                "Opened, both assigned to the team of {service} and linked to {ticket}.",
                ("open_ticket", "open_ticket"),
            ),
        ),
    ),
)
