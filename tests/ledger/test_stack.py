"""The ledger through the whole path: what analysts, owners and operators see of it in a real stack."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psycopg
import pytest

from tests.conftest import run_privid, write_video

Rows = list[tuple[Any, ...]]


@pytest.fixture
def name(stack: Any, unique: Callable[[str], str]) -> str:
    """A camera with footage of its own (twenty seconds, a second protected), and a table over its first ten."""
    name = unique("ledger")
    write_video(stack.videos / f"{name}.mp4", [level for level in random.Random(name).choices(range(200), k=20) for _ in range(10)])
    stack.camera(name, f"{name}.mp4", rho="1s", epsilon="1", quantum="20ms")
    stack.executable("one", "#!/bin/sh\necho '{\"v\": 1}'\n")
    stack.table(name, name, "one", timeout="60ms")
    return name


def run(stack: Any, statement: str, epsilon: str = "0.25", user: str = "analyst", reuse: str = "on") -> Rows:
    found: Rows = stack.run(statement, user=user, settings={"privid.epsilon": epsilon, "privid.reuse": reuse})
    return found


def spent(stack: Any, name: str) -> Fraction:
    return 1 - Fraction(stack.run("SELECT min(remaining) FROM privid.budget WHERE camera = %s", name)[0][0])


def test_a_dashboard_of_twenty_panels_spends_only_once_however_often_it_refreshes(stack: Any, name: str) -> None:
    panels = [f"SELECT count(*) FROM {name} WHERE v > {n}" for n in range(20)]
    with stack.connect() as connection:
        connection.execute("SET privid.epsilon = 0.01")
        first = [connection.execute(panel.encode()).fetchall() for panel in panels]
        after = spent(stack, name)
        for _ in range(3):
            assert [connection.execute(panel.encode()).fetchall() for panel in panels] == first
    assert after == spent(stack, name) == Fraction(20, 100)


def test_an_answer_is_had_again_by_every_analyst_of_the_camera_and_a_higher_epsilon_is_a_new_release(stack: Any, name: str) -> None:
    first = run(stack, f"SELECT count(*) FROM {name}")
    stack.run(f"GRANT SELECT ON {name} TO owner; GRANT USAGE ON SCHEMA analyst TO owner")
    assert run(stack, f"SELECT count(*) FROM analyst.{name}", user="owner") == first
    assert spent(stack, name) == Fraction(1, 4)
    run(stack, f"SELECT count(*) FROM {name}", "0.5")
    assert spent(stack, name) == Fraction(3, 4)


def test_two_halves_of_a_window_cost_no_more_than_the_whole_epsilon_each(stack: Any, name: str) -> None:
    """The exact rule through SQL: a segment between the halves meets a part of each."""
    for condition in ("<", ">="):
        run(stack, f"SELECT count(*) FROM {name} WHERE chunk {condition} '2026-03-01 06:00:05+00'", "1")
    assert spent(stack, name) == 1
    assert stack.run("SELECT DISTINCT rule FROM privid.releases WHERE camera = %s", name) == [("exact",)]


def test_afford_tells_the_cost_of_a_batch_and_spends_nothing(stack: Any, name: str) -> None:
    batch = f"""SELECT count(*) FROM {name}; -- a comment; with a semicolon
                SELECT count(*) FROM {name} WHERE v > 1;
                SELECT count(*) FROM {name};
                SELECT 'a;b'; SELECT sum(range(v, 0, 9)) FROM {name}; SELECT max(v) FROM {name}; DROP TABLE {name};"""
    found = stack.run("SELECT statement, camera, epsilon, remaining, affordable, note FROM privid.afford(%s)", batch,
                      settings={"privid.epsilon": "0.4"})
    assert [(row[0], row[2] and float(row[2]), row[3] and float(row[3]), row[4]) for row in found] == [
        (1, 0.4, 0.6, True), (2, 0.4, 0.2, True), (3, 0, None, True), (4, None, None, True), (5, 0.4, 0, False), (6, None, None, False),
        (7, None, None, None)]
    assert found[0][1] == name and found[2][5] == "the same as above, costs nothing" and found[4][5] == "short of 0.2"
    assert spent(stack, name) == 0
    run(stack, f"SELECT count(*) FROM {name}", "0.4")
    found = stack.run("SELECT epsilon, note FROM privid.afford(%s)", f"SELECT count(*) FROM {name}", settings={"privid.epsilon": "0.4"})
    assert found == [(0, "answered before, costs nothing")]


def test_each_camera_of_a_release_is_charged_what_its_own_segments_lose(stack: Any, name: str) -> None:
    """Two rows of the one and eighteen of the other may change: a tenth and nine tenths, in EXPLAIN, afford, ledger and log."""
    other = f"{name}_other"
    write_video(stack.videos / f"{other}.mp4", [level for level in random.Random(other).choices(range(200), k=20) for _ in range(10)])
    stack.camera(other, f"{other}.mp4", rho="1s", epsilon="1", quantum="20ms")
    stack.table(other, other, "one", timeout="60ms", max_rows="9")
    both = f"SELECT count(*) FROM (SELECT v FROM {name} UNION ALL SELECT v FROM {other}) q"
    plan = stack.run(f"EXPLAIN (FORMAT JSON) {both}", settings={"privid.epsilon": "0.5"})[0][0][0]["Plan"]["Privid"]
    assert [(c["Camera"], c["Epsilon"]) for c in plan["Cameras"]] == [(name, 0.05), (other, 0.45)]
    assert [(c["Camera"], float(c["Epsilon"])) for c in plan["Charges"]] == [(name, 0.05), (other, 0.45)]
    assert [(row[0], float(row[1])) for row in stack.run("SELECT camera, epsilon FROM privid.afford(%s)", both, settings={
        "privid.epsilon": "0.5"})] == [(name, 0.05), (other, 0.45)]
    run(stack, both, "0.5")
    assert (spent(stack, name), spent(stack, other)) == (Fraction(5, 100), Fraction(45, 100))
    assert stack.run("SELECT camera, epsilon::float8, rule FROM privid.releases WHERE camera IN (%s, %s) ORDER BY camera", name, other) == [
        (name, 0.05, "exact"), (other, 0.45, "exact")]
    with pytest.raises(psycopg.Error, match=f'camera "{other}".*epsilon 0.9 requested, 0.55 remaining') as refused:
        run(stack, both, "1")
    assert refused.value.sqlstate == "PV003"
    told = re.search(r"privid.epsilon to at most ([0-9.]+) or", refused.value.diag.message_hint or "")
    assert told is not None
    run(stack, both, told[1])  # the hint works when it is followed
    assert 0 < 1 - spent(stack, other) < Fraction(1, 10**6)


def test_windows_that_can_still_afford_an_epsilon_are_told(stack: Any, name: str) -> None:
    run(stack, f"SELECT count(*) FROM {name} WHERE chunk >= '2026-03-01 06:00:04+00' AND chunk < '2026-03-01 06:00:06+00'", "0.75")
    free = stack.run("SELECT begins::text, ends::text, frames::text FROM privid.available(%s, 0.5)", name)
    assert [row[2] for row in free] == ["[0,41)", "[59,200)"]
    free = stack.run("SELECT begins::text, ends::text, frames::text FROM privid.available(%s, 0.7)", name)
    assert [row[2] for row in free] == ["[0,31)", "[69,200)"]  # at the window's edges a segment meets one chunk of two
    assert stack.run("SELECT frames::text FROM privid.available(%s, 0.25)", name) == [("[0,200)",)]
    assert stack.run("SELECT * FROM privid.available(%s, 1.5)", name) == []


def test_a_share_is_enforced_on_the_way_of_a_query(stack: Any, name: str) -> None:
    stack.run("SELECT privid.grant_budget(%s, 'privid_analyst', 0.5)", name, user="owner")
    run(stack, f"SELECT count(*) FROM {name}", "0.4")
    with pytest.raises(psycopg.Error, match=r'share of role "privid_analyst".*epsilon 0.4 requested, 0.1 remaining') as refused:
        run(stack, f"SELECT count(*) FROM {name}", "0.4", reuse="off")
    assert refused.value.sqlstate == "PV003"
    plan = stack.run(f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {name}", settings={"privid.reuse": "off"})[0][0]
    assert float(json.loads(json.dumps(plan))[0]["Plan"]["Privid"]["Budget Remaining"]) == pytest.approx(0.1)


def test_changes_of_a_camera_are_in_its_history(stack: Any, name: str) -> None:
    stack.run(f"ALTER SERVER {name} OPTIONS (SET epsilon '2')", user="owner")
    events = stack.run("SELECT who, event FROM privid.history WHERE camera = %s ORDER BY id", name, user="owner")
    assert ("owner", "created") in events and ("owner", "altered") in events and ("engine", "footage registered") in events
    assert stack.run("SELECT * FROM privid.verify_history()", user="owner") == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):  # digests of files would tell one video from another
        stack.run("SELECT * FROM privid.history")


def test_a_re_encoded_recording_has_no_fresh_budget(stack: Any, name: str) -> None:
    run(stack, f"SELECT count(*) FROM {name}", "0.75")
    write_video(stack.videos / f"{name}2.mp4", [7] * 200)
    stack.run(f"ALTER SERVER {name} OPTIONS (SET source '{name}2.mp4')", user="owner")
    with pytest.raises(psycopg.Error, match=r"epsilon 0.5 requested, 0.25 remaining"):
        run(stack, f"SELECT count(*) FROM {name}", "0.5")


def test_exposure_beyond_the_policy_grows_with_length_and_number(stack: Any, name: str) -> None:
    def exposure(duration: str, times: int) -> tuple[float, float]:
        epsilon, detection = stack.run("SELECT epsilon, detection FROM privid.exposure(%s, %s::interval, %s)", name, duration, times)[0]
        return float(epsilon), float(detection)

    assert [exposure(*event)[0] for event in (("0s", 1), ("0.5s", 1), ("1s", 1), ("1.01s", 1), ("3s", 1), ("1s", 4), ("3s", 2))] == [
        0, 1, 1, 2, 3, 4, 6]
    detections = [exposure(f"{n}s", 1)[1] for n in (0, 1, 2, 4, 8, 1000)]
    assert detections == pytest.approx([0.01, 0.01 * np.e, 0.01 * np.e**2, 0.01 * np.e**4, 1 - np.exp(-8) * 0.99, 1])
    run(stack, f"SELECT count(*) FROM {name}", "0.5")
    assert stack.run("SELECT epsilon_so_far FROM privid.exposure(%s, '2s')", name) == [(1,)]


def test_the_commands_draw_budget_and_exposure(stack: Any, name: str, tmp_path: Path) -> None:
    run(stack, f"SELECT count(*) FROM {name}", "0.75")
    for command, words in (("budget", ["epsilon 1 per frame", "remaining: 0.25 where least is left, 1 where most is"]),
                           ("exposure", ["alpha 0.001", "0:00:10"])):
        told = run_privid(command, name, "--data", stack.data, "--png", tmp_path / f"{command}.png").stdout
        assert all(word in told for word in words), told
        picture = cv2.imread(str(tmp_path / f"{command}.png"))
        assert picture is not None and picture.shape == (420, 960, 3)
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50  # something is drawn
    assert run_privid("budget", "nowhere", "--data", stack.data, check=False).returncode == 1


def test_a_restored_older_ledger_is_refused_until_the_operator_accepts_it(stack: Any, name: str) -> None:
    run(stack, f"SELECT count(*) FROM {name}", "0.25")
    assert "0 missing" in run_privid("ledger", "check", "--data", stack.data).stdout
    release = stack.run("SELECT max(id) FROM privid.releases WHERE camera = %s", name)[0][0]
    # what a restore of yesterday's dump leaves: the latest charge is gone
    stack.run(f"""SET session_replication_role = replica;
                  DELETE FROM privid.release_charges WHERE release = {release}; DELETE FROM privid.release_log WHERE id = {release};
                  DELETE FROM privid.ledger l USING privid.footage f WHERE f.camera = '{name}' AND l.recording = f.recording""",
              user="privid")
    with pytest.raises(psycopg.Error, match="ledger is older than it was") as refused:
        run(stack, f"SELECT count(*) FROM {name}", "0.25")
    assert refused.value.sqlstate == "PV004" and "accept-restore" in (refused.value.diag.message_hint or "")
    stack.restart_engine()
    with pytest.raises(psycopg.Error, match="ledger is older than it was"):
        run(stack, f"SELECT count(*) FROM {name}", "0.25")
    assert run_privid("ledger", "check", "--data", stack.data, check=False).returncode == 1
    assert run_privid("ledger", "accept-restore", "--data", stack.data, check=False).returncode == 1
    assert "1 charges are forgotten" in run_privid("ledger", "accept-restore", "--yes", "--data", stack.data).stdout
    assert run(stack, f"SELECT count(*) FROM {name}", "0.25")
    assert stack.run("SELECT details ->> 'missing' FROM privid.history WHERE event = 'restore accepted' ORDER BY id DESC LIMIT 1",
                     user="owner") == [(f"[{release}]",)]


def turn_postgres(action: str, stack: Any) -> None:
    """PostgreSQL alone, from a process of its own, as privid up and down do it."""
    code = f"import sys; from pathlib import Path; from privid.cli.layout import Layout; from privid.cli.postgres import Postgres; " \
           f"Postgres(Layout(Path(sys.argv[1]))).{action}()"
    subprocess.run([sys.executable, "-c", code, str(stack.data)], check=True)


def test_a_standby_refuses_releases(stack: Any, name: str) -> None:
    signal = stack.layout.pg / "standby.signal"
    turn_postgres("stop", stack)
    signal.touch()
    os.chown(signal, stack.layout.account.uid, stack.layout.account.gid)
    try:
        turn_postgres("start", stack)
        assert stack.run("SELECT pg_is_in_recovery()") == [(True,)]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            run(stack, f"SELECT count(*) FROM {name}")
    finally:
        turn_postgres("stop", stack)
        signal.unlink()
        stack.up()
    assert spent(stack, name) == 0
    assert run(stack, f"SELECT count(*) FROM {name}")
