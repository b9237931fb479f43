"""The sessions of one side, and a scenario run in them."""

from __future__ import annotations

import contextlib
import threading
import time

import psycopg
from psycopg.pq import TransactionStatus

from .statements_forms import Step
from .statements_scenario import Scenario
from .statements_seen import LOST, Seen, look
from .statements_world import Connection, World, camera_of

__all__ = ["Run", "Side"]

#: what each step of a scenario has shown
Run = list[Seen]

#: all workers share the cameras' owner, and PostgreSQL does not let two change one at a time
_OWNER = threading.Lock()

#: limits that keep a search going, and everything that can be heard
_MAIN = """
    SET statement_timeout = '1500ms'; SET lock_timeout = '300ms'; SET client_min_messages = debug1;
    SET privid.epsilon = 1; SET privid.reuse = off"""
_OTHERS = "SET statement_timeout = '5s'; SET lock_timeout = '20ms'"


class Side:
    """One analyst with two sessions, and the cameras' owner."""

    def __init__(self, world: World, side: str) -> None:
        self.world, self.side = world, side
        self.sessions: dict[str, Connection] = {}
        #: another in each run: digits of an epsilon with which nobody has asked before
        self.turn = 0

    def session(self, who: str) -> Connection:
        connection = self.sessions.get(who)
        if connection is None or connection.closed or connection.broken:
            connection = self.sessions[who] = self._connected(who)
            connection.prepare_threshold = None
            self.reset(who)
        return connection

    def _connected(self, who: str) -> Connection:
        """A new session, even if the server is just getting up again."""
        user = "owner" if who == "owner" else self.world.roles[self.side]
        end = time.monotonic() + 30
        while True:
            try:
                return self.world.stack.connect(user)
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def reset(self, who: str) -> None:
        """As a new session would be."""
        connection = self.sessions[who]
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
        connection.execute("DISCARD ALL")
        connection.execute((_MAIN if who == "main" else _OTHERS).encode())

    def take(self, step: Step) -> Seen:
        """One step, and what it shows."""
        with _OWNER if step.who == "owner" else contextlib.nullcontext():
            try:
                session = self.session(step.who)
                return look(session, self._named(step.text), step.parameters, self.world.blank)
            except psycopg.Error:  # not of the statement, which is looked at: there is no server
                return LOST

    def _named(self, text: str) -> str:
        # asked for by the second session's thread, which must not make a new first session
        if "{pid}" in text:
            text = text.replace("{pid}", str(self.sessions["main"].info.backend_pid))
        camera = camera_of(self.world.seed, self.side)
        text = text.replace("{role}", self.world.roles[self.side]).replace("{camera}", camera)
        return text.replace("{turn}", f"{self.turn:06}")

    def run(self, scenario: Scenario, turn: int) -> Run:
        """All steps; afterwards the world is as it was."""
        self.turn = turn
        seen: Run = []
        racer: threading.Thread | None = None
        self.session("main")
        try:
            for step in scenario.steps:
                if step.asks and scenario.racing and racer is None:
                    self.session("other")
                    racer = threading.Thread(target=self._race, args=(scenario,))
                    racer.start()
                seen.append(self.take(step))
        finally:
            if racer is not None:
                racer.join()
            self._tidy(scenario)
        return seen

    def _race(self, scenario: Scenario) -> None:
        begun = time.monotonic()
        for after, step in scenario.racing:
            time.sleep(max(0.0, begun + after - time.monotonic()))
            self.take(step)

    def _tidy(self, scenario: Scenario) -> None:
        """Sessions as new ones, and what was done taken back, however long that has to wait."""
        self._refresh()
        for step in scenario.undo:
            if step.who != "main":
                with contextlib.suppress(psycopg.Error):
                    self.session(step.who).execute("SET lock_timeout = '5s'")
            self.take(step)
        if scenario.undo:
            self._refresh()

    def _refresh(self) -> None:
        for who in [*self.sessions]:
            try:
                self.reset(who)
            except psycopg.Error:
                self.sessions.pop(who).close()

    def close(self) -> None:
        for connection in self.sessions.values():
            connection.close()
