"""Every YAML that the project ships, serves or writes means the same to every reader.

The readers are PyYAML (YAML 1.1, lenient) and js-yaml 5 (YAML 1.2, strict), which
Redocly and other JavaScript tools use.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

import agentbook as ab
from agentbook.evaluation.template import fill
from service.process import Service

TESTS = Path(__file__).parent
ROOT = TESTS.parent
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(
    NODE is None or not (TESTS / "node_modules/js-yaml").is_dir(),
    reason="js-yaml is not here, which reads YAML strictly: run npm ci --prefix tests",
)
READ = """
import {load} from "js-yaml";
import {readFileSync} from "node:fs";
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf-8")).map((text) => load(text))));
"""
SHIPPED = [
    path
    for pattern in ("*.cff", ".*.yaml", ".github/**/*.yml", "binder/**/*.y*ml", "src/**/*.y*ml")
    for path in sorted(ROOT.glob(pattern))
]
# What a line, a scalar or a document of YAML could end or change.
TEXTS = [
    *("yes", "No", "on", "null", "~", "0o17", "017", "1_000", "1e3", ".5", "12:30:45", "2026-10-03", "=", "<<"),
    *("- a", "a: b", "a #b", "'", '"', "`", "@a", "%a", "&a", "*a", "!a", "|", ">", "{a", "]", "---", "...", "? a"),
    *(" a", "a ", "\ta", "a\n", "\n\na\n\n", " a\nb", "a\n b", "a\n\tb", "a \nb", "---\na", "a\n...\nb", "# a\nb"),
    *("a\rb", "a\r\nb", "a\x85b\nc", "a\u2028b\nc", "a\u2029b", "\ufeffa", "a\x00b", "a\x1bb", "a\x7fb", "a\x9fb"),
    *("Zürich 漢字 😀", "😀\nb", "a\ufffeb", "\xa0a\nb", "long words " * 40, "long words\n" * 40),
]


def read_strictly(texts: Iterable[str]) -> Any:
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", READ],
        cwd=TESTS,
        input=json.dumps(list(texts)).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_what_is_shipped_is_read_alike() -> None:
    texts = [path.read_text("utf-8") for path in SHIPPED]
    assert ROOT / "src/agentbook/service/openapi.yaml" in SHIPPED
    for path in sorted((ROOT / "docs").glob("*.md")):
        texts += re.findall(r"^```yaml\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert read_strictly(texts) == [yaml.safe_load(text) for text in texts]


@pytest.mark.parametrize(
    "options", [(), ("--bare", "--faults", "--requests-per-minute", "100")], ids=["demo", "faults"]
)
def test_the_served_description_is_read_alike(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Service(tmp_path, *options) as service:
        with urllib.request.urlopen(f"{service.base_url}/openapi.yaml") as reply:
            text = reply.read().decode()
        with ab.Client(service.base_url) as client:
            description = client.openapi()
        service.stop()
    assert read_strictly([text]) == [yaml.safe_load(text)] == [json.loads(json.dumps(description))]


def test_a_saved_evaluation_asks_every_reader_the_same(tmp_path: Path) -> None:
    with ab.Client("http://127.0.0.1:9/v1", credentials="id:secret") as client:
        lab = ab.PromptLab(client, inputs=TEXTS)
        lab.add_variant("brief", system_prompt="Answer in one sentence.")
        path = lab.save(tmp_path / "lab.yaml")
    text = path.read_text("utf-8")
    [saved] = read_strictly([text])
    assert saved == yaml.safe_load(text)
    inputs = [each if isinstance(each, str) else each["message"] for each in saved["inputs"]]
    assert [fill(each, {}) for each in inputs] == lab.inputs
