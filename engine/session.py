"""One connection's conversation: hello first, then requests, and the handles that belong to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from privid import __version__
from privid.clients import Client, on_behalf_of, whatever_happens
from privid.errors import EngineUnavailable, PrividError, VersionMismatch
from privid.ledger import Ledger

from .cancel import Cancel, Cancelled
from .handles import Handle
from .log import Log
from .release import Desk
from .server import Admit
from .veil import veiled
from .wire import Malformed, pack, pack_json, parse_body

__all__ = ["Session"]

PROTOCOL = 2
Send = Callable[[bytes], None]


class Session:
    """Implements server.Conversation."""

    def __init__(self, desk: Desk, ledger: Ledger, database: str, log: Log, cancel: Cancel, admit: Admit) -> None:
        self.greeted = False
        self._admit = admit
        self._client = Client("", cancel)
        self._judged: Callable[[], None] = lambda: None
        self._desk = desk
        self._ledger = ledger
        self._database = database
        self._log = log
        self._cancel = cancel
        self._lock = threading.Lock()
        self._handles: dict[str, Handle] = {}
        cancel.then(self._abandon)

    @contextmanager
    def entering(self, length: int) -> Iterator[None]:
        """It is served on behalf of the role that logged in, in the memory that judging has."""
        with on_behalf_of(self._client), self._desk.room_for(length) as self._judged:
            yield

    def serve(self, kind: str, body: bytes, send: Send) -> None:
        if not self.greeted and kind != "H":
            raise Malformed("no hello")
        try:
            serve = {"H": self._hello, "T": self._choose, "X": self._explain, "R": self._release, "W": self._raw, "S": self._scan,
                     "K": self._check}[kind]
        except KeyError:
            raise Malformed("message of a type not listed") from None
        begun = time.monotonic()
        request: dict[str, Any] = {}
        try:
            request = parse_body(body)
            serve(request, send)
        except (Cancelled, Malformed):
            raise
        except PrividError as error:
            self._log.write("request refused", request=kind, sqlstate=error.sqlstate)
            send(pack_json("E", self._told(error, request).as_message()))
        except Exception as error:
            ident = self._log.failure("internal error", error, request=kind)
            send(pack_json("E", EngineUnavailable(
                f"internal error in the engine (log id {ident})",
                hint="The operator finds the cause in the engine's log under this id.").as_message()))
        else:
            # How long a scan took may depend on data.
            seconds = None if kind == "S" else round(time.monotonic() - begun, 3)
            self._log.write("request served", request=kind, seconds=seconds)

    def close(self) -> None:
        """Every handle still open ends without an answer."""
        with self._lock:
            handles, self._handles = list(self._handles.values()), {}
        for handle in handles:
            try:
                self._desk.drop(handle)
            except PrividError as error:  # PostgreSQL is gone, too: the release stays as charged
                self._log.failure("release not marked as failed", error)

    # Messages

    def _hello(self, request: dict[str, Any], send: Send) -> None:
        if request.get("protocol") != PROTOCOL or request.get("version") != __version__:
            raise VersionMismatch(f'engine has version {__version__}, but the library in PostgreSQL has version "{request.get("version")}"',
                                  hint="Install one version of privid for both and restart PostgreSQL and the engine.")
        if request.get("database") != self._database:
            raise EngineUnavailable(f'engine serves database "{self._database}", not database "{request.get("database")}"',
                                    hint=f'Connect to database "{self._database}", or start an engine for this one.')
        login = request.get("login")
        if not isinstance(login, str) or not login:
            raise Malformed("hello of nobody")
        self._admit(login)
        self._client = Client(login, self._cancel)
        with on_behalf_of(self._client):
            extension = self._ledger.extension_version()
        if extension != __version__:
            raise VersionMismatch(f'engine has version {__version__}, but the extension "privid" has version {extension}',
                                  hint=f"Run ALTER EXTENSION privid UPDATE TO '{__version__}'.")
        self.greeted = True
        send(pack_json("h", {"version": __version__}))

    def _choose(self, request: dict[str, Any], send: Send) -> None:
        send(pack_json("t", {"releases": self._desk.choose(request, self._cancel)}))

    def _explain(self, request: dict[str, Any], send: Send) -> None:
        shown, lines = self._desk.explain(request, self._cancel)
        send(pack_json("x", {"Privid": shown, "text": lines}))

    def _release(self, request: dict[str, Any], send: Send) -> None:
        answer = self._desk.release(request, self._cancel, self._judged)
        send(pack_json("a", answer.as_message()))
        try:
            with whatever_happens():
                self._desk.settle(answer)
        except PrividError as error:
            self._log.failure("failures not counted", error)

    def _raw(self, request: dict[str, Any], send: Send) -> None:
        handle = self._desk.raw(request, self._judged)
        with self._lock:
            self._handles[handle.ident] = handle
        if self._cancel:  # its call came before the handle was listed
            self._desk.abandon(handle)
        self._cancel.check()
        send(pack_json("r", {"handle": handle.ident}))

    def _scan(self, request: dict[str, Any], send: Send) -> None:
        with self._lock:
            handle = self._handles.pop(str(request.get("handle")), None)
        if handle is None:
            raise EngineUnavailable("rows are no longer to be had under this handle", hint="Run the statement again.")
        table = request.get("table")
        if not isinstance(table, int):
            raise Malformed("table is not a number")
        self._judged()
        try:
            with self._cancel.calling(partial(self._desk.abandon, handle)):
                for body in self._desk.scan(handle, table):
                    send(pack("B", body))
        finally:
            self._desk.drop(handle)
        send(pack_json("e", {}))

    def _check(self, request: dict[str, Any], send: Send) -> None:
        send(pack_json("k", {"notices": self._desk.check(request, self._cancel)}))

    def _told(self, error: PrividError, request: dict[str, Any]) -> PrividError:
        """What of it is for whoever asks; less where PostgreSQL, which knows that, is gone."""
        try:
            return veiled(error, request, self._ledger)
        except PrividError as gone:
            return gone

    def _abandon(self) -> None:
        with self._lock:
            handles = list(self._handles.values())
        for handle in handles:
            self._desk.abandon(handle)
