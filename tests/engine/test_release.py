"""Releases through a real engine: charge, slots, room, noise, deadline, reuse, cancel; and the rows that owners see."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privid.model import Column
from tests.engine.client import Client, Refused, wait_for
from tests.engine.conftest import House

UNTRUSTED = (Column("v", 2, "float8", "float8", False, 0.0), Column("w", 3, "text", "text", False, "none"))
LEVELS = [10 * (i // 10) for i in range(40)]
TRUTH = [(10.0 * i, f"secret-{10 * i}") for i in range(2)]
PROTECTED = {"rho": "1s", "epsilon": "2"}
#: a window of four chunks, which takes two slots in each of two lanes
FOUR = "2026-03-01 06:00:04+00"
SLOTS = 2 * (0.6 + 0.1)


def release(client: Client, request: dict[str, Any]) -> dict[str, Any]:
    """The whole way."""
    kind, answer = client.ask("R", request)
    assert kind == "a" and set(answer) == {"rows", "notice", "reused"}
    return answer


def numbers(answer: dict[str, Any]) -> list[Fraction]:
    """The count and the sum."""
    (row,) = answer["rows"]
    return [Fraction(value) for value in row]


def raw(house: House, client: Client, table: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Rows as the camera's owner sees them: chunk, then what the program wrote."""
    _, begun = client.ask("W", {**house.asked_by("olga", table), "tables": [table], "settings": {}})
    return client.scan(begun["handle"], 0, UNTRUSTED)


def begin(house: House, client: Client, request: dict[str, Any]) -> None:
    """Ask for a release, and wait until it is charged."""
    before = len(house.engine.events("release charged"))
    client.send("R", request)
    assert wait_for(lambda: len(house.engine.events("release charged")) > before)


def refusal(client: Client) -> dict[str, Any]:
    """The body of the E that comes."""
    kind, body = client.receive()
    assert kind == "E"
    told: dict[str, Any] = json.loads(body)
    return told


def state(house: House, handle_query: str) -> list[str]:
    return [row[0] for row in house.database.rows("SELECT state FROM privid.release_log WHERE query = %s ORDER BY id", handle_query)]


def spent(house: House, source: str) -> Fraction:
    camera = house.camera(source)
    (row,) = house.database.rows("SELECT coalesce(max(l.spent), 0) FROM privid.footage f LEFT JOIN privid.ledger_levels l "
                                 "ON l.recording = f.recording WHERE f.camera = %s", camera)
    return Fraction(row[0])


def test_an_unprotected_release_is_exact_and_costs_nothing(house: House) -> None:
    source = house.video(LEVELS)
    with house.engine.connect() as client:
        answer = release(client, house.request(house.table(source)))
    assert answer["reused"] is False
    assert numbers(answer) == [2, 10]
    assert spent(house, source) == 0


def timed(client: Client, request: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """An answer, and how many seconds it took."""
    begun = time.monotonic()
    return release(client, request), time.monotonic() - begun


def test_a_second_release_over_the_same_table_runs_nothing_again(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS)))
    with house.engine.connect() as client:
        assert client.ask("X", request)[1]["Privid"]["Slots"] == 2
        first = release(client, request)
        assert client.ask("X", request)[1]["Privid"]["Slots"] == 0
        second, took = timed(client, request)
        # the allowance, and less than a slot would take; on a busy machine one of several
        assert min(took, *(timed(client, request)[1] for _ in range(3))) < 0.6
    assert numbers(first) == numbers(second) == [2, 10]
    assert [job["slots"] for job in house.engine.events("job")][-5:] == [2, 0, 0, 0, 0]


def test_a_protected_release_is_charged_before_it_begins_and_logged_when_answered(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), query="charged first")
    with house.engine.connect() as client:
        shown = client.ask("X", request)[1]
        assert shown["Privid"]["Budget Remaining"] == 2 and shown["Privid"]["Frames Charged"] > 0 and shown["text"]
        assert spent(house, source) == 0
        begin(house, client, request)
        assert spent(house, source) == 1
        assert state(house, "charged first") == ["charged"]
        kind, body = client.receive()
        answer = json.loads(body)
        assert kind == "a" and state(house, "charged first") == ["answered"]
        assert client.ask("X", request)[1]["Privid"]["Budget Remaining"] == 1
    assert "epsilon 1 was charged" in answer["notice"]
    (stored,) = house.database.rows("SELECT answer FROM privid.release_log WHERE query = 'charged first'")
    assert stored[0] == answer["rows"]


