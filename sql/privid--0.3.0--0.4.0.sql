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

-- EXPLAIN ANALYZE tells how many rows each step of a plan has, also those below a view, and PostgreSQL evaluates conditions there that
-- cannot raise: whoever may read a view could count rows that it does not show. Rows that are not for everybody come from a function,
-- whose plan nobody sees.
CREATE FUNCTION privid.is_restricted() RETURNS boolean AS 'MODULE_PATHNAME', 'privid_is_restricted' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION privid.is_restricted() IS 'whether code of a table''s owner runs in a command of another role, such as VACUUM';

CREATE FUNCTION privid.asker() RETURNS name LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF privid.is_restricted() THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'this cannot be asked within a command of another role';
  END IF;
  RETURN privid.invoker()::name;
END
$$;
COMMENT ON FUNCTION privid.asker() IS 'privid.invoker(), where it is he who asks: code of a table''s owner that runs in somebody else''s VACUUM has no answer';

CREATE FUNCTION privid.read_failures(OUT camera text, OUT outcome text, OUT count bigint) RETURNS SETOF record
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
    SELECT f.camera, f.outcome, f.count
    FROM privid.program_failures f
    JOIN pg_roles o ON o.rolname = f.owner::name
    WHERE pg_has_role(privid.asker(), o.oid, 'USAGE')
    ORDER BY f.camera, f.outcome;
END
$$;
COMMENT ON FUNCTION privid.read_failures() IS 'the rows of privid.failures for whoever asks';

CREATE OR REPLACE VIEW privid.failures AS SELECT f.camera, f.outcome, f.count FROM privid.read_failures() f;
ALTER VIEW privid.failures RESET (security_barrier);

CREATE FUNCTION privid.read_releases(OUT id bigint, OUT at timestamptz, OUT who text, OUT camera text, OUT query text, OUT epsilon numeric,
  OUT mechanism text, OUT noise_scale numeric[], OUT frames int8multirange, OUT answer jsonb, OUT state text, OUT answered_at timestamptz,
  OUT duration interval, OUT canonical text, OUT outputs jsonb, OUT share text, OUT rule text) RETURNS SETOF record
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me name := privid.asker();
BEGIN
  RETURN QUERY
    SELECT l.id, l.at, l.role, c.camera, l.query, c.epsilon, l.mechanism,
           ARRAY(SELECT privid.read_number(x.output ->> 'scale')
                 FROM jsonb_array_elements(l.outputs) WITH ORDINALITY x(output, n) ORDER BY x.n),
           c.frames, l.answer, l.state, l.answered_at, l.duration, l.canonical, l.outputs, c.share,
           CASE WHEN c.charge = 0 THEN 'none' WHEN c.uses IS NULL THEN 'simple' ELSE 'exact' END
    FROM privid.release_log l
    JOIN privid.release_charges c ON c.release = l.id
    LEFT JOIN pg_roles then_owner ON then_owner.rolname = c.owner::name
    LEFT JOIN pg_foreign_server s ON s.oid = c.server_oid AND s.srvname = c.camera::name
    WHERE l.role = me::text
       OR pg_has_role(me, then_owner.oid, 'USAGE')
       OR pg_has_role(me, s.srvowner, 'USAGE')
       OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = me);
END
$$;
COMMENT ON FUNCTION privid.read_releases() IS 'the rows of privid.releases for whoever asks';

CREATE OR REPLACE VIEW privid.releases AS
  SELECT r.id, r.at, r.who, r.camera, r.query, r.epsilon, r.mechanism, r.noise_scale, r.frames, r.answer, r.state, r.answered_at,
         r.duration, r.canonical, r.outputs, r.share, r.rule
  FROM privid.read_releases() r;
ALTER VIEW privid.releases RESET (security_barrier);

-- Whoever may delete rows of a table may also lock all of it.
CREATE OR REPLACE FUNCTION privid.remove(name text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM privid.executable_store s WHERE s.owner = privid.asker() AND s.name = name;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" does not exist', name),
      HINT = 'The view privid.executables shows yours.';
  END IF;
END
$$;
CREATE OR REPLACE FUNCTION privid.detach(executable text, name text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM privid.attachment_store s WHERE s.owner = privid.asker() AND s.executable = executable AND s.name = name;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" has no file "%s"', executable, name),
      HINT = 'The view privid.attachments shows yours.';
  END IF;
END
$$;
REVOKE DELETE ON privid.executable_store, privid.attachment_store FROM privid_analyst, privid_owner;

-- Advisory locks are anybody's. Whoever writes to a chain of privid.history locks a row that nobody else can.
CREATE TABLE privid.history_chains (chain text PRIMARY KEY);
COMMENT ON TABLE privid.history_chains IS 'a row for each chain of privid.history, to be locked while an entry is appended';
INSERT INTO privid.history_chains VALUES ('engine'), ('owners');

CREATE FUNCTION privid.hold_chain(chain text, wait boolean) RETURNS boolean
  LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  IF wait THEN
    PERFORM FROM privid.history_chains c WHERE c.chain = chain FOR UPDATE;
  ELSE
    PERFORM FROM privid.history_chains c WHERE c.chain = chain FOR UPDATE SKIP LOCKED;
  END IF;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION privid.hold_chain(text, boolean) IS 'locks a chain of privid.history until the transaction ends; false if another holds it and nobody waits';
REVOKE EXECUTE ON FUNCTION privid.hold_chain(text, boolean) FROM PUBLIC;

-- The functions are otherwise as they were.
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('privid.write_history(text, text, text, text, jsonb)'::regprocedure),
    $x$pg_advisory_xact_lock(hashtextextended('privid.history ' || chain, 0))$x$, $x$privid.hold_chain(chain, true)$x$);
  EXECUTE replace(replace(pg_get_functiondef('privid.reconcile_cameras(text, boolean)'::regprocedure),
    'pg_advisory_xact_lock(owners)', $x$privid.hold_chain('owners', true)$x$),
    'pg_try_advisory_xact_lock(owners)', $x$privid.hold_chain('owners', false)$x$);
END
$$;

-- A cast to text could be anybody's.
CREATE FUNCTION privid.label(anyenum) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
  AS 'SELECT pg_catalog.textin(pg_catalog.enum_out($1))';
COMMENT ON FUNCTION privid.label(anyenum) IS 'an enum''s label as text, whatever casts its type has';

-- A condition on an index is evaluated before row security is; one on this expression is not.
DROP INDEX privid.attachment_store_sha256;
CREATE INDEX attachment_store_sha256 ON privid.attachment_store ((sha256 || ''));
