"""Which functions a release may call: PostgreSQL's own, on plain types, each of which was looked at."""

from __future__ import annotations

import psycopg
import pytest

from .pair import Pair

#: the rule of fdw/allowed.c: functions of PostgreSQL that are not volatile, of plain types alone
PLAIN = """
    WITH plain AS (SELECT oid, typarray FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
                   AND typname IN ('bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric',
                                   'text', 'varchar', 'bpchar', 'name', 'date', 'time', 'timetz',
                                   'timestamp', 'timestamptz', 'interval', 'uuid', 'anyenum')),
    types AS (SELECT oid FROM plain UNION SELECT typarray FROM plain WHERE typarray <> 0),
    called AS (SELECT p.*, lanname, proname ~ '^(pg_|txid_|xml_)|^ts_match_tt$'
                      AND proname <> 'pg_has_role' AS withheld
               FROM pg_proc p JOIN pg_language l ON l.oid = prolang
               WHERE p.oid < 12000 AND prokind = 'f' AND provolatile <> 'v'
                 AND prorettype IN (SELECT oid FROM types)
                 AND NOT EXISTS (SELECT FROM unnest(proargtypes) a
                                 WHERE a NOT IN (SELECT oid FROM types)))
"""

#: those of them that are stable and about no time: each was looked at
REVIEWED = [
    "current_database",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "enum_first",
    "enum_last",
    "format",
    "getdatabaseencoding",
    "getpgusername",
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_foreign_data_wrapper_privilege",
    "has_function_privilege",
    "has_language_privilege",
    "has_parameter_privilege",
    "has_schema_privilege",
    "has_sequence_privilege",
    "has_server_privilege",
    "has_table_privilege",
    "has_tablespace_privilege",
    "has_type_privilege",
    "inet_client_port",
    "inet_server_port",
    "pg_has_role",
    "row_security_active",
    "session_user",
    "to_char",
    "to_number",
    "version",
]

#: and those that the rule would let through, and that are withheld by name
WITHHELD = [
    "pg_backend_pid",
    "pg_char_to_encoding",
    "pg_client_encoding",
    "pg_conf_load_time",
    "pg_encoding_max_length",
    "pg_encoding_to_char",
    "pg_event_trigger_table_rewrite_reason",
    "pg_get_serial_sequence",
    "pg_get_viewdef",
    "pg_listening_channels",
    "pg_postmaster_start_time",
    "pg_settings_get_flags",
    "pg_size_bytes",
    "pg_size_pretty",
    "pg_stat_get_backend_activity",
    "pg_stat_get_backend_activity_start",
    "pg_stat_get_backend_client_port",
    "pg_stat_get_backend_idset",
    "pg_stat_get_backend_pid",
    "pg_stat_get_backend_start",
    "pg_stat_get_backend_wait_event",
    "pg_stat_get_backend_wait_event_type",
    "pg_stat_get_backend_xact_start",
    "pg_stat_get_bgwriter_buf_written_checkpoints",
    "pg_stat_get_bgwriter_buf_written_clean",
    "pg_stat_get_bgwriter_maxwritten_clean",
    "pg_stat_get_bgwriter_requested_checkpoints",
    "pg_stat_get_bgwriter_stat_reset_time",
    "pg_stat_get_bgwriter_timed_checkpoints",
    "pg_stat_get_buf_alloc",
    "pg_stat_get_buf_fsync_backend",
    "pg_stat_get_buf_written_backend",
    "pg_stat_get_checkpoint_sync_time",
    "pg_stat_get_checkpoint_write_time",
    "pg_stat_get_snapshot_timestamp",
    "pg_trigger_depth",
    "ts_match_tt",
    "txid_current",
    "txid_current_if_assigned",
    "xml_is_well_formed",
    "xml_is_well_formed_content",
    "xml_is_well_formed_document",
]


def test_every_function_that_a_release_may_call_was_looked_at(evil: Pair) -> None:
    withheld = evil.stack.run(
        PLAIN + "SELECT DISTINCT proname FROM called WHERE withheld ORDER BY 1"
    )
    assert [name for (name,) in withheld] == WITHHELD
    stable = evil.stack.run(
        PLAIN
        + """SELECT DISTINCT proname FROM called
        WHERE provolatile = 's' AND NOT withheld AND NOT EXISTS (
            SELECT FROM unnest(array_append(proargtypes::oid[], prorettype)) t
            WHERE format_type(t, NULL) ~ '^(date|time|interval)') ORDER BY 1"""
    )
    assert [name for (name,) in stable] == REVIEWED
    # a body that is text is read anew by each caller, with the operators and casts that it finds
    unread = evil.stack.run(
        PLAIN + "SELECT proname FROM called WHERE lanname <> 'internal' AND prosqlbody IS NULL"
    )
    assert unread == []


def test_the_library_calls_what_the_rule_says_and_nothing_else(evil: Pair) -> None:
    called = evil.stack.run(
        PLAIN
        + """SELECT oid IN (SELECT oid FROM called WHERE NOT withheld),
            format('%I.%I(%s)', 'pg_catalog', proname,
                   (SELECT string_agg('NULL::' || format_type(t, NULL), ', ' ORDER BY n)
                    FROM unnest(proargtypes::oid[]) WITH ORDINALITY u(t, n)))
        FROM pg_proc p WHERE oid < 12000 AND prokind = 'f' AND provolatile <> 'v' AND NOT proretset
          AND proisstrict AND pronargs > 0 AND provariadic = 0 AND NOT EXISTS (
            SELECT FROM unnest(prorettype || proargtypes::oid[]) t JOIN pg_type ON pg_type.oid = t
            WHERE typtype = 'p')"""
    )
    allowed = [call for rule, call in called if rule]
    refused = [call for rule, call in called if not rule]
    assert len(allowed) > 500 and len(refused) > 500
    with evil.connect("a") as connection:
        for some in (allowed[i : i + 100] for i in range(0, len(allowed), 100)):
            condition = " OR ".join(f"({call} IS NULL)" for call in some)
            connection.execute(f"EXPLAIN SELECT count(*) FROM t WHERE {condition}".encode())
        for call in refused:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(f"EXPLAIN SELECT count(*) FROM t WHERE {call} IS NULL".encode())
            assert caught.value.diag.sqlstate == "PV002", (call, caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "chunk < now()",
        "chunk < current_date AND chunk < current_timestamp AND chunk::time < localtime",
        "chunk > current_date - 10000 + interval '1 day' * 2",
        "chunk > now() - make_interval(years => 99)",
        "chunk < make_timestamptz(2030, 1, 1, 0, 0, 0) AND chunk < make_date(2030, 1, 1)",
        "chunk < to_timestamp(1e10) AND chunk > to_date('2020', 'YYYY')",
        "age(now()) > '-1 day'::interval OR v > 1",
        "plate IN (lower('X') || upper('y'), concat('a', 1, now()), format('%s', 1))",
        "plate IN (current_setting('TimeZone'), current_setting('app.none', true), 'x')",
        "plate = ANY (string_to_array('a,b', ',')) OR v = ANY ('{1,2}'::int[])",
        "v > '1'::float8 + 1::numeric AND size = 'small'::text::event_size",
        "size >= enum_first('small'::event_size) AND size IN ('small', 'large')",
        "plate = substring('abc' from 2) OR plate LIKE replace('a%', 'a', 'b')",
    ],
)
def test_what_people_write_is_still_folded(evil: Pair, condition: str) -> None:
    with evil.connect("a") as connection:
        connection.execute(f"EXPLAIN SELECT count(v) FROM t WHERE {condition}".encode())