def test_an_identical_release_is_answered_again_with_the_same_rows_free_of_charge(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), reuse=True)
    with house.engine.connect() as client:
        first = release(client, request)
        assert first["reused"] is False
        again = release(client, request)
        assert (again["rows"], again["reused"]) == (first["rows"], True)
        assert spent(house, source) == 1
        # fresh noise, another epsilon: each is another release
        assert release(client, {**request, "reuse": False})["reused"] is False
        assert spent(house, source) == 2
        with pytest.raises(Refused) as refused:
            client.ask("R", {**request, "epsilon": "0.5"})
        assert refused.value.sqlstate == "PV003"


def test_budget_that_is_spent_refuses_and_charges_nothing_more(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), epsilon="1.5", query="spent")
    with house.engine.connect() as client, house.engine.connect() as other:
        begin(house, client, request)
        with pytest.raises(Refused) as refused:
            other.ask("R", request)
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


MAXIMUM = {"name": "pg_catalog.max(float8)", "args": [{"e": "col", "rel": 1, "col": 2, "name": "v", "type": "float8", "loc": 30}],
           "star": False, "distinct": False, "filter": None, "type": "float8", "loc": 7}


def candidate(number: int, select: Any, *below: dict[str, Any], raw: bool = False) -> dict[str, Any]:
    return {"number": number, "raw": raw, "select": select, "below": list(below)}


def test_the_outermost_level_that_has_a_rule_is_the_release_and_choosing_costs_nothing(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED), query="chosen")
    good = request.pop("select")
    bad = {**good, "aggs": [MAXIMUM]}
    refused = {"refused": "rows cannot be shown", "sqlstate": "PV001", "hint": "Count them.", "loc": 3}
    with house.engine.connect() as client:
        def chosen(tree: dict[str, Any]) -> Any:
            kind, answer = client.ask("T", {**request, "candidate": tree})
            assert kind == "t" and set(answer) == {"releases"}
            return answer["releases"]

        def why_not(tree: dict[str, Any]) -> str:
            with pytest.raises(Refused) as told:
                chosen(tree)
            return f"{told.value.sqlstate} {told.value.body['message']}"

        assert chosen(candidate(1, good, candidate(2, good))) == [1]
        assert chosen(candidate(1, bad, candidate(2, good), candidate(3, good))) == [2, 3]
        assert chosen(candidate(1, None, candidate(2, bad, candidate(3, good)), candidate(4, good))) == [3, 4]
        assert chosen(candidate(1, refused, candidate(2, good))) == [2]
        # the outermost refusal is told, unless that level was no release at all
        assert why_not(candidate(1, bad)) == why_not(candidate(1, None, candidate(2, bad))) == "PV002 aggregate max(float8) has no rule"
        assert why_not(candidate(1, refused, candidate(2, bad))) == "PV001 rows cannot be shown"
        # a level that has raw rows of its own cannot be answered by the levels below it
        assert why_not(candidate(1, bad, candidate(2, good), raw=True)) == "PV002 aggregate max(float8) has no rule"
    assert state(house, "chosen") == [] and spent(house, source) == 0


def test_what_could_take_longer_than_the_session_allows_is_refused_before_the_charge(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server={**PROTECTED, "quantum": "300ms"}), query="too long")
    with house.engine.connect() as client:
        for kind in "XR":
            with pytest.raises(Refused) as refused:
                client.ask(kind, {**request, "allowance": 100})
            assert refused.value.sqlstate == "22023" and "privid.allowance is 0.1 s" in refused.value.body["message"]
        assert client.ask("X", {**request, "allowance": 300})[1]["Privid"]["Allowance"] == 0.3
    assert state(house, "too long") == [] and spent(house, source) == 0


