"""The Unix socket: who may connect, how many, of which no role has more than are left for others, and what happens when a peer goes away.

One thread per connection reads a request, serves it, and reads the next. One more thread watches the connections whose request is
being served: a peer that closes its end (a cancelled statement, a killed backend) cancels the work at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

from privid.errors import EngineUnavailable, PrividError
from privid.sockets import remove_socket

from .cancel import Cancel, Cancelled
from .log import Log
from .wire import HELLO_LIMIT, Malformed, pack_json, read_length, read_message, read_rest, skip_rest

__all__ = ["Admit", "Conversation", "Server", "listen"]

MAX_CONNECTIONS = 300
#: for an engine that is about to end, in seconds
PATIENCE = 5.0
#: connections that have not said hello: how long each may take, and how many there may be before the oldest of them has to go
HELLO_SECONDS, MAX_SILENT = 10.0, 32
_CREDENTIALS = struct.Struct("3i")

#: to be told, before a hello is answered, which role has logged in; refuses one that has its share
Admit = Callable[[str], None]


class Conversation(Protocol):
    """What one connection is about (engine.session)."""

    greeted: bool

    def entering(self, length: int) -> AbstractContextManager[object]:
        """Wraps one message of this length, after the hello, before it is read and until it is answered; refuses it in words."""

    def serve(self, kind: str, body: bytes, send: Callable[[bytes], None]) -> None:
        """Answer one message. Malformed ends the connection, Cancelled too."""

    def close(self) -> None:
        """The connection is gone: drop what belongs to it."""


class Server:
    """Accepts one user, and its own, until stopped."""

    def __init__(self, listener: socket.socket, peer_uid: int, begin: Callable[[Cancel, Admit], Conversation], log: Log,
                 limit: int = MAX_CONNECTIONS, hello_seconds: float = HELLO_SECONDS) -> None:
        self._listener = listener
        self._listener.setblocking(False)
        self._peers = {peer_uid, os.getuid()}
        self._begin = begin
        self._log = log
        self._limit = limit
        self._hello_seconds = hello_seconds
        self._lock = threading.Lock()
        self._open: dict[socket.socket, Cancel] = {}
        self._silent: dict[socket.socket, float] = {}  # of these, who has not said hello, and since when; oldest first
        self._roles: dict[socket.socket, str] = {}  # and whose the others are
        self._threads: set[threading.Thread] = set()
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._watcher = Watcher()

    def stop(self) -> None:
        """Make serve() return. Safe in a signal handler."""
        with contextlib.suppress(OSError):  # full: it has been told often enough
            os.write(self._stop_write, b"x")

    def stop_on(self, *numbers: signal.Signals) -> None:
        """The same when one of these signals comes: the system writes it to the pipe that is polled, at whatever moment it comes and
        whichever thread gets it. A handler would run only when the main thread does, which waits by then."""
        signal.set_wakeup_fd(self._stop_write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: self.stop())

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN)
        try:
            while not any(fd == self._stop_read for fd, _ in poll.poll()):
                self._accept()
        finally:
            self._shut()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            self._log.write("accept failed", errno=error.errno)  # out of descriptors, most likely: wait for some to come back
            threading.Event().wait(0.05)
            return
        sock.setblocking(True)
        pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid not in self._peers:
            self._log.write("peer refused", uid=uid, pid=pid)
            sock.close()
            return
        with self._lock:
            if len(self._open) >= self._limit or len(self._silent) >= MAX_SILENT:
                self._dismiss_oldest()
            crowded = len(self._open) >= self._limit
            if not crowded:
                cancel = self._open[sock] = Cancel()
                self._silent[sock] = time.monotonic()
                thread = threading.Thread(target=self._run, args=(sock, cancel, pid), name=f"connection {pid}", daemon=True)
                self._threads.add(thread)
        if crowded:
            self._log.write("connection refused", reason="limit", limit=self._limit)
            self._farewell(sock)
            return
        thread.start()

    def _dismiss_oldest(self) -> None:
        """Silent connections do not keep others out, once they have had a second. The thread of this one finds its end, and closes it."""
        sock, since = next(iter(self._silent.items()), (None, 0.0))
        if sock is not None and time.monotonic() - since > 1:
            self._log.write("connection refused", reason="no hello, and others wait")
            del self._silent[sock], self._open[sock]
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _admit(self, sock: socket.socket, role: str) -> None:
        with self._lock:
            held = Counter(self._roles.values())
            left = self._limit - held.total()
            if held[role] < left:
                self._roles[sock] = role
                self._silent.pop(sock, None)  # whatever its hello waits for, it is counted where others of its role are
                return
        self._log.write("connection refused", reason="share", held=held[role], left=left)
        raise EngineUnavailable(f'role "{role}" has {held[role]} connections to the engine, and no more are left for all others',
                                hint="Close sessions that are not in use, or try again later.")

    def _hello(self, sock: socket.socket, cancel: Cancel, conversation: Conversation) -> None:
        """The first messages, until the peer has said who it is: short ones, and soon."""
        deadline = time.monotonic() + self._hello_seconds
        while not conversation.greeted and (message := read_message(sock, HELLO_LIMIT, deadline)) is not None:
            sock.settimeout(None)
            with self._watching(sock, cancel):
                conversation.serve(*message, partial(_send, sock))
        sock.settimeout(None)
        with self._lock:
            self._silent.pop(sock, None)

    def _serve(self, sock: socket.socket, cancel: Cancel, conversation: Conversation, length: int) -> None:
        """The next message, which is not even read before there is room for it."""
        left = length
        with self._watching(sock, cancel):
            try:
                with conversation.entering(length):
                    message, left = read_rest(sock, length), 0
                    conversation.serve(*message, partial(_send, sock))
            except PrividError as error:
                self._log.write("request refused", request=None, sqlstate=error.sqlstate)
                skip_rest(sock, left)
                _send(sock, pack_json("E", error.as_message()))

    @contextlib.contextmanager
    def _watching(self, sock: socket.socket, cancel: Cancel) -> Iterator[None]:
        self._watcher.watch(sock, cancel)
        try:
            yield
        finally:
            self._watcher.forget(sock)

    def _farewell(self, sock: socket.socket) -> None:
        try:
            sock.settimeout(1)
            sock.sendall(pack_json("E", EngineUnavailable(
                f"the engine has reached its limit of {self._limit} connections",
                hint="Close sessions that are not in use, or try again later.").as_message()))
        except OSError:
            pass
        finally:
            sock.close()

    def _run(self, sock: socket.socket, cancel: Cancel, pid: int) -> None:
        conversation: Conversation | None = None
        try:
            conversation = self._begin(cancel, partial(self._admit, sock))
            self._hello(sock, cancel, conversation)
            while conversation.greeted and (length := read_length(sock)) is not None:
                self._serve(sock, cancel, conversation, length)
        except Cancelled:
            self._log.write("request cancelled", pid=pid)
        except Malformed as error:
            self._log.write("malformed message", pid=pid, reason=str(error))  # our own words, never the peer's
        except TimeoutError:
            self._log.write("connection refused", reason="no hello in time", pid=pid)
        except OSError as error:
            self._log.write("connection lost", pid=pid, errno=error.errno)
        except Exception as error:
            self._log.failure("connection failed", error, pid=pid)
        finally:
            cancel.set()
            if conversation is not None:
                try:
                    conversation.close()
                except Exception as error:
                    self._log.failure("connection not closed cleanly", error, pid=pid)
            sock.close()
            with self._lock:
                self._open.pop(sock, None)
                self._silent.pop(sock, None)
                self._roles.pop(sock, None)
                self._threads.discard(threading.current_thread())

    def _shut(self) -> None:
        self._listener.close()
        with self._lock:
            left, threads = list(self._open.items()), list(self._threads)
        for sock, cancel in left:
            cancel.set()
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)
        self._watcher.stop()
        os.close(self._stop_read)


def listen(path: Path, peer_uid: int) -> socket.socket:
    """A socket at a path, for that user."""
    remove_socket(path, {os.getuid(), peer_uid}, PATIENCE)  # _let_in has given it to the peer
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    try:
        _let_in(path, peer_uid)
    except OSError:
        listener.close()
        raise
    listener.listen(64)
    return listener


def _let_in(path: Path, peer_uid: int) -> None:
    """The socket's directory may be the peer's: what is given to it is the socket that was just made, and nothing in its place."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISSOCK(info.st_mode) or info.st_uid != os.getuid():
            raise OSError(errno.EPERM, "is not the socket that was made there", str(path))
        if os.getuid() == 0:
            os.chown(f"/proc/self/fd/{fd}", peer_uid, -1)
        elif peer_uid != os.getuid():
            Path(f"/proc/self/fd/{fd}").chmod(0o666)  # another user must reach it; who that is, the server checks
    finally:
        os.close(fd)


