"""The public timetable, posted in PostgreSQL for the view privid.progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from privid.errors import PrividError
from privid.ledger import Ledger

from .jobs import Job
from .log import Log
from .timetable import NANO

__all__ = ["Bulletin"]

#: How often a change is posted: slots that slip move the end.
_PERIOD = 1.0


class Bulletin:
    """A thread that writes what the jobs under way have reserved. A timetable that cannot be posted costs nobody's answer."""

    def __init__(self, ledger: Ledger, lanes: int, log: Log) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._log = log
        self._jobs: dict[Job, tuple[int, int] | None] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="bulletin", daemon=True)
        self._thread.start()

    def post(self, job: Job) -> None:
        """A job has got its slots."""
        if job.own:
            with self._changed:
                self._jobs[job] = None
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(5)

    def _run(self) -> None:
        # what an engine that was killed left
        self._write(lambda execute: (execute("DELETE FROM privid.timetable", ()),
                                     execute("UPDATE privid.quota_use SET jobs = 0, slots = 0", ())))
        while True:
            with self._changed:
                while not self._jobs and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    break
                jobs = list(self._jobs)
            self._write(lambda execute, jobs=jobs: self._post(execute, jobs))  # type: ignore[misc]
            with self._changed:
                if not self._stopped:
                    self._changed.wait(_PERIOD)
        self._write(lambda execute: execute("DELETE FROM privid.timetable", ()))

    def _post(self, execute: Callable[[str, tuple[object, ...]], object], jobs: list[Job]) -> None:
        now, clock = datetime.now(UTC), time.monotonic_ns()
        for job in jobs:
            if not job.left:
                execute("DELETE FROM privid.timetable WHERE job = %s", (job.ident,))
                with self._changed:
                    self._jobs.pop(job, None)
                continue
            known = self._jobs.get(job)
            # what has run keeps its place when the rest slips, so the beginning stays
            begin = known[0] if known is not None and known[0] < clock else min(slot.place.begin for slot in job.own)
            span = begin, max(slot.place.end for slot in job.own)
            if known != span:
                begins, ends = (now + timedelta(microseconds=(moment - clock) * 1_000_000 // NANO) for moment in span)
                execute("INSERT INTO privid.timetable VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
                        " ON CONFLICT (job) DO UPDATE SET begins = excluded.begins, ends = excluded.ends",
                        (job.ident, job.table.camera.name, job.table.owner, job.table.name, len(job.own), self._lanes, begins, ends,
                         job.table.kept_for))
                self._jobs[job] = span

    def _write(self, work: Callable[[Callable[[str, tuple[object, ...]], object]], object]) -> None:
        try:
            with self._ledger.pool.transaction() as connection:
                work(connection.execute)
        except PrividError as error:
            self._log.failure("timetable not posted", error)
