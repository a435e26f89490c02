"""docs/configuration.md is what the tables say."""

from pathlib import Path

from rocketpy.config.document import render

PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "python -m rocketpy.config.document > docs/configuration.md"
