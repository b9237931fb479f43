\echo Use "ALTER EXTENSION privid UPDATE TO '0.4.0'" to load this file. \quit

-- Releases are computed in the engine's own PostgreSQL; what was evaluated there in the place of PostgreSQL's functions is no longer
-- needed here.
DROP FUNCTION privid.total_add(float8, float8);
DROP FUNCTION privid.total_sub(float8, float8);
DROP FUNCTION privid.total_mul(float8, float8);
DROP FUNCTION privid.total_div(float8, float8);
DROP FUNCTION privid.total_sqrt(float8);
DROP FUNCTION privid.total_ln(float8);
DROP FUNCTION privid.total_log(float8);
DROP FUNCTION privid.total_exp(float8);
DROP FUNCTION privid.total_power(float8, float8);
DROP FUNCTION privid.total_add(int4, int4);
DROP FUNCTION privid.total_add(int4, int8);
DROP FUNCTION privid.total_add(int8, int4);
DROP FUNCTION privid.total_add(int8, int8);
DROP FUNCTION privid.total_add(numeric, numeric);
DROP FUNCTION privid.total_sub(int4, int4);
DROP FUNCTION privid.total_sub(int4, int8);
DROP FUNCTION privid.total_sub(int8, int4);
DROP FUNCTION privid.total_sub(int8, int8);
DROP FUNCTION privid.total_sub(numeric, numeric);
DROP FUNCTION privid.total_mul(int4, int4);
DROP FUNCTION privid.total_mul(int4, int8);
DROP FUNCTION privid.total_mul(int8, int4);
DROP FUNCTION privid.total_mul(int8, int8);
DROP FUNCTION privid.total_mul(numeric, numeric);
DROP FUNCTION privid.total_div(int4, int4);
DROP FUNCTION privid.total_div(int4, int8);
DROP FUNCTION privid.total_div(int8, int4);
DROP FUNCTION privid.total_div(int8, int8);
DROP FUNCTION privid.total_div(numeric, numeric);
DROP FUNCTION privid.total_mod(int4, int4);
DROP FUNCTION privid.total_neg(int4);
DROP FUNCTION privid.total_mod(int8, int8);
DROP FUNCTION privid.total_neg(int8);
DROP FUNCTION privid.total_mod(numeric, numeric);
DROP FUNCTION privid.total_float8(numeric);
DROP FUNCTION privid.total_int4(numeric);
DROP FUNCTION privid.total_int8(numeric);
DROP FUNCTION privid.total_int4(float8);
DROP FUNCTION privid.total_int8(float8);
DROP FUNCTION privid.total_int4(int8);
DROP FUNCTION privid.total_float8(text);
DROP FUNCTION privid.total_int4(text);
DROP FUNCTION privid.total_int8(text);
DROP FUNCTION privid.total_boolean(text);
DROP FUNCTION privid.total_concat(text, text);
DROP FUNCTION privid.total_substring(text, int4, int4);
DROP FUNCTION privid.total_split_part(text, text, int4);
DROP FUNCTION privid.total_sub(timestamptz, timestamptz);
DROP FUNCTION privid.total_extract(text, interval);

DROP FUNCTION privid.allowed_calls();
CREATE FUNCTION privid.allowed_calls(OUT kind text, OUT identity text) RETURNS SETOF record
  AS 'MODULE_PATHNAME', 'privid_allowed_calls' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION privid.allowed_calls() IS 'functions, operators, aggregates and casts that may stand in a release';

-- How runs ended is written after each release. PostgreSQL tells everybody how many bytes were logged (pg_stat_wal), and logs of a row
-- only what changed, of a page only what does not repeat: so this table is not logged at all. It is empty after a crash.
ALTER TABLE privid.program_failures SET UNLOGGED;
COMMENT ON TABLE privid.program_failures IS 'how many runs ended in which way; every outcome is written every time, and nothing of it logged, so that statistics of this table and of the log tell nothing';

-- ALTER TABLE alters foreign tables too, and those that inherit from the table that it names.
DROP EVENT TRIGGER privid_check_definition;
CREATE EVENT TRIGGER privid_check_definition ON ddl_command_end
  WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE', 'ALTER TABLE')
  EXECUTE FUNCTION privid.check_definition();
COMMENT ON EVENT TRIGGER privid_check_definition IS 'definitions of cameras and tables are checked when they are made';