def test_an_answer_leaves_when_its_allowance_after_the_last_slot_is_over_not_before(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS), server={"quantum": "300ms", "rho": "1s", "epsilon": "100"}, end=FOUR))
    with house.engine.connect() as client:
        assert client.ask("X", request)[1]["Privid"]["Allowance"] == 0.3
        begun = time.monotonic()
        release(client, request)
        assert time.monotonic() - begun >= SLOTS + 0.3
        took = [timed(client, request)[1] for _ in range(4)]
        assert min(took) >= 0.3
        assert min(took) < 0.6


def test_where_nothing_is_protected_an_answer_leaves_when_it_is_there(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS), server={"quantum": "5s"}, end=FOUR))
    with house.engine.connect() as client:
        release(client, request)
        begun = time.monotonic()
        release(client, request)
        assert time.monotonic() - begun < 2


def test_two_releases_at_once_share_the_slots_of_their_common_chunks(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS)))
    with house.engine.connect() as one, house.engine.connect() as other:
        begin(house, one, request)
        begin(house, other, request)
        one.close()  # whoever began may leave: the other's rows still come
        kind, body = other.receive()
        assert kind == "a" and numbers(json.loads(body)) == [2, 10]
    assert [(job["slots"], job["shared"]) for job in house.engine.events("job")][-2:] == [(2, 0), (0, 2)]


def test_a_program_that_fails_gives_default_rows_and_is_counted_for_the_owner(house: House) -> None:
    house.upload("fails", b"#!/bin/sh\necho '{}'; exit 1\n")
    source = house.video(LEVELS)
    with house.engine.connect() as client:
        assert numbers(release(client, house.request(house.table(source, "fails")))) == [2, 0]
        assert [row[1:] for row in raw(house, client, house.table(source, "fails"))] == [(0.0, "none")] * 2
    camera = house.camera(source)

    def counted() -> dict[str, int]:
        return dict(house.database.rows("SELECT outcome, count FROM privid.program_failures WHERE camera = %s", camera))

    assert wait_for(lambda: bool(counted()))
    assert counted() == {"ok": 0, "crashed": 2, "timed out": 0, "flooded": 0, "unreadable": 0, "undecoded": 0}


def test_a_python_module_sees_its_chunk_and_where_it_stands(house: House) -> None:
    house.upload("module", b"def process(chunk):\n"
                           b"    yield {'v': chunk.frames.shape[0] + chunk.fps, 'w': f'{chunk.camera} {chunk.start.isoformat()}'}\n")
    source = house.video(LEVELS)
    table = house.table(source, "module", timeout="3s", begin="2026-03-01 06:00:01+00", end="2026-03-01 06:00:02+00")
    with house.engine.connect() as client:
        rows = [row[1:] for row in raw(house, client, table)]
        assert numbers(release(client, house.request(table))) == [1, 20]
    assert rows == [(20.0, f"{house.camera(source)} 2026-03-01T06:00:01+00:00")]


def test_a_padded_table_has_max_rows_rows_in_every_chunk(house: House) -> None:
    table = house.table(house.video(LEVELS), pad="on", max_rows="3")
    with house.engine.connect() as client:
        assert numbers(release(client, house.request(table))) == [6, 10]
        rows = [row[1:] for row in raw(house, client, table)]
    assert rows == [row for truth in TRUTH for row in (truth, (0.0, "none"), (0.0, "none"))]


def test_raw_access_gives_rows_and_can_never_be_released(house: House) -> None:
    source = house.video(LEVELS)
    table = house.table(source, server=PROTECTED)
    with house.engine.connect() as client:
        rows = raw(house, client, table)
        assert [row[1:] for row in rows] == TRUTH
        assert [row[0] - rows[0][0] for row in rows] == [0, 1_000_000]
        client.send("D", {"handle": "0", "rows": [["2", "10"]]})
        assert client.closed()
    assert spent(house, source) == 0


def test_a_handle_belongs_to_its_connection_and_is_read_once(house: House) -> None:
    table = house.table(house.video(LEVELS))
    with house.engine.connect() as one, house.engine.connect() as other:
        handle = one.ask("W", {**house.asked_by("olga", table), "tables": [table], "settings": {}})[1]["handle"]
        with pytest.raises(Refused):
            other.scan(handle, 0, UNTRUSTED)
        assert [row[1:] for row in one.scan(handle, 0, UNTRUSTED)] == TRUTH
        with pytest.raises(Refused):
            one.scan(handle, 0, UNTRUSTED)
        assert one.ask("X", house.request(table))[0] == "x"


