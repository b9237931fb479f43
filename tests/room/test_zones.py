"""Changes of clocks, read from the files that PostgreSQL reads."""

from __future__ import annotations

import struct
from bisect import bisect_right

import pytest

from privid.room.evaluate import _zone_file
from privid.room.pool import RoomPool
from privid.room.zones import changes_between, is_file_name, is_zone_only

FIRST, LAST = 946_684_800, 2_082_758_400  # 2000 to 2036


def test_whatever_postgresql_sees_change_is_listed(pool: RoomPool) -> None:
    """Every day of 36 years in every zone: where the distance from UTC differs from the day before, a change is listed between."""
    with pool.public() as conn:
        zones = [str(name) for (name,) in conn.execute("""SELECT name FROM pg_timezone_names
            WHERE name LIKE '%/%' AND name NOT LIKE 'posix/%' AND name NOT LIKE 'right/%' ORDER BY md5(name) LIMIT 60""").fetchall()]
        seen = 0
        for zone in zones:
            content = _zone_file(conn, zone)
            assert content is not None, zone
            listed = changes_between(content, FIRST, LAST)
            assert listed is not None, zone
            changed = conn.execute("""
                SELECT s, s + 86400 FROM generate_series(%s::int8, %s, 86400) s
                WHERE timezone(%s, to_timestamp(s)) - timezone('UTC', to_timestamp(s))
                   <> timezone(%s, to_timestamp(s + 86400)) - timezone('UTC', to_timestamp(s + 86400))""",
                (FIRST, LAST - 86400, zone, zone)).fetchall()
            for before, after in changed:
                assert isinstance(before, int) and isinstance(after, int)
                assert bisect_right(listed, after) > bisect_right(listed, before), (zone, before)
            seen += len(changed)
        assert seen > 200


def test_where_the_file_ends_and_a_rule_goes_on_nothing_is_known(pool: RoomPool) -> None:
    with pool.public() as conn:
        berlin, tokyo = _zone_file(conn, "Europe/Berlin"), _zone_file(conn, "Asia/Tokyo")
    assert berlin is not None and tokyo is not None
    far = 2_500_000_000  # 2049
    assert changes_between(berlin, FIRST, far) is None
    assert changes_between(tokyo, FIRST, far) == []  # it has no rule that changes
    assert changes_between(berlin, 1_767_225_600, 1_798_761_600) == [1_774_746_000, 1_792_890_000]  # of 2026


@pytest.mark.parametrize("damage", [
    lambda content: b"", lambda content: content[:44], lambda content: content[:-1], lambda content: b"x" + content[1:],
    lambda content: content[:4] + b"\0" + content[5:], lambda content: content[:60],
    lambda content: content.replace(b"TZif2", b"TZif1"), lambda content: content + b"x"])
def test_a_file_of_another_form_tells_nothing(pool: RoomPool, damage: object) -> None:
    with pool.public() as conn:
        content = _zone_file(conn, "Europe/Berlin")
    assert content is not None and callable(damage)
    assert changes_between(damage(content), FIRST, LAST) is None


def test_leap_seconds_and_changes_out_of_order_tell_nothing() -> None:
    def made(times: list[int], leaps: int) -> bytes:
        empty = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
        second = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, leaps, len(times), 1, 4)
        body = struct.pack(f">{len(times)}q", *times) + bytes(len(times)) + bytes(6) + b"UTC\0" + bytes(12 * leaps)
        return empty + second + body + b"\nUTC0\n"

    assert changes_between(made([5, 9], 0), 0, 100) == [5, 9]
    assert changes_between(made([5, 9], 0), 5, 9) == [9]
    assert changes_between(made([9, 5], 0), 0, 100) is None
    assert changes_between(made([5, 9], 1), 0, 100) is None


def test_only_names_of_files_are_looked_for(pool: RoomPool) -> None:
    for name in ("../../etc/passwd", "/etc/passwd", "a//b", "", ".", "FOO0BAR,J100/1", "<+05>-05", "a b"):
        assert not is_file_name(name)
    assert is_zone_only("Europe/Berlin") and is_zone_only("UTC") and not is_zone_only("EST")
    with pool.public() as conn:
        assert _zone_file(conn, "Europe/Nowhere") is None
        assert _zone_file(conn, "CET") is None  # an abbreviation goes first
        assert _zone_file(conn, None) is not None
