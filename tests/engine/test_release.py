"""Releases through a real engine: charge, slots, scan, noise, deadline, reuse, cancel."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privid.model import Column
from tests.engine.client import Client, Refused
from tests.engine.conftest import House

UNTRUSTED = (Column("v", 2, "float8", "float8", False, 0.0), Column("w", 3, "text", "text", False, "none"))
LEVELS = [10 * (i // 10) for i in range(40)]
TRUTH = [(10.0 * i, f"secret-{10 * i}") for i in range(2)]
PROTECTED = {"rho": "1s", "epsilon": "2"}
#: a window of four chunks, which takes two slots in each of two lanes
FOUR = "2026-03-01 06:00:04+00"
SLOTS = 2 * (0.6 + 0.1)


def release(client: Client, request: dict[str, Any]) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The whole way; the inner query is done by hand."""
    _, begun = client.ask("R", request)
    rows = [row[1:] for row in client.scan(begun["handle"], 0, UNTRUSTED)]
    total = sum(row[0] for row in rows)
    return rows, client.ask("D", {"handle": begun["handle"], "rows": [[str(len(rows)), str(total)]]})[1]


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def state(house: House, handle_query: str) -> list[str]:
    return [row[0] for row in house.database.rows("SELECT state FROM privid.release_log WHERE query = %s ORDER BY id", handle_query)]


def spent(house: House, source: str) -> Fraction:
    camera = house.server(source)["name"]
    (row,) = house.database.rows("SELECT coalesce(max(l.spent), 0) FROM privid.footage f LEFT JOIN privid.ledger_levels l "
                                 "ON l.recording = f.recording WHERE f.camera = %s", camera)
    return Fraction(row[0])


def test_an_unprotected_release_is_exact_and_costs_nothing(house: House) -> None:
    source = house.video(LEVELS)
    with house.engine.connect() as client:
        _, begun = client.ask("R", house.request(house.table(source)))
        rows = client.scan(begun["handle"], 0, UNTRUSTED)
        kind, answer = client.ask("D", {"handle": begun["handle"], "rows": [["2", "10"]]})
    assert [row[1:] for row in rows] == TRUTH
    assert [row[0] - rows[0][0] for row in rows] == [0, 1_000_000]
    assert kind == "a" and answer["reused"] is False
    assert [Fraction(value) for value in answer["rows"][0]] == [2, 10]
    assert spent(house, source) == 0


def test_a_second_release_over_the_same_table_runs_nothing_again(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS)))
    with house.engine.connect() as client:
        assert client.ask("X", request)[1]["Privid"]["Slots"] == 2
        first, _ = release(client, request)
        assert client.ask("X", request)[1]["Privid"]["Slots"] == 0
        begun = time.monotonic()
        second, _ = release(client, request)
        assert time.monotonic() - begun < 0.4  # the quantum, and little more
    assert first == second == TRUTH
    assert [job["slots"] for job in house.engine.events("job")][-2:] == [2, 0]


def test_a_protected_release_is_charged_before_it_begins_and_logged_when_answered(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), query="charged first")
    with house.engine.connect() as client:
        shown = client.ask("X", request)[1]
        assert shown["Privid"]["Budget Remaining"] == 2 and shown["Privid"]["Frames Charged"] > 0 and shown["text"]
        assert spent(house, source) == 0
        _, begun = client.ask("R", request)
        assert spent(house, source) == 1
        assert state(house, "charged first") == ["charged"]
        _, answer = client.ask("D", {"handle": begun["handle"], "rows": [["2", "10"]]})
        assert client.ask("X", request)[1]["Privid"]["Budget Remaining"] == 1
    assert "epsilon 1 was charged" in answer["notice"]
    (stored,) = house.database.rows("SELECT answer FROM privid.release_log WHERE query = 'charged first'")
    assert stored[0] == answer["rows"]


def test_an_identical_release_is_answered_again_with_the_same_rows_free_of_charge(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), reuse=True)
    with house.engine.connect() as client:
        _, first = release(client, request)
        begun = time.monotonic()
        kind, again = client.ask("R", request)
        took = time.monotonic() - begun
        assert (kind, again["rows"], again["reused"]) == ("a", first["rows"], True)
        assert took >= 0.1
        assert spent(house, source) == 1
        # fresh noise, another epsilon, another program: each is another release
        assert client.ask("R", {**request, "reuse": False})[0] == "r"
        with pytest.raises(Refused) as refused:
            client.ask("R", {**request, "epsilon": "0.5"})
        assert refused.value.sqlstate == "PV003"