def sandboxes(house: House) -> set[int]:
    """Processes of bubblewrap, and of nurseries of warm children, below the engine."""
    assert house.engine.process is not None
    found = set()
    for task in Path(f"/proc/{house.engine.process.pid}/task").iterdir():
        with suppress(OSError):  # a thread that ended meanwhile; its children are another's then
            for child in (task / "children").read_text().split():
                with suppress(OSError):
                    command = Path(f"/proc/{child}/cmdline").read_bytes()
                    if b"bwrap" in command or b"nursery" in command:
                        found.add(int(child))
    return found


def test_closing_the_connection_kills_the_run_and_frees_its_slots(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, "endless", server=PROTECTED, timeout="10s", end=FOUR), query="cancelled")
    with house.engine.connect() as client:
        client.send("R", request)
        assert wait_for(lambda: bool(sandboxes(house)), 10)
    assert wait_for(lambda: not sandboxes(house), 5)
    assert wait_for(lambda: state(house, "cancelled") == ["failed"])
    assert spent(house, source) == 1  # nothing is given back
    with house.engine.connect() as client:
        begun_at = time.monotonic()
        answer = release(client, house.request(house.table(source)))
        assert time.monotonic() - begun_at < 10  # the reserved slots, twenty seconds, are free again
    assert numbers(answer) == [2, 10]


def test_footage_that_changes_after_the_charge_is_an_error_at_the_public_deadline(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server=PROTECTED, end=FOUR), query="changed")
    path = house.engine.videos / source
    with house.engine.connect() as client:
        client.ask("X", request)
        content = path.read_bytes()
        begun = time.monotonic()
        begin(house, client, request)
        path.write_bytes(content[:-1] + b"x")
        refused = refusal(client)
        assert refused["sqlstate"] == "PV007"
        assert "frames" not in str(refused)
        assert time.monotonic() - begun >= SLOTS + 0.1
    assert state(house, "changed") == ["failed"]
    assert spent(house, source) == 1


def test_who_leaves_while_an_error_waits_for_its_deadline_leaves_a_failed_release(house: House) -> None:
    source = house.video(LEVELS)
    request = house.request(house.table(source, server={**PROTECTED, "quantum": "3s"}), query="left")
    path = house.engine.videos / source
    with house.engine.connect() as client:
        client.ask("X", request)
        begin(house, client, request)
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        time.sleep(2)  # the slots are over, the allowance is not
        assert state(house, "left") == ["charged"]
    assert state(house, "left") == ["charged"]  # that it has ended shows when it would have been answered
    assert wait_for(lambda: state(house, "left") == ["failed"], 10)


def test_a_sandbox_that_fails_is_the_same_error_whatever_it_was(house: House) -> None:
    request = house.request(house.table(house.video(LEVELS), end=FOUR), query="broken")
    scratch = house.engine.scratch()
    with house.engine.connect() as client:
        begin(house, client, request)

        def broken() -> bool:
            for chunk in scratch.glob("job-*/chunk-3/chunk.json"):
                if chunk.stat().st_size:  # written; before, there is only its place
                    chunk.unlink()
                    return True
            return False

        assert wait_for(broken)
        refused = refusal(client)
        assert refused["message"] == "the sandbox failed" and refused["sqlstate"] == "PV010"
    assert state(house, "broken") == ["failed"]
    assert house.engine.events("slot failed")


def test_nothing_is_left_in_memory_after_the_jobs(house: House) -> None:
    scratch = house.engine.scratch()
    assert wait_for(lambda: not list(scratch.glob("job-*")))
    assert scratch.stat().st_mode & 0o007 in (0, 1)
    assert {path.name for path in scratch.iterdir()} - {"lock"} == {"lane-0", "lane-1"}


def test_the_log_tells_what_happened_and_nothing_of_the_data(house: House) -> None:
    with house.engine.connect() as client:
        release(client, house.request(house.table(house.video(LEVELS))))
    text = house.engine.log_file.read_text()
    assert {line["event"] for line in house.engine.log()} >= {"engine started", "release charged", "job", "release answered"}
    for secret in ("secret", "zebra", '"10.000"', "SELECT", "sum", "TimeZone"):
        assert secret not in text, secret
