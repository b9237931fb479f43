"""Boots a zygote: a Python process that imports one analyst's module before any frame exists and forks the children that will see one.

Runs as a process of its own, started as root by the lane (python -m privid.sandbox.nursery SOCKET), in two parts. The outer one builds the
zygote's file system and steps down to the lane's user and into namespaces of its own. The inner one is process 1 there: it starts the
zygote, and after that only buries the dead and tells the lane how they ended. It stays behind when the zygote is killed, because
all children would die with process 1. Both die with the lane.

    lane                       process 1
                         <-    {"zygote": pid}            it waits for its control group
    {"go": true}         ->
    {"seal": [pid, ...], "limits": [...]}
                         ->    {"sealed": true}           these have their limits; no descendant can make a user namespace any more
                         <-    {"ended": [[pid, status], ...]}  at times; pids as process 1 sees them
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from . import syscalls
from .bounds import impose

__all__ = ["main"]

_BIND_READ_ONLY = syscalls.ATTR_RDONLY | syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV
#: Milliseconds after a death at which all that have died are buried.
_BURY_AFTER = 50


def main() -> None:
    """The outer part."""
    control = socket.socket(fileno=int(sys.argv[1]))
    parent = os.getppid()
    syscalls.die_with_parent(signal.SIGKILL)
    order: dict[str, Any] = json.loads(control.recv(65536))
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    _build(order)
    impose(order["limits"])  # before there is a namespace: it keeps the limits of whoever made it
    os.setgroups([])
    os.setresgid(order["gid"], order["gid"], order["gid"])
    os.setresuid(order["uid"], order["uid"], order["uid"])
    syscalls.die_with_parent(signal.SIGKILL)  # a change of user has cleared it
    if os.getppid() != parent:
        os._exit(1)
    syscalls.unshare(syscalls.NAMESPACE_FLAGS)
    socket.sethostname("privid")  # as in a cold start
    _name_user(proc, order["uid"], order["gid"])
    inner = os.fork()
    if inner == 0:
        syscalls.die_with_parent(signal.SIGKILL)
        _tend(control, order, proc)
        os._exit(0)
    control.close()
    os.close(proc)
    os.waitpid(inner, 0)


def _build(order: dict[str, Any]) -> None:
    """The lane's root with the module and its files, all read-only; made with root's rights, so that nobody inside can undo it. There is
    nothing that the zygote could write to: a file that it made would be one that all its children have."""
    syscalls.unshare(0x20000)
    syscalls.make_private("/")
    root = order["root"]
    pieces = [("", syscalls.bind_tree(root, _BIND_READ_ONLY))]
    pieces += [(name, syscalls.bind_tree(device, syscalls.ATTR_RDONLY | syscalls.ATTR_NOSUID))
               for name, device in order["devices"].items()]
    pieces.append(("/app/module.py", syscalls.bind_tree(order["module"], _BIND_READ_ONLY)))
    if order["files"] is not None:
        pieces.append(("/app/files", syscalls.bind_tree(order["files"], _BIND_READ_ONLY)))
    for place, fd in pieces:
        syscalls.move_mount(fd, root + place)
        os.close(fd)
    os.chdir(root)
    syscalls.pivot_root(".", ".")
    syscalls.umount(".")
    os.chdir("/")


def _name_user(proc: int, uid: int, gid: int) -> None:
    """Give the user the number by which the kernel shows one who has none: children, who make a namespace each, see the same."""
    syscalls.make_dumpable()  # or the files would belong to root, for we have changed our user
    for name, text in (("setgroups", "deny"), ("uid_map", f"65534 {uid} 1"), ("gid_map", f"65534 {gid} 1")):
        fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
        os.write(fd, text.encode())
        os.close(fd)


def _tend(control: socket.socket, order: dict[str, Any], proc: int) -> None:
    """The inner part: process 1."""
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children = {signal.SIGCHLD}
    gate, opener = os.pipe2(os.O_CLOEXEC)
    zygote = os.fork()
    if zygote == 0:
        os.close(opener)
        os.read(gate, 1)
        _become_zygote(order)
    os.close(gate)
    control.send(json.dumps({"zygote": zygote}).encode())
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    waiting = None  # to bury several at once
    while True:
        found = poll.poll(waiting)
        if waiting is not None and not found:
            waiting = None
            signal.pthread_sigmask(signal.SIG_UNBLOCK, children)
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            poll.register(wake, select.POLLIN)
            if ended := _bury():
                control.send(json.dumps({"ended": ended}).encode())
        for fd, _ in found:
            if fd == wake:
                waiting = _BURY_AFTER
                signal.pthread_sigmask(signal.SIG_BLOCK, children)
                poll.unregister(wake)
                continue
            message = control.recv(65536)
            if not message:
                return
            wanted = json.loads(message)
            if "go" in wanted:
                os.write(opener, b"!")
            else:
                for child in wanted["seal"]:
                    impose(wanted["limits"], child)
                _seal(proc)
                control.send(b'{"sealed": true}')


def _bury() -> list[tuple[int, int]]:
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(found)
    return ended


def _seal(proc: int) -> None:
    """The limit is that of our own user namespace, and counts what is made in all below it."""
    fd = os.open("sys/user/max_user_namespaces", os.O_WRONLY, dir_fd=proc)
    os.write(fd, b"0")
    os.close(fd)


def _become_zygote(order: dict[str, Any]) -> None:
    os.setsid()
    os.chdir("/tmp")
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.closerange(3, 1 << 16)
    syscalls.drop_capabilities()
    syscalls.no_new_privileges()
    syscalls.no_huge_pages()  # this and the next also hold for what is executed and forked
    syscalls.no_page_merging()
    syscalls.load_filter(bytes.fromhex(order["filter"]))
    command: list[str] = order["command"]
    os.execve(command[0], command, order["environment"])


if __name__ == "__main__":
    main()
