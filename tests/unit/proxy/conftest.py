"""Whole proxies need libnghttp2."""

from __future__ import annotations

import pytest

from tests.nghttp2 import need_nghttp2


@pytest.fixture(autouse=True)
def nghttp2_is_there(request: pytest.FixtureRequest) -> None:
    if request.path.name != "test_decisions.py":
        need_nghttp2()
