"""The words that events use to describe tool runs, on any platform.

The specification leaves the contents of events other than replies open, so a field is
recognized by any of the names that platforms use for it.
"""

from __future__ import annotations

# Each field of a tool run with the names that platforms send it under, the best first.
FIELDS: dict[str, tuple[str, ...]] = {
    "name": ("tool", "tool_name", "function", "function_name", "agent", "agent_name", "name"),
    "kind": ("kind", "type"),
    "arguments": ("arguments", "args", "tool_input", "tool_args", "tool_arguments", "input", "parameters", "params"),
    "result": ("result", "tool_result", "tool_output", "output", "response", "observation"),
    "error": ("error", "exception", "error_message"),
    "state": ("state", "status", "is_error"),
    "call": ("tool_call_id", "tool_use_id", "call_id", "run_id", "id"),
    "parent": ("parent_task_id", "parent_id", "parent_call_id", "parent"),
    "started_at": ("started_at", "start_time"),
    "ended_at": ("ended_at", "finished_at", "completed_at", "end_time"),
}
# Objects, or a list of objects, that hold the fields instead of the content itself.
CONTAINERS = ("step", "tool_call", "tool_use", "function_call", "tool", "function", "tool_calls")
# One of these alone shows that an event belongs to a tool run.
OF_TOOLS = ("tool", "tool_name", "function", "function_name", "tool_call_id", "tool_use_id", *CONTAINERS[1:])
# Values of a state field that mean a run has ended; `is_error` is true or false.
FAILED_STATES = ("failed", "failure", "error", "cancelled", "canceled", "timeout")
ENDED_STATES = ("done", "completed", "complete", "success", "succeeded", "finished", "ok", *FAILED_STATES)
# Words in the types of events.
TOOL_WORDS = frozenset({"tool", "tools", "function"})
FAILING_WORDS = frozenset({"error", "failed", "failure"})
ENDING_WORDS = FAILING_WORDS | {
    *("result", "output", "response", "done", "end", "ended", "finish", "finished", "complete", "completed"),
}
