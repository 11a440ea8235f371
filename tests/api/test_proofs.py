"""What the API layer promises, row by row, each with the test that proves it. A row without a test fails here.

The operations are read off the client itself, so a new one needs a row of its own.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import agentbook as ab

TESTS = Path(__file__).parents[1]
CLIENT = "api/test_client.py::test_an_operation_sends_the_same_bytes_from_both_clients"
LISTS = "api/test_client.py::test_a_list_sends_the_same_bytes_from_both_clients"
ROAD = "integration/test_client_and_service.py::test_a_list_is_the_same_iterated_counted_framed_and_awaited"
ERRORS = "api/test_errors.py::test_each_row_of_the_error_table_is_its_own_type"
LIMITS = "api/test_errors.py::test_each_run_limit_is_told_from_the_rate_limit_by_its_message"

OPERATIONS = {
    "me.get": [CLIENT],
    "me.workspaces": [LISTS, ROAD],
    "me.invitations": [LISTS, ROAD],
    "agents.list": [LISTS, ROAD],
    "agents.get": [CLIENT, "integration/test_client_and_service.py::test_many_names_stay_one_path_segment"],
    "agents.create": [
        CLIENT,
        "integration/test_client_and_service.py::test_agents_are_created_configured_and_versioned",
    ],
    "agents.update": [CLIENT, "integration/test_sign_in.py::test_a_person_signs_in_and_acts_as_themselves"],
    "agents.configure_llm": [
        CLIENT,
        "integration/test_client_and_service.py::test_agents_are_created_configured_and_versioned",
    ],
    "agents.versions": [LISTS, ROAD],
    "agents.publish": ["integration/test_client_and_service.py::test_a_version_is_published_once"],
    "skills.list": [LISTS, ROAD],
    "skills.create": [CLIENT],
    "credentials.list": [
        LISTS,
        ROAD,
        "integration/test_client_and_service.py::test_no_secret_is_in_a_frame_of_credentials",
    ],
    "workspaces.list": [LISTS, ROAD],
    "workspaces.create": [CLIENT],
    "workspaces.contexts": [LISTS, ROAD],
    "workspaces.agents": [ROAD],
    "workspaces.install_agent": ["integration/test_client_and_service.py::test_an_agent_is_installed_and_uninstalled"],
    "workspaces.uninstall_agent": [
        CLIENT,
        "integration/test_client_and_service.py::test_an_agent_is_installed_and_uninstalled",
    ],
    "sessions.start": [
        CLIENT,
        "integration/test_client_and_service.py::test_a_question_is_answered_streamed_and_recorded",
    ],
    "sessions.events": [LISTS, ROAD],
    "sessions.send": [CLIENT],
    "sessions.get": ["integration/test_client_and_service.py::test_one_session_is_read_where_the_platform_offers_it"],
    "sessions.list": [LISTS, ROAD],
    "sessions.stream": ["events/test_stream.py::test_many_cuts_lose_and_repeat_nothing"],
    "sessions.ask": ["integration/test_client_and_service.py::test_a_question_is_answered_streamed_and_recorded"],
    "organizations.invitations": [LISTS, ROAD],
}

ERROR_TABLES = {
    "400 InvalidInputError": [ERRORS],
    "400 BadRequest": [ERRORS],
    "401 Not authenticated": [ERRORS, "integration/test_client_and_service.py::test_public_agents_need_no_credential"],
    "401 Invalid API key": [
        ERRORS,
        "integration/test_client_and_service.py::test_a_wrong_key_is_refused_on_requests_and_streams",
    ],
    "401 Invalid OAuth token": [
        ERRORS,
        "integration/test_sign_in.py::test_an_access_token_that_ran_out_is_renewed_on_the_way",
    ],
    "401 This credential cannot access this endpoint": [ERRORS],
    "403 InsufficientScope": [
        ERRORS,
        "integration/test_client_and_service.py::test_a_key_without_scopes_can_only_ask_who_it_is",
    ],
    "403 Forbidden": [ERRORS],
    "404 NotFound": [
        ERRORS,
        "integration/test_client_and_service.py::test_a_refusal_is_typed_and_carries_the_request_id",
    ],
    "405 MethodNotAllowed": [ERRORS],
    "409 Conflict": [ERRORS],
    "429 TooManyRequests": [ERRORS, "api/test_rate_limit.py::test_a_refusal_closes_it_until_the_servers_next_minute"],
    "5xx": [ERRORS],
    "an HTML page": ["api/test_errors.py::test_an_html_page_is_read_for_its_words"],
    "an OAuth body": ["api/test_errors.py::test_an_oauth_body_is_an_oauth_error"],
    "OAuth invalid_grant": ["integration/test_sign_in.py::test_an_authorization_that_has_ended_says_to_sign_in"],
    "OAuth registration 429": ["integration/test_sign_in.py::test_too_many_registrations_are_said_at_once"],
    "run limits, all nine": [
        LIMITS,
        "integration/test_client_and_service.py::test_a_run_limit_is_raised_as_what_it_is",
    ],
    "the same types on a handshake": ["events/test_stream.py::test_a_refused_handshake_is_the_typed_error"],
    "the same types as a close code": ["events/test_stream.py::test_a_refusal_as_a_close_code_is_the_typed_error"],
    "every error pickles": ["api/test_errors.py::test_every_error_survives_a_pickle"],
}

RETRY_RULES = {
    "5xx and network errors of reads: exponential backoff, jitter": [
        "api/test_policy.py::test_a_read_is_retried_with_backoff_and_jitter",
        "api/test_policy.py::test_a_read_gives_up_with_the_typed_error",
    ],
    "429: wait for the next minute": [
        "api/test_policy.py::test_the_rate_limit_waits_for_the_next_minute_even_for_a_write",
        "api/test_rate_limit.py::test_one_probe_goes_first_and_the_others_follow_when_it_passed",
        "api/test_rate_limit.py::test_a_refused_probe_waits_a_whole_minute_from_then",
        "api/test_faults.py::test_nothing_leaves_through_a_closed_gate",
        "api/test_faults.py::test_a_shared_window_costs_little_more_than_it_must",
    ],
    "an unchanged 4xx is not sent again": ["api/test_policy.py::test_no_4xx_is_sent_again"],
    "a timed-out write: read first": [
        "api/test_policy.py::test_a_named_create_is_read_back_after_a_lost_reply",
        "api/test_policy.py::test_what_is_read_back_must_be_what_was_sent",
        "api/test_faults.py::test_a_thousand_faulty_writes_have_at_most_one_effect_each",
        "api/test_faults.py::test_a_named_create_that_was_applied_is_returned_and_never_a_conflict",
    ],
    "a run limit is not retried": ["api/test_policy.py::test_a_run_limit_is_not_waited_for"],
    "one deadline over the whole call": ["api/test_policy.py::test_the_deadline_covers_the_waiting"],
    "a redirect is not followed": ["api/test_policy.py::test_a_redirect_is_refused"],
}

ROWS = {**OPERATIONS, **ERROR_TABLES, **RETRY_RULES}


def test_every_operation_of_the_client_has_a_row() -> None:
    client = ab.Client("http://h/v1")
    nouns = ("me", "agents", "skills", "credentials", "workspaces", "sessions", "organizations")
    offered = {
        f"{noun}.{name}" for noun in nouns for name in dir(type(getattr(client, noun))) if not name.startswith("_")
    }
    assert offered == set(OPERATIONS)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_names_a_test_that_is_there(row: str) -> None:
    assert ROWS[row], row
    for proof in ROWS[row]:
        path, _, name = proof.partition("::")
        functions = {
            node.name for node in ast.walk(ast.parse((TESTS / path).read_text())) if isinstance(node, ast.FunctionDef)
        }
        assert name in functions, proof
