from __future__ import annotations

import re
from importlib.resources import files

import pytest

CSS = files("agentbook.service.pages").joinpath("templates/style.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.S)
)
# Text on what it stands on, and what a field is outlined with (WCAG 2.2: 4.5 for text,
# 3 for outlines).
TEXTS = {
    "ink": "paper card code tint bad-tint good-tint",
    "soft": "paper card code good-tint",
    "accent": "paper card",
    "on-accent": "accent",
    "bad": "card",
}
PAIRS = [(front, back, 4.5) for front, backs in TEXTS.items() for back in backs.split()] + [("field", "card", 3.0)]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_pair_has_enough_contrast(scheme: dict[str, str]) -> None:
    too_faint = []
    for front, back, least in PAIRS:
        dark, bright = sorted((luminance(scheme[front]), luminance(scheme[back])))
        contrast = (bright + 0.05) / (dark + 0.05)
        if contrast < least:
            too_faint.append((front, back, round(contrast, 2)))
    assert too_faint == []


def test_light_and_dark_have_every_colour() -> None:
    assert set(LIGHT) == set(DARK)
    assert set(re.findall(r"var\(--([\w-]+)\)", CSS)) <= set(LIGHT)