def _send(sock: socket.socket, content: bytes) -> None:
    try:
        sock.sendall(content)
    except OSError:
        raise Cancelled from None  # nobody is left to tell


class Watcher:
    """Tells when the peer of a connection that is being served has gone."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._watched: dict[int, Cancel] = {}
        self._stopped = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def watch(self, sock: socket.socket, cancel: Cancel) -> None:
        with self._lock:
            self._watched[sock.fileno()] = cancel
            self._epoll.register(sock.fileno(), select.EPOLLRDHUP | select.EPOLLONESHOT)

    def forget(self, sock: socket.socket) -> None:
        with self._lock:
            if self._watched.pop(sock.fileno(), None) is not None:
                self._epoll.unregister(sock.fileno())

    def stop(self) -> None:
        self._stopped = True
        os.write(self._wake_write, b"x")
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            for fd, _ in self._epoll.poll():
                if self._stopped:
                    return
                with self._lock:
                    cancel = self._watched.get(fd)
                    # The number may have passed to a newer connection since the event: look again.
                    if cancel is not None and not _gone(fd):
                        self._epoll.modify(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)
                        cancel = None
                if cancel is not None:  # one that has much to give up holds up no other
                    threading.Thread(target=cancel.set, name="cancel", daemon=True).start()


def _gone(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return bool(poll.poll(0))
