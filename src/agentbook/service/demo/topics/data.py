# ruff: noqa: E501 - prose and tables of facts: a sentence or a row is one line
"""The data desk: questions to the warehouse, figures that disagree, definitions."""

from __future__ import annotations

from .thread import Exchange, Thread

CHATS: tuple[Thread, ...] = (
    Thread(
        "Revenue in {quarter}",
        "Revenue in {quarter} was {percent} % above the quarter before, and two thirds of the growth came from {plan} plans.",
        (
            Exchange(
                "[How did revenue develop in {quarter}?|What was revenue in {quarter} against the quarter before?]",
                "Revenue in {quarter} is **{percent} % higher** than in the quarter before.\n\n| plan | change |\n|---|---|\n| {plan} | +{percent} % |\n| others | +{other_percent} % |",
                ("describe_table", "run_sql", "run_sql", "check_totals"),
            ),
            Exchange(
                "[Which customers drive it?|Who are the biggest contributors?]",
                "{customer} and {small} others on the {plan} plan make up about two thirds of the growth. Without them it would be {other_percent} %.",
                ("run_sql", "run_sql"),
            ),
            Exchange(
                "Does that include refunds?",
                "Yes, refunds are subtracted in the month in which they were paid. Counted in the month of the sale, {quarter} would be a little lower.",
                ("describe_table", "run_sql"),
            ),
            Exchange(
                "Give me the query.",
                "```sql\nSELECT plan, sum(net_amount) AS revenue\nFROM {table}\nWHERE quarter = '{quarter}'\nGROUP BY plan\nORDER BY revenue DESC;\n```",
                ("format_sql",),
            ),
        ),
    ),
    Thread(
        "Why do the {table} figures disagree?",
        "The dashboard counts {table} by local time and the report by UTC; {count} rows fall on another day.",
        (
            Exchange(
                "The dashboard and the report [disagree|show different numbers] on {table} for {month}. Why?",
                "They cut days differently: the dashboard uses local time, the report UTC. {count} rows of `{table}` fall on another day, all between 22:00 and midnight.",
                ("describe_table", "run_sql", "run_sql", "compare", "sample_rows"),
            ),
            Exchange(
                "Which one is right?",
                "Neither is wrong, but finance closes its books by local time. For {month} I would quote the dashboard.",
                ("search_definitions",),
            ),
            Exchange(
                "How many rows were affected in [the other months|September and October]?",
                "Between {other_percent} and {percent} per thousand, more at month ends. None changes a quarter by more than a tenth of a percent.",
                ("run_sql", "run_sql", "run_sql"),
            ),
        ),
    ),
    Thread(
        "Churn on the {plan} plan",
        "Churn on the {plan} plan is {other_percent} %, mostly customers who never connected a second device.",
        (
            Exchange(
                "What is churn on the {plan} plan, and [why|what do those who leave have in common]?",
                "{other_percent} % over the last twelve weeks. Of those who left, {percent} % had never connected a second device.",
                ("run_sql", "run_sql", "segment", "run_sql"),
            ),
            Exchange(
                "Could that be [chance|a coincidence]?",
                "With {count} customers in the group, a gap this large by chance is very unlikely. But it is a correlation: small customers have fewer devices *and* leave more often.",
                ("significance",),
            ),
            Exchange(
                "Control for size, please.",
                "Among customers of similar size the gap shrinks to about half and stays clear. So the second device matters, though less than it looked.",
                ("run_sql", "run_sql", "significance"),
            ),
        ),
    ),
    Thread(
        "Late {table}",
        "{percent} % of {table} were late in {month}, most of them by way of {city}.",
        (
            Exchange(
                "How many {table} were late in {month}?",
                "{count} rows, that is {percent} %. The median delay was {small} days.",
                ("describe_table", "run_sql", "run_sql"),
            ),
            Exchange(
                "Break it down by [city|warehouse].",
                "| place | late |\n|---|---|\n| {city} | {percent} % |\n| all others | {other_percent} % |\n\n{city} stands out since the second week of the month.",
                ("run_sql", "plot"),
            ),
            Exchange(
                "What happened there?",
                "The load of `{table}` from {city} ran a day late {small} times, so part of it is late *data*, not late goods. {person} fixed the job on {weekday}.",
                ("read_job_log", "search_incidents"),
            ),
        ),
    ),
    Thread(
        "What is an active device?",
        "A device is active if it sent a reading in the last seven days; there are {count} of them on the {plan} plan.",
        (
            Exchange(
                "[What exactly counts as an active device?|How do we define an active device?]",
                "A device that sent at least one reading in the last seven days, test units excluded. The definition has not changed since {month}.",
                ("search_definitions",),
            ),
            Exchange(
                "How many are there on the {plan} plan?",
                "{count}, which is {percent} % more than a month ago.",
                ("run_sql",),
            ),
        ),
    ),
)