def test_budget_that_is_spent_refuses_and_charges_nothing_more(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), epsilon="1.5", query="spent")
    with house.engine.connect() as client:
        client.ask("R", request)
        with pytest.raises(Refused) as refused:
            client.ask("R", request)
        assert refused.value.sqlstate == "PV003"
    assert spent(house, source) == Fraction(3, 2)
    assert wait_for(lambda: state(house, "spent") == ["failed"])  # the connection closed before its answer


@pytest.mark.parametrize(("epsilon", "sqlstate"), [("0", "22023"), ("-1", "22023"), ("x", "22023"), ("3", "PV003")])
def test_an_epsilon_that_cannot_be_granted_is_refused(house: House, epsilon: str, sqlstate: str) -> None:
    request = house.request(house.table(house.video(LEVELS), server=PROTECTED), epsilon=epsilon)
    with house.engine.connect() as client:
        for kind in "XR":
            with pytest.raises(Refused) as refused:
                client.ask(kind, request)
            assert refused.value.sqlstate == sqlstate and refused.value.body["hint"]


def test_a_form_can_be_tried_without_anything_happening(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), query="tried")
    with house.engine.connect() as client:
        assert client.ask("T", request) == ("t", {"accepted": True})
        request["select"]["aggs"][0]["name"] = "pg_catalog.max(float8)"
        _, answer = client.ask("T", request)
    assert answer["accepted"] is False and answer["error"]["sqlstate"].startswith("PV")
    assert state(house, "tried") == [] and spent(house, source) == 0


def test_an_answer_leaves_after_the_last_slot_and_a_quantum_not_before(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS), server={"quantum": "300ms"}, end=FOUR))
    with house.engine.connect() as client:
        begun = time.monotonic()
        release(client, request)
        assert time.monotonic() - begun >= SLOTS + 0.3
        begun = time.monotonic()
        release(client, request)
        assert 0.3 <= time.monotonic() - begun < 0.6


def test_two_releases_at_once_share_the_slots_of_their_common_chunks(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS)))
    with house.engine.connect() as one, house.engine.connect() as other:
        first = one.ask("R", request)[1]["handle"]
        second = other.ask("R", request)[1]["handle"]
        one.close()  # whoever began may leave: the other's rows still come
        assert [row[1:] for row in other.scan(second, 0, UNTRUSTED)] == TRUTH
    assert first != second
    assert [(job["slots"], job["shared"]) for job in house.engine.events("job")][-2:] == [(2, 0), (0, 2)]


def test_a_program_that_fails_gives_default_rows_and_is_counted_for_the_owner(house: House) -> None:
    house.upload("fails", b"#!/bin/sh\necho '{}'; exit 1\n")
    source = house.video(LEVELS)
    with house.engine.connect() as client:
        rows, _ = release(client, house.request(house.table(source, "fails")))
    assert rows == [(0.0, "none")] * 2
    camera = house.server(source)["name"]

    def counted() -> dict[str, int]:
        return dict(house.database.rows("SELECT outcome, count FROM privid.program_failures WHERE camera = %s", camera))

    assert wait_for(lambda: bool(counted()))
    assert counted() == {"ok": 0, "crashed": 2, "timed out": 0, "flooded": 0}


def test_a_python_module_sees_its_chunk_and_where_it_stands(house: House) -> None:
    house.upload("module", b"def process(chunk):\n"
                           b"    yield {'v': chunk.frames.shape[0] + chunk.fps, 'w': f'{chunk.camera} {chunk.start.isoformat()}'}\n")
    source = house.video(LEVELS)
    table = house.table(source, "module", timeout="3s", begin="2026-03-01 06:00:01+00", end="2026-03-01 06:00:02+00")
    with house.engine.connect() as client:
        rows, _ = release(client, house.request(table))
    assert rows == [(20.0, f"{house.server(source)['name']} 2026-03-01T06:00:01+00:00")]


def test_a_padded_table_has_max_rows_rows_in_every_chunk(house: House) -> None:
    with house.engine.connect() as client:
        rows, _ = release(client, house.request(house.table(house.video(LEVELS), pad="on", max_rows="3")))
    assert rows == [row for truth in TRUTH for row in (truth, (0.0, "none"), (0.0, "none"))]


