"""What the room's foreign tables ask: the rows of a table, under the handle of a release that is being computed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from privid import __version__
from privid.errors import EngineUnavailable

from .cancel import Cancel
from .server import Admit
from .wire import Malformed, pack, pack_json, parse_body

if TYPE_CHECKING:
    from .evaluator import Evaluator, KeptChunks

__all__ = ["RoomSession"]

Send = Callable[[bytes], None]


class RoomSession:
    """Implements server.Conversation for backends of the room."""

    def __init__(self, evaluator: Evaluator, chunks: KeptChunks, cancel: Cancel, admit: Admit) -> None:
        self.greeted = False
        self._evaluator = evaluator
        self._chunks = chunks

    def entering(self, length: int) -> AbstractContextManager[object]:
        """The room is one for all: its sessions are counted there."""
        return nullcontext()

    def serve(self, kind: str, body: bytes, send: Send) -> None:
        request = parse_body(body)
        if kind == "H":
            self.greeted = True
            send(pack_json("h", {"version": __version__}))
            return
        if kind != "S" or not self.greeted or not isinstance(request.get("table"), int):
            raise Malformed("the room asks for rows only")
        try:
            blocks, until = self._evaluator.blocks(request.get("handle"), request["table"])
            for rows in blocks.bodies(partial(self._chunks.wait, until)):
                send(pack("B", rows))
        except (KeyError, TypeError, TimeoutError):
            send(pack_json("E", EngineUnavailable("release is no longer under way").as_message()))
        else:
            send(pack_json("e", {}))

    def close(self) -> None:
        """It holds nothing."""
