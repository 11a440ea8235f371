"""Ask Node what patterns find, and store what it said.

By hand, with Node on PATH; `tests/evaluation/test_patterns.py` compares:

    python tests/peers/javascript/record.py
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ATOMS = (
    *("a", "b", "x", "A", "é", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", "^", "$", "[ab]", "[^a]"),
    *("[a-c]", r"[\d-x]", r"[\w\s]", r"[^\S]", r"[\W]", r"[\b]", "[[]", "[&&a]", "[]", "[^]", r"[\s\S]", "[a--]"),
    *("(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<n>", ")", "|", "(?i)", "(?P<x>", "(?>", r"\1", r"\2", r"\k<n>"),
    *("*", "+", "?", "*?", "{2}", "{0}", "{1,}", "{1,3}", "{,2}", "{2,1}", "{", "}", "]", "[", "-", "\\", r"\-", r"\/"),
    *(r"\u0061", r"\u{2}", r"\x41", r"\0", r"\8", r"\101", r"\cA", r"\c", r"\n", "\n", r"\p{L}", "\u2028", " "),
    *("😀", "[😀]", r"\ud83d", r"\ude00", r"[\ud800-\udfff]", r"[^\x00-\x7f]", r"[\u0080-\uffff]"),
)
TEXTS = (
    *("", "a", "ab", "aab b", "A1 é", "😀", "a😀b", "\n", "a\nb", "\u2028", "uu", "{", "]", "-x", "\x01", "\\", "12"),
    *("x-", "\ufeff ", "aa", "bab", "\x08", "k<n>", "c\\", "p{L}"),
)
PROGRAM = """
const {patterns, texts} = JSON.parse(require("fs").readFileSync(0))
const found = pattern => {
  try {
    const made = new RegExp(pattern)
    return texts.map(text => made.test(text))
  } catch { return null }
}
console.log(JSON.stringify(patterns.map(found)))
"""


def main() -> None:
    chance = random.Random(1)
    patterns = sorted({"".join(chance.choices(ATOMS, k=chance.randint(1, 6))) for _ in range(1200)})
    given = json.dumps({"patterns": patterns, "texts": TEXTS})
    done = subprocess.run(["node", "-e", PROGRAM], input=given, capture_output=True, text=True, check=True)
    rows = [
        json.dumps([pattern, None if found is None else "".join("01"[each] for each in found)], ensure_ascii=False)
        for pattern, found in zip(patterns, json.loads(done.stdout), strict=True)
    ]
    text = f'{{"texts": {json.dumps(TEXTS)}, "patterns": [\n' + ",\n".join(rows) + "\n]}\n"
    (HERE / "patterns.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
