from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from agentbook._file_lock import FileLock

HOLD = """
import sys
from pathlib import Path
from agentbook._file_lock import FileLock
lock = FileLock(Path(sys.argv[1]), holder="the other process")
assert lock.acquire(timeout_s=0)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_belongs_to_one_process_until_it_dies(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        lock = FileLock(path, holder="this process")
        assert not lock.acquire(timeout_s=0.1)
        assert lock.holder() == "the other process"
        process.kill()
    assert lock.acquire(timeout_s=10)
    assert lock.holder() == "this process"
    lock.release()
    lock.release()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_belongs_to_one_thread(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", []

    def wait_and_lock() -> None:
        with FileLock(path):
            order.append("second")

    with FileLock(path) as lock:
        thread = threading.Thread(target=wait_and_lock)
        thread.start()
        thread.join(0.2)
        assert lock.holder() == "unknown"
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