def test_raw_access_gives_rows_and_can_never_be_released(house: House) -> None:
    source = house.video(LEVELS)
    table = house.table(source, server=PROTECTED)
    with house.engine.connect() as client:
        _, begun = client.ask("W", {"tables": [table], "settings": {}})
        assert [row[1:] for row in client.scan(begun["handle"], 0, UNTRUSTED)] == TRUTH
        client.send("D", {"handle": begun["handle"], "rows": [["2", "10"]]})
        assert client.closed()
    assert spent(house, source) == 0


def test_a_handle_belongs_to_its_connection_and_ends_when_dropped(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS)))
    with house.engine.connect() as one, house.engine.connect() as other:
        handle = one.ask("R", request)[1]["handle"]
        with pytest.raises(Refused):
            other.ask("D", {"handle": handle, "rows": [["2", "10"]]})
        assert one.ask("Z", {"handle": handle})[0] == "z"
        with pytest.raises(Refused):
            one.scan(handle, 0, UNTRUSTED)
        assert one.ask("X", request)[0] == "x"


def sandboxes(house: House) -> set[int]:
    """Processes of bubblewrap, and of nurseries of warm children, below the engine."""
    assert house.engine.process is not None
    found = set()
    for task in Path(f"/proc/{house.engine.process.pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"bwrap" in command or b"nursery" in command:
                    found.add(int(child))
            except OSError:
                pass
    return found


def test_closing_the_connection_kills_the_run_and_frees_its_slots(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, "endless", server=PROTECTED, timeout="10s", end=FOUR), query="cancelled")
    with house.engine.connect() as client:
        _, begun = client.ask("R", request)
        client.send("S", {"handle": begun["handle"], "table": 0})
        assert wait_for(lambda: bool(sandboxes(house)), 10)
    assert wait_for(lambda: not sandboxes(house), 2)
    assert wait_for(lambda: state(house, "cancelled") == ["failed"])
    assert spent(house, source) == 1  # nothing is given back
    with house.engine.connect() as client:
        begun_at = time.monotonic()
        rows, _ = release(client, house.request(house.table(source)))
        assert time.monotonic() - begun_at < 10  # the reserved slots, twenty seconds, are free again
    assert rows == TRUTH


def test_footage_that_changes_after_the_charge_is_an_error_at_the_public_deadline(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED, end=FOUR), query="changed")
    path = house.engine.videos / source
    with house.engine.connect() as client:
        client.ask("X", request)
        content = path.read_bytes()
        begun = time.monotonic()
        handle = client.ask("R", request)[1]["handle"]
        path.write_bytes(content[:-1] + b"x")
        with pytest.raises(Refused) as refused:
            client.scan(handle, 0, UNTRUSTED)
        assert refused.value.sqlstate == "PV007"
        assert "frames" not in str(refused.value.body)
        assert time.monotonic() - begun >= SLOTS + 0.1
    assert state(house, "changed") == ["failed"]
    assert spent(house, source) == 1


def test_a_sandbox_that_fails_is_the_same_error_whatever_it_was(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS), end=FOUR), query="broken")
    scratch = Path((house.engine.data / "engine.scratch").read_text().strip())
    with house.engine.connect() as client:
        handle = client.ask("R", request)[1]["handle"]

        def broken() -> bool:
            for chunk in scratch.glob("job-*/chunk-3/chunk.json"):
                if chunk.stat().st_size:  # written; before, there is only its place
                    chunk.unlink()
                    return True
            return False

        assert wait_for(broken)
        with pytest.raises(Refused) as refused:
            client.scan(handle, 0, UNTRUSTED)
        assert refused.value.body["message"] == "the sandbox failed" and refused.value.sqlstate == "PV010"
    assert state(house, "broken") == ["failed"]
    assert house.engine.events("slot failed")


def test_nothing_is_left_in_memory_after_the_jobs(house: House) -> None:
    scratch = Path((house.engine.data / "engine.scratch").read_text().strip())
    assert wait_for(lambda: not list(scratch.glob("job-*")))
    assert scratch.stat().st_mode & 0o007 in (0, 1)
    assert {path.name for path in scratch.iterdir()} == {"lane-0", "lane-1", "lock"}


def test_the_log_tells_what_happened_and_nothing_of_the_data(house: House) -> None:
    with house.engine.connect() as client:
        release(client, house.request(house.table(house.video(LEVELS))))
    text = house.engine.log_file.read_text()
    assert {line["event"] for line in house.engine.log()} >= {"engine started", "release charged", "job", "release answered"}
    for secret in ("secret", "zebra", '"10.000"', "SELECT", "sum", "TimeZone"):
        assert secret not in text, secret
