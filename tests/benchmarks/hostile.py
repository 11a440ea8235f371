"""Attacks the service, and measures what another account notices of it.

    python tests/benchmarks/hostile.py [attack ...]

The service runs in its own process on a real socket, and the attack in another. Ten
times a second a key of another account reads GET /me, half of the times on a new
connection. Prints a Markdown table with the longest of these reads and the growth of
the service's memory (resident set) for each attack; the exit code is 1 if a goal is
missed.

On a busy machine the longest read says how busy it is: the first row is the service
without an attack. The columns of CPU time hardly depend on that. They are the most that
the service computed during one read, which is about how long that takes on a machine of
its own; the longest turn of the event loop, in which it serves nobody else; and the
longest callback in a turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attacks import ATTACKS, MIB, Target, wait_for_turns
from bystander import Bystander
from service_process import SCOPES, run

MAX_DELAY_S, MAX_GROWTH_MB = 0.1, 50
COMMAND = [sys.executable, str(Path(__file__).with_name("loop_cpu.py"))]


@contextlib.contextmanager
def running() -> Iterator[tuple[subprocess.Popen[str], Target, str]]:
    """A service with the demo data, an attacker's key and session, another key."""
    with tempfile.TemporaryDirectory(prefix="agentbook-hostile-") as folder:
        data = Path(folder) / "data"
        command = [*COMMAND, "serve", "--port", "0", "--data", str(data), "--speed", "0"]
        log = Path(folder) / "log"  # a pipe would fill, and the service wait for its reader
        with log.open("w") as stderr:
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True)
        while not (ready := log.read_text()).endswith("\n") and process.poll() is None:
            time.sleep(0.05)
        assert ready.startswith("agentbook serves"), ready
        scopes = [part for scope in SCOPES for part in ("--scope", scope)]
        run("fixtures", "--sessions", "1", "--events", "300000", data=data)
        run("accounts", "create", "bystander", "--type", "user", data=data)
        bystander = run("keys", "create", "--account", "bystander", "--name", "bystander", *scopes, data=data)
        key = run("keys", "create", "--account", "acme", "--name", "attacker", *scopes, data=data)
        facts = json.loads((data / "service.json").read_text())
        target = Target(facts["base_url"], facts["port"], key)
        try:
            yield process, _prepared(target), bystander
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
            logged = log.read_text()
            if logged != ready:
                print(f"The service logged {len(logged)} characters:\n{logged[len(ready) :][:3000]}")


def _prepared(target: Target) -> Target:
    """A session of a hundred messages of a megabyte, and an agent for long prompts."""
    with target.http() as http:
        for name, template in (("silent", "BLANK"), ("long-winded", "LLM")):
            http.post("/agents", json={"name": name, "template": template}).raise_for_status()
        body = {"session_type": "chat", "agent_id": "silent", "initial_prompt": "hello"}
        session = http.post("/workspaces/playground/sessions", json=body).raise_for_status().json()["id"]
        for _ in range(100):
            http.post(f"/sessions/{session}/events", json={"content": "x" * (MIB - 1000)}).raise_for_status()
        wait_for_turns(http, [session])
        lists = [http.get(f"/workspaces/acme~fixtures-{n}/sessions").raise_for_status().json() for n in range(1, 5)]
        [long_session] = [item["id"] for each in lists for item in each["items"]]
    return Target(target.base_url, target.port, target.key, session, long_session)


def longest_on_loop(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the service's loop has computed since the last call (`loop_cpu`)."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    longest: dict[str, Any] = json.loads(process.stdout.readline())
    return longest


def measure(attack: Callable[[Target], Any], process: subprocess.Popen[str], target: Target, key: str) -> Bystander:
    """Run an attack, and return what the bystander noticed of it."""
    bystander = Bystander(target.port, key, process.pid)
    longest_on_loop(process)
    bystander.start()
    # In a process of its own, so that the attack does not delay the measurement.
    attacker = multiprocessing.get_context("spawn").Process(target=attack, args=(target,))
    attacker.start()
    attacker.join()
    bystander.stop()
    if attacker.exitcode:
        bystander.errors.append("the attack failed")
    return bystander


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", default=list(ATTACKS))
    attacks = parser.parse_args().attacks
    goals = f"longest GET /me (goal < {MAX_DELAY_S * 1e3:.0f} ms) | growth (goal < {MAX_GROWTH_MB} MB)"
    print(f"| attack | {goals} | CPU meanwhile | longest turn, CPU | longest callback, CPU | |")
    print("|---|---|---|---|---|---|---|")
    missed = 0
    with running() as (process, target, key):
        for name in attacks:
            noticed = measure(ATTACKS[name], process, target, key)
            on_loop, delay_s = longest_on_loop(process), max(noticed.delays)
            met = delay_s < MAX_DELAY_S and noticed.growth_mb < MAX_GROWTH_MB and not noticed.errors
            missed += not met
            verdict = "met" if met else f"MISSED {' '.join(sorted(set(noticed.errors)))}".strip()
            cpu = " | ".join(_ms(value) for value in (max(noticed.computed), on_loop["turn_s"], on_loop["callback_s"]))
            row = f"{name} | {_ms(delay_s)} | {noticed.growth_mb:.1f} MB | {cpu} in {on_loop['callback']} | {verdict}"
            print(f"| {row} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
