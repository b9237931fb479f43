"""What the room's foreign tables ask: the rows of a table, under the handle of a release that is being computed."""

from __future__ import annotations

from collections.abc import Callable

from privid import __version__
from privid.errors import PrividError

from .cancel import Cancel, Cancelled
from .compute import hasten
from .handles import OpenHandles
from .release import Desk
from .wire import Malformed, pack, pack_json, parse_body

__all__ = ["RoomSession"]

Send = Callable[[bytes], None]


class RoomSession:
    """Implements server.Conversation for backends of the room."""

    def __init__(self, desk: Desk, handles: OpenHandles, cancel: Cancel) -> None:
        self.greeted = False
        self._desk = desk
        self._handles = handles

    def serve(self, kind: str, body: bytes, send: Send) -> None:
        request = parse_body(body)
        if kind == "H":
            self.greeted = True
            send(pack_json("h", {"version": __version__}))
            return
        if kind != "S" or not self.greeted or not isinstance(request.get("table"), int):
            raise Malformed("the room asks for rows only")
        hasten()
        try:
            for rows in self._desk.scan(self._handles.find(request.get("handle")), request["table"]):
                send(pack("B", rows))
        except (Cancelled, Malformed):
            raise
        except PrividError as error:
            send(pack_json("E", error.as_message()))
        else:
            send(pack_json("e", {}))

    def close(self) -> None:
        """It holds nothing."""
