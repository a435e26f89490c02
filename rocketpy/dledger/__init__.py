"""A replicated log on DLedger's wire and files: the controllers' consensus. See docs/design-dledger.md."""

from .member import Role
from .node import DLedgerNode, NotLeader, StateMachine
from .settings import GroupSettings, parse_peers

__all__ = ["DLedgerNode", "GroupSettings", "NotLeader", "Role", "StateMachine", "parse_peers"]
