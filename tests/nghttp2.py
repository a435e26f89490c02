"""Tests of gRPC need libnghttp2: where it is missing they are skipped with the words of a proxy that does not start, and fail on CI."""

from __future__ import annotations

import os

import pytest

from rocketpy._core.errors import Unsupported
from rocketpy._core.grpc import Grpc


def is_promised() -> bool:
    """Whether this machine has to have it."""
    return os.environ.get("CI") == "true"


def why_no_grpc() -> str | None:
    """None: it is there."""
    try:
        Grpc([]).close()
    except Unsupported as error:
        return str(error)
    return None


def need_nghttp2() -> None:
    if (why := why_no_grpc()) is not None:
        (pytest.fail if is_promised() else pytest.skip)(why)
