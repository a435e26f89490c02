"""The configuration of a name server or controller, read and changed by requests. A broker's says more: broker/admin_broker.py.
RocketMQ: updateConfig and getConfig of DefaultRequestProcessor and ControllerRequestProcessor (5.3.3 namesrv/, controller/).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from .._core.errors import RocketpyError
from ..config import Config, ConfigError, read_properties
from .codes import ResponseCode
from .command import Response

if TYPE_CHECKING:
    from .._core.remoting import Request

log = logging.getLogger(__name__)


def black_list(config: Config, always: frozenset[str]) -> frozenset[str]:
    """The keys that no request may change: `always`, and those named by configBlackList."""
    return always | {name.strip() for name in config.text("configBlackList").split(";")}


class ConfigRequests:
    """The handlers that read and change a server's configuration. They run on the event loop."""

    def __init__(self, config: Config, black: Callable[[], frozenset[str]], store: Callable[[Mapping[str, str]], Awaitable[None]]) -> None:
        """`black` returns the keys that no request may change at that moment. `store` writes an update into the configuration's file; it
        raises RocketpyError."""
        self._config = config
        self._black = black
        self._store = store

    async def update(self, request: Request) -> Response:
        """Makes all changes or none. They are on disk before the answer is sent; what the disk does not take is in force until the process
        ends."""
        log.info("updateConfig called by %s", request.remote_address)
        try:
            changes = {entry.key: entry.value for entry in read_properties(request.body.decode("utf-8"))}
        except UnicodeDecodeError as error:
            return Response(ResponseCode.SYSTEM_ERROR, f"UnsupportedEncodingException {error}")
        if self._black() & changes.keys():
            return Response(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        try:
            self._config.update(changes)
        except ConfigError as error:
            return Response(ResponseCode.INVALID_PARAMETER, str(error))
        try:
            await self._store(changes)
        except RocketpyError as error:
            log.error("persist config Exception: %s", error)
            return Response(ResponseCode.SYSTEM_ERROR, f"the change is in force, but it could not be stored: {error}")
        return Response()

    def get(self, request: Request) -> Response:
        return Response(body=self._config.format().encode("utf-8"))
