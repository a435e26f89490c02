"""docs/compatibility.md lists the requests that the name server answers, all of them and no others."""

from __future__ import annotations

import re
from pathlib import Path

from rocketpy.config import load_config
from rocketpy.namesrv.events import RouteSettings
from rocketpy.namesrv.kv_config import KvConfig
from rocketpy.namesrv.requests import Effects, NamesrvRequests
from rocketpy.namesrv.route_info import RouteInfo
from rocketpy.remoting.codes import RequestCode

from .test_requests import store_nothing

PAGE = Path(__file__).resolve().parents[3] / "docs" / "compatibility.md"


def test_the_page_and_the_handlers_agree(tmp_path: Path) -> None:
    effects = Effects(list, lambda departure: True, store_nothing)
    requests = NamesrvRequests(
        load_config("namesrv"), RouteInfo(RouteSettings(), lambda: 0), KvConfig(tmp_path / "kv.json"), effects, lambda: 0
    )
    section = PAGE.read_text(encoding="utf-8").split("## Name server")[1].split("\n## ")[0]
    listed = {int(code): name for code, name in re.findall(r"^\| (\d+) \| (\w+) \|", section, re.MULTILINE)}
    assert listed == {int(code): RequestCode(code).name for code in requests.handlers}
