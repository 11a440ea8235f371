"""What people write is masked by its form, however it is disguised; the rest stays."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

import pytest

from agentbook._masking import mask_text

MAIL, KEY, PASSWORD = "an e-mail address", "a key", "a password"
CARD, ACCOUNT, PHONE = "a card number", "an account number", "a phone number"
_WORD = "Xq7Zp2Lm9Rt4Wv6"  # stands for what nobody may read; "~" in the texts
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.~"
# What is secret in each text: the words after the bar.
SECRETS: list[tuple[str, str, str]] = [
    *((text, MAIL, text) for text in ("ada@acme.test", "Ada.L+news@mail.acme.co.uk", "żółw@przykład.pl")),
    *((text, MAIL, "ada") for text in ("ada%40acme.test", "mailto:ada@acme.test?subject=x", "<ada@xn--acm-hna.test>")),
    *(
        (text, KEY, _WORD)
        for text in (
            "sk-proj-~", "sk-ant-api03-~", "sk_live_~", "rk_test_~", "ghp_~", "gho_~", "github_pat_~", "glpat-~",
            "xoxb-1234-~", "xapp-1-~", "hf_~", "npm_~", "pypi-~", "dop_v1_~", "shpat_~", "dckr_pat_~", "token_~",
            "AIzaSyA0123456789-abcdef~", "ya29.a0~", "SG.abcdefghijklmnop12.~~", "Bearer ~", "basic ~==", JWT,
            "https://hooks.slack.com/services/T0/B0/~", "0199a0b2-0000-7000-8000-000000000001:~",
            "https://x.test/a?sig=~", "https://x.test/a?b=1&X-Amz-Signature=~", "https://x.test/cb?state=1&code=~",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE~\n-----END RSA PRIVATE KEY-----",
        )
    ),
    ("AKIAIOSFODNN7EXAMPLE", KEY, "IOSFODNN7"),
    *(
        (text, PASSWORD, _WORD)
        for text in (
            "password is ~", "password: ~", "Password=~", "PASSWD = ~", "passphrase was ~", "Passwort ist ~",
            "pwd:~", "postgres://ada:~@db.test/x", "https://~:x@host.test/", "api_key=~", "apikey: ~", "client_secret=~",
            "AWS_SECRET_ACCESS_KEY = ~", "x-api-key: ~", "https://x.test/?access_token=~&b=1", "DB_PASSWORD='~'",
        )
    ),
    ("PIN: 7351", PASSWORD, "7351"),
    *(
        (text, CARD, text)
        for text in (
            "4111 1111 1111 1111", "4111-1111-1111-1111", "5555555555554444", "378282246310005", "3782 822463 10005",
            "6011111111111117", "2223003122003222", "4111 1111\n1111 1111",
        )
    ),
    ("4111 1111 1111 1111 123", CARD, "4111 1111 1111 1111"),
    *(
        (text, ACCOUNT, text)
        for text in ("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19",
                     "PL61109010140000071219812874", "FR14 2004 1010 0505 0001 3M02 606")
    ),
    *((text, PHONE, text) for text in ("+49 30 1234567", "+1 (555) 010-9999", "0048 601 234 567", "(555) 010-9999")),
]  # fmt: skip


def full_width(text: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text)


DISGUISES: dict[str, Callable[[str], str]] = {
    "alone": str,
    "in a sentence": "Why does it fail with {} today?".format,
    "between marks": "„{}“, (again)".format,
    "between lines": "Here:\r\n{}\nThanks".format,
    "in JSON": lambda text: json.dumps({"rows": [{"value": text}]}),
    "in JSON in JSON": lambda text: json.dumps({"body": json.dumps({"value": [text]})}),
    "in full width": full_width,
    "with invisible characters": lambda text: "\u200b".join(text),
    "after much text": lambda text: "The order is late. " * 1000 + text,
}


def plain(text: str) -> str:
    """A text as a reader sees it who wants to read what is hidden."""
    text = "".join(each for each in text if unicodedata.category(each) != "Cf")
    return unicodedata.normalize("NFKC", text).replace("\\n", "\n")


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_secret_is_masked_in_every_disguise(disguise: str) -> None:
    shown = []
    for text, kind, secret in SECRETS:
        masked, kinds = mask_text(DISGUISES[disguise](text.replace("~", _WORD)))
        if secret.casefold() in plain(masked).casefold() or kind not in kinds:
            shown.append((text, kinds, masked[-80:]))
    assert shown == []


NO_SECRETS = [
    *("What is a session?", "Order 12345, please", "the password rules", "2026-10-03T08:00", "order 4711-0815-4242"),
    *("Order 4111111111111112", "tracking 00340434161094021501", "invoice 2026-000123-77", "parcel JD014600003828"),
    *("version 1.2.3", "lodash@4.17.21", "react@18.2.0-rc.1", "Python 3.14.0rc2", "v2026.10.03", "10.0.0.1:8080"),
    *("@dataclass(frozen=True)", "user @ada said", "a@b", "5 @ 3.50 EUR", "git log --since=2026-10-01"),
    *("https://acme.test/orders?id=4711&page=2", "http://localhost:8888/lab", "https://x.test/a:b/@c", "C:\\temp"),
    *("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "sha256:e3b0c44298fc1c149afbf4c8996fb924"),
    *("0199a0b2-0000-7000-8000-000000000001", "task 0199a0b2-0000-7000-8000-000000000001: done", "sk-learn"),
    *("a basic understanding of it", "the bearer of bad news", "Basic authentication", "token-based-authentication"),
    *("key_performance_indicators", "key-value-separation", "the tokens: 512", "prompt_tokens=512", "a secret place"),
    *("the pin is broken", "reset my password, please", "a password manager", "keyboard: QWERTZ", "π ≈ 3.14159265358979"),
    *("from 1,234,567,890 to 2,345,678,901", "1700000000000", "+1 for this", "+20 % in 2026", "call 110", "ISO 8601"),
    *("DE12 3456 7890 is not one", "ACME2026", "請求書 4711", "Где мой заказ 12345?", "🙂 4711 🙂", "a\u200bb"),
]  # fmt: skip


def test_what_is_no_secret_stays() -> None:
    assert {text: mask_text(text) for text in NO_SECRETS} == {text: (text, ()) for text in NO_SECRETS}


def test_what_is_around_a_secret_stays() -> None:
    text = "Ａ １: \u200bada@acme.test, 4111 1111 1111 1111; key sk-abcdefghijklmnop1234."
    assert mask_text(text) == ("Ａ １: \u200b[…], […]; key […].", (MAIL, KEY, CARD))
