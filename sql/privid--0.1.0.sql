-- The SQL surface of privid 0.1.0: library functions, roles, tables that hold state, views that show it.

\echo Use "CREATE EXTENSION privid" to load this file. \quit

-- ---------------------------------------------------------------------------------------------------------------------
-- Roles. They belong to the whole cluster, so a second database finds them made already.
-- ---------------------------------------------------------------------------------------------------------------------

DO $$
BEGIN
  IF pg_catalog.to_regrole('privid_owner') IS NULL THEN
    CREATE ROLE privid_owner NOLOGIN;
    COMMENT ON ROLE privid_owner IS 'may create cameras (foreign servers of privid)';
  END IF;
  IF pg_catalog.to_regrole('privid_analyst') IS NULL THEN
    CREATE ROLE privid_analyst NOLOGIN;
    COMMENT ON ROLE privid_analyst IS 'may upload executables and create foreign tables on cameras granted to it';
  END IF;
  IF pg_catalog.to_regrole('privid_engine') IS NULL THEN
    CREATE ROLE privid_engine NOLOGIN;
    COMMENT ON ROLE privid_engine IS 'the role of the privid engine, which keeps the ledger; give it LOGIN where the engine connects as it';
  END IF;
END
$$;

COMMENT ON SCHEMA privid IS 'differentially private answers about video';
GRANT USAGE ON SCHEMA privid TO PUBLIC;

-- ---------------------------------------------------------------------------------------------------------------------
-- Library functions
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION privid.fdw_handler() RETURNS fdw_handler
  AS 'MODULE_PATHNAME', 'privid_fdw_handler' LANGUAGE C STRICT;
COMMENT ON FUNCTION privid.fdw_handler() IS 'handler of the foreign-data wrapper privid';

CREATE FUNCTION privid.fdw_validator(text[], oid) RETURNS void
  AS 'MODULE_PATHNAME', 'privid_fdw_validator' LANGUAGE C STRICT;
COMMENT ON FUNCTION privid.fdw_validator(text[], oid) IS 'checks the options of cameras and of tables on them';

REVOKE EXECUTE ON FUNCTION privid.fdw_handler(), privid.fdw_validator(text[], oid) FROM PUBLIC;

CREATE FOREIGN DATA WRAPPER privid HANDLER privid.fdw_handler VALIDATOR privid.fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER privid IS 'a server is a camera, a table is a program run over its chunks';
GRANT USAGE ON FOREIGN DATA WRAPPER privid TO privid_owner;

-- Everybody may execute it because the planner puts it into the plans of analysts; called by hand it refuses.
CREATE FUNCTION privid.release() RETURNS SETOF record
  AS 'MODULE_PATHNAME', 'privid_release' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION privid.release() IS 'stands in a plan for a release; not to be called directly';

CREATE FUNCTION privid.library_version() RETURNS text
  AS 'MODULE_PATHNAME', 'privid_library_version' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION privid.library_version() IS 'version of the loaded library';

CREATE FUNCTION privid.allowed_calls(OUT kind text, OUT identity text, OUT total text) RETURNS SETOF record
  AS 'MODULE_PATHNAME', 'privid_allowed_calls' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION privid.allowed_calls() IS 'functions, operators and aggregates that a release may contain; total names what is evaluated in the place of one that could raise';

CREATE FUNCTION privid.check_definition() RETURNS event_trigger
  AS 'MODULE_PATHNAME', 'privid_check_definition' LANGUAGE C;
COMMENT ON FUNCTION privid.check_definition() IS 'asks the engine whether a new or altered camera or table makes sense';
REVOKE EXECUTE ON FUNCTION privid.check_definition() FROM PUBLIC;

CREATE EVENT TRIGGER privid_check_definition ON ddl_command_end
  WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE')
  EXECUTE FUNCTION privid.check_definition();
COMMENT ON EVENT TRIGGER privid_check_definition IS 'definitions of cameras and tables are checked when they are made';

-- Clamping. A NULL or NaN must become the lower end, hence CALLED ON NULL INPUT.
CREATE FUNCTION privid.range(value float8, low float8, high float8) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_range' LANGUAGE C IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT;
COMMENT ON FUNCTION privid.range(float8, float8, float8) IS 'value clamped to [low, high] and put on a public grid; NULL and NaN give low';

CREATE FUNCTION public.range(value float8, low float8, high float8) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_range' LANGUAGE C IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT;
COMMENT ON FUNCTION public.range(float8, float8, float8) IS 'same as privid.range';

-- Version 0.1.0 made total arithmetic here. The library has none any more, and 0.4.0 drops what an earlier library had.

-- ---------------------------------------------------------------------------------------------------------------------
-- Bins of time, reachable with and without the schema's name
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION privid.minute(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('minute', $1);
CREATE FUNCTION privid.hour(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('hour', $1);
CREATE FUNCTION privid.day(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('day', $1);
CREATE FUNCTION privid.week(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('week', $1);
CREATE FUNCTION privid.month(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('month', $1);
CREATE FUNCTION privid.year(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('year', $1);
-- 2000-01-03 is a Monday, so that bins of a week begin as week() does in UTC.
CREATE FUNCTION privid.bin(timestamptz, interval) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_bin($2, $1, timestamptz '2000-01-03 00:00+00');

COMMENT ON FUNCTION privid.minute(timestamptz) IS 'first moment of the minute';
COMMENT ON FUNCTION privid.hour(timestamptz) IS 'first moment of the hour';
COMMENT ON FUNCTION privid.day(timestamptz) IS 'first moment of the day in the session''s time zone';
COMMENT ON FUNCTION privid.week(timestamptz) IS 'first moment of the week (Monday) in the session''s time zone';
COMMENT ON FUNCTION privid.month(timestamptz) IS 'first moment of the month in the session''s time zone';
COMMENT ON FUNCTION privid.year(timestamptz) IS 'first moment of the year in the session''s time zone';
COMMENT ON FUNCTION privid.bin(timestamptz, interval) IS 'first moment of the bin of that width, counted from Monday 2000-01-03 UTC';

CREATE FUNCTION public.minute(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('minute', $1);
CREATE FUNCTION public.hour(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('hour', $1);
CREATE FUNCTION public.day(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('day', $1);
CREATE FUNCTION public.week(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('week', $1);
CREATE FUNCTION public.month(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('month', $1);
CREATE FUNCTION public.year(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_trunc('year', $1);
CREATE FUNCTION public.bin(timestamptz, interval) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE
  RETURN pg_catalog.date_bin($2, $1, timestamptz '2000-01-03 00:00+00');

COMMENT ON FUNCTION public.minute(timestamptz) IS 'same as privid.minute';
COMMENT ON FUNCTION public.hour(timestamptz) IS 'same as privid.hour';
COMMENT ON FUNCTION public.day(timestamptz) IS 'same as privid.day';
COMMENT ON FUNCTION public.week(timestamptz) IS 'same as privid.week';
COMMENT ON FUNCTION public.month(timestamptz) IS 'same as privid.month';
COMMENT ON FUNCTION public.year(timestamptz) IS 'same as privid.year';
COMMENT ON FUNCTION public.bin(timestamptz, interval) IS 'same as privid.bin';

-- ---------------------------------------------------------------------------------------------------------------------
-- Recordings: the unit of account is the footage by its content, whatever servers are made over it
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE privid.recordings (
  id            bigserial PRIMARY KEY,
  k             bigint NOT NULL CHECK (k >= 1),
  r_star        bigint NOT NULL DEFAULT 0 CHECK (r_star >= 0),
  registered_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE privid.recordings IS 'footage that has a budget; rows are never removed, so that dropping a camera refills nothing';
COMMENT ON COLUMN privid.recordings.k IS 'unit of account: the ledger holds what a camera of this K is charged';
COMMENT ON COLUMN privid.recordings.r_star IS 'longest protected segment, in frames, that any camera over this footage ever declared; grows only';

CREATE TABLE privid.recording_files (
  sha256      text PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  recording   bigint NOT NULL REFERENCES privid.recordings,
  first_frame bigint NOT NULL,
  frames      bigint NOT NULL CHECK (frames > 0),
  UNIQUE (recording, first_frame)
);
COMMENT ON TABLE privid.recording_files IS 'which file, known by its content, lies where on the timeline of a recording';
COMMENT ON COLUMN privid.recording_files.first_frame IS 'number of the file''s first frame on the recording''s timeline; may be negative when older footage came later';

CREATE TABLE privid.footage (
  camera        text PRIMARY KEY,
  digest        text NOT NULL,
  recording     bigint NOT NULL REFERENCES privid.recordings,
  shift         bigint NOT NULL,
  frames        bigint NOT NULL,
  fps_numerator bigint NOT NULL CHECK (fps_numerator > 0),
  fps_denominator bigint NOT NULL CHECK (fps_denominator > 0),
  width         integer NOT NULL,
  height        integer NOT NULL,
  starts        timestamptz NOT NULL,
  rho           numeric NOT NULL,
  k             bigint NOT NULL,
  epsilon       numeric NOT NULL
);
COMMENT ON TABLE privid.footage IS 'what the engine last found behind each camera, for the views; no budget is decided from it';
COMMENT ON COLUMN privid.footage.digest IS 'SHA-256 of the list of files and their places';
COMMENT ON COLUMN privid.footage.shift IS 'camera''s frame number + shift = recording''s frame number';
COMMENT ON COLUMN privid.footage.rho IS 'seconds';

-- ---------------------------------------------------------------------------------------------------------------------
-- Ledger: a step function of the possible first frame of a protected segment
-- ---------------------------------------------------------------------------------------------------------------------

-- A row says: from this frame up to the next row's, so much is spent. Ranges can therefore neither overlap nor leave gaps.
CREATE TABLE privid.ledger (
  recording bigint NOT NULL REFERENCES privid.recordings,
  frame     bigint NOT NULL,
  spent     numeric NOT NULL CHECK (spent >= 0 AND spent < 'Infinity'),
  PRIMARY KEY (recording, frame)
);
COMMENT ON TABLE privid.ledger IS 'budget spent, as a step function; neighbouring steps differ, before the first and after the last it is 0';
COMMENT ON COLUMN privid.ledger.frame IS 'first frame of a protected segment, on the recording''s timeline; the step holds up to the next row''s frame';
COMMENT ON COLUMN privid.ledger.spent IS 'sum of the charges, in the recording''s unit of account';

CREATE TABLE privid.release_log (
  id          bigserial PRIMARY KEY,
  at          timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  role        text NOT NULL,
  role_oid    oid,
  query       text NOT NULL,
  canonical   text NOT NULL,
  reuse_key   text NOT NULL,
  epsilon     numeric NOT NULL CHECK (epsilon >= 0),
  mechanism   text NOT NULL,
  outputs     jsonb NOT NULL,
  state       text NOT NULL DEFAULT 'charged' CHECK (state IN ('charged', 'answered', 'failed')),
  answer      jsonb,
  answered_at timestamptz,
  duration    interval,
  CHECK ((state = 'answered') = (answer IS NOT NULL))
);
COMMENT ON TABLE privid.release_log IS 'every release that was charged, whether or not an answer left';
COMMENT ON COLUMN privid.release_log.role_oid IS 'the role''s number at that time, for audits; the name decides who sees the row, so that a restored dump keeps its readers';
COMMENT ON COLUMN privid.release_log.reuse_key IS 'SHA-256 of all that makes two releases identical';
COMMENT ON COLUMN privid.release_log.outputs IS 'one object per aggregate: label, type, step, sensitivity, scale, epsilon, error95; numbers as exact text';
COMMENT ON COLUMN privid.release_log.answer IS 'the noisy rows, exactly as they were returned';
CREATE INDEX release_log_reuse ON privid.release_log (reuse_key, id) WHERE state = 'answered';
CREATE INDEX release_log_role ON privid.release_log (role);

CREATE TABLE privid.release_charges (
  release    bigint NOT NULL REFERENCES privid.release_log,
  claim      integer NOT NULL,
  camera     text NOT NULL,
  owner      text NOT NULL,
  server_oid oid,
  recording  bigint NOT NULL REFERENCES privid.recordings,
  shift      bigint NOT NULL,
  frames     int8multirange NOT NULL,
  r_star     bigint NOT NULL,
  epsilon    numeric NOT NULL CHECK (epsilon >= 0),
  charge     numeric NOT NULL CHECK (charge >= 0),
  PRIMARY KEY (release, claim)
);
COMMENT ON TABLE privid.release_charges IS 'what a release read of each camera, and what that cost';
COMMENT ON COLUMN privid.release_charges.frames IS 'frames read, numbered as the camera does (recording''s number = this + shift)';
COMMENT ON COLUMN privid.release_charges.r_star IS 'the recording''s longest protected segment at that time';
COMMENT ON COLUMN privid.release_charges.epsilon IS 'charge in the camera''s own terms';
COMMENT ON COLUMN privid.release_charges.charge IS 'the same in the recording''s unit of account';
CREATE INDEX release_charges_recording ON privid.release_charges (recording);

-- ---------------------------------------------------------------------------------------------------------------------
-- Executables, each seen by its owner only
-- ---------------------------------------------------------------------------------------------------------------------

-- The checks stand on the table, so that they hold for whoever writes to it without privid.upload.
CREATE TABLE privid.executable_store (
  owner       name NOT NULL DEFAULT current_user,
  name        text NOT NULL CHECK (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$'),
  content     bytea NOT NULL CHECK (pg_catalog.octet_length(content) BETWEEN 1 AND 67108864),
  sha256      text NOT NULL GENERATED ALWAYS AS (pg_catalog.encode(pg_catalog.sha256(content), 'hex')) STORED,
  uploaded_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  PRIMARY KEY (owner, name)
);
COMMENT ON TABLE privid.executable_store IS 'files of analysts, by content';
COMMENT ON COLUMN privid.executable_store.owner IS 'role that uploaded it; row-level security shows it to that role alone';

ALTER TABLE privid.executable_store ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON privid.executable_store USING (owner = current_user) WITH CHECK (owner = current_user);
CREATE POLICY engine ON privid.executable_store FOR SELECT TO privid_engine USING (true);
COMMENT ON POLICY own ON privid.executable_store IS 'a role reads and writes its own executables';
COMMENT ON POLICY engine ON privid.executable_store IS 'the engine reads all';

CREATE FUNCTION privid.upload(name text, content bytea) RETURNS text
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  digest text;
  source text;
BEGIN
  IF name IS NULL OR name !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid name for an executable: "%s"', left(name, 100)),
      HINT = 'Use letters, digits, underscore, dot and hyphen, at most 63, beginning with a letter or an underscore.';
  END IF;
  IF content IS NULL OR octet_length(content) = 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" is empty', name),
      HINT = 'Pass the content of the file.';
  END IF;
  IF octet_length(content) > 67108864 THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008',
      MESSAGE = format('executable "%s" has %s bytes, more than the limit of 67108864', name, octet_length(content)),
      HINT = 'Upload a smaller file.';
  END IF;
  IF substring(content FROM 1 FOR 4) <> '\x7f454c46'::bytea AND substring(content FROM 1 FOR 2) <> '\x2321'::bytea THEN
    BEGIN
      source := convert_from(content, 'UTF8');
    EXCEPTION WHEN data_exception THEN
      source := '';
    END;
    IF position('process' IN source) = 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" is neither a program nor a Python module', name),
        DETAIL = 'A program begins with an ELF header or with #!, a Python module defines process(chunk).';
    END IF;
  END IF;
  INSERT INTO privid.executable_store AS s (owner, name, content) VALUES (current_user, name, content)
    ON CONFLICT ON CONSTRAINT executable_store_pkey DO UPDATE SET content = excluded.content, uploaded_at = now()
    RETURNING s.sha256 INTO digest;
  RETURN digest;
END
$$;
COMMENT ON FUNCTION privid.upload(text, bytea) IS 'stores an executable under a name of the current role, in place of an earlier one; returns its SHA-256';

CREATE FUNCTION privid.remove(name text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM privid.executable_store s WHERE s.owner = current_user AND s.name = name;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" does not exist', name),
      HINT = 'The view privid.executables shows yours.';
  END IF;
END
$$;
COMMENT ON FUNCTION privid.remove(text) IS 'removes an executable of the current role';

CREATE VIEW privid.executables WITH (security_invoker = true, security_barrier = true) AS
  SELECT s.name, s.sha256, pg_catalog.octet_length(s.content) AS bytes, s.uploaded_at, s.owner
  FROM privid.executable_store s
  WHERE s.owner = current_user;
COMMENT ON VIEW privid.executables IS 'the current role''s executables';

-- ---------------------------------------------------------------------------------------------------------------------
-- Failures of programs, told to the camera's owner alone
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE privid.program_failures (
  camera  text NOT NULL,
  owner   text NOT NULL,
  outcome text NOT NULL,
  count   bigint NOT NULL,
  PRIMARY KEY (camera, owner, outcome)
);
COMMENT ON TABLE privid.program_failures IS 'how many runs ended in which way; every outcome is written every time, so that statistics of this table tell nothing';

CREATE VIEW privid.failures WITH (security_barrier = true) AS
  SELECT f.camera, f.outcome, f.count
  FROM privid.program_failures f
  JOIN pg_catalog.pg_roles o ON o.rolname = f.owner::name
  WHERE pg_catalog.pg_has_role(current_user, o.oid, 'USAGE');
COMMENT ON VIEW privid.failures IS 'how many runs of programs over the current role''s cameras ended in which way';

-- ---------------------------------------------------------------------------------------------------------------------
-- Views for everybody
-- ---------------------------------------------------------------------------------------------------------------------

-- Options are text that another program may have written: what cannot be read is NULL, never an error in a view.
CREATE FUNCTION privid.read_number(text) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN CASE
    WHEN $1 ~ '^\s*[+-]?\d{1,255}(\.\d{1,255})?([eE][+-]?\d{1,3})?\s*$' THEN pg_catalog.btrim($1)::numeric
    WHEN $1 ~ '^\s*[+-]?\d{1,255}/0*[1-9]\d{0,255}\s*$' THEN pg_catalog.trim_scale(
      pg_catalog.div(pg_catalog.split_part(pg_catalog.btrim($1), '/', 1)::numeric * 1e30,
                     pg_catalog.split_part(pg_catalog.btrim($1), '/', 2)::numeric) * 1e-30)
  END;
COMMENT ON FUNCTION privid.read_number(text) IS 'a decimal number or a quotient (cut at 30 decimals); NULL when the text is neither';

CREATE FUNCTION privid.read_seconds(text) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN privid.read_number(pg_catalog.regexp_replace($1, '\s*[a-z]+\s*$', '')) *
    CASE coalesce(pg_catalog.substring($1, '([a-z]+)\s*$'), 's')
      WHEN 'us' THEN 0.000001 WHEN 'ms' THEN 0.001 WHEN 's' THEN 1 WHEN 'sec' THEN 1
      WHEN 'min' THEN 60 WHEN 'm' THEN 60 WHEN 'h' THEN 3600 WHEN 'd' THEN 86400
    END;
COMMENT ON FUNCTION privid.read_seconds(text) IS 'seconds of a duration such as 49s or 250ms; NULL when the text is none';

CREATE FUNCTION privid.moment(starts timestamptz, frame bigint, fps_numerator bigint, fps_denominator bigint) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN starts + pg_catalog.round(frame::numeric * 1000000 * fps_denominator / fps_numerator)::float8 * interval '1 microsecond';
COMMENT ON FUNCTION privid.moment(timestamptz, bigint, bigint, bigint) IS 'when a frame was filmed, to the microsecond';

CREATE VIEW privid.cameras WITH (security_barrier = true) AS
  SELECT s.srvname::text AS camera,
         pg_catalog.pg_get_userbyid(s.srvowner)::text AS owner,
         o.source,
         f.starts,
         privid.moment(f.starts, f.frames, f.fps_numerator, f.fps_denominator) AS ends,
         pg_catalog.round(f.fps_numerator::numeric / f.fps_denominator, 6) AS fps,
         f.frames,
         f.width,
         f.height,
         -- at most some thousand years, since an interval that overflows would break the view for everybody
         least(coalesce(privid.read_seconds(o.rho), f.rho), 1e11)::float8 * interval '1 second' AS rho,
         coalesce(privid.read_number(o.k)::bigint, f.k) AS k,
         pg_catalog.trim_scale(coalesce(privid.read_number(o.epsilon), f.epsilon)) AS epsilon
  FROM pg_catalog.pg_foreign_server s
  JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwname = 'privid'
  CROSS JOIN LATERAL (
    SELECT pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'source') AS source,
           pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'rho') AS rho,
           pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'k' AND x.option_value ~ '^\s*\d{1,18}\s*$') AS k,
           pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'epsilon') AS epsilon
    FROM pg_catalog.pg_options_to_table(s.srvoptions) x
  ) o
  LEFT JOIN privid.footage f ON f.camera = s.srvname::text;
COMMENT ON VIEW privid.cameras IS 'cameras and what their owners promise to the people in front of them; times and frames appear once the engine has seen the footage';

CREATE VIEW privid.budget WITH (security_barrier = true) AS
  SELECT c.camera,
         privid.moment(f.starts, step.first - f.shift, f.fps_numerator, f.fps_denominator) AS begins,
         privid.moment(f.starts, step.next - f.shift, f.fps_numerator, f.fps_denominator) AS ends,
         pg_catalog.int8range(step.first - f.shift, step.next - f.shift) AS frames,
         pg_catalog.trim_scale(CASE WHEN c.k = r.k THEN greatest(c.epsilon - step.spent, 0)
                                    ELSE greatest(c.epsilon - step.spent * c.k / r.k, 0) END) AS remaining
  FROM privid.cameras c
  JOIN privid.footage f ON f.camera = c.camera
  JOIN privid.recordings r ON r.id = f.recording
  CROSS JOIN LATERAL (SELECT f.shift - greatest(r.r_star, 1) + 1 AS first, f.shift + f.frames AS next) line
  CROSS JOIN LATERAL (
    SELECT p.first, coalesce(pg_catalog.lead(p.first) OVER (ORDER BY p.first), line.next) AS next, p.spent
    FROM (
      SELECT line.first, coalesce((SELECT l.spent FROM privid.ledger l
                                   WHERE l.recording = r.id AND l.frame <= line.first
                                   ORDER BY l.frame DESC LIMIT 1), 0) AS spent
      UNION ALL
      SELECT l.frame, l.spent FROM privid.ledger l
      WHERE l.recording = r.id AND l.frame > line.first AND l.frame < line.next
    ) p
  ) step;
COMMENT ON VIEW privid.budget IS 'the whole timeline of each camera, as ranges with what remains';
COMMENT ON COLUMN privid.budget.frames IS 'where a protected segment could begin; the stretch before the first frame is the margin';
COMMENT ON COLUMN privid.budget.remaining IS 'epsilon that releases touching a segment which begins there can still consume';

CREATE VIEW privid.releases WITH (security_barrier = true) AS
  SELECT l.id, l.at, l.role AS who, c.camera, l.query, c.epsilon,
         l.mechanism,
         ARRAY(SELECT privid.read_number(x.output ->> 'scale')
               FROM pg_catalog.jsonb_array_elements(l.outputs) WITH ORDINALITY x(output, n) ORDER BY x.n) AS noise_scale,
         c.frames, l.answer, l.state, l.answered_at, l.duration, l.canonical, l.outputs
  FROM privid.release_log l
  JOIN privid.release_charges c ON c.release = l.id
  LEFT JOIN pg_catalog.pg_roles then_owner ON then_owner.rolname = c.owner::name
  LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = c.server_oid AND s.srvname = c.camera::name
  WHERE l.role = current_user::text
     OR pg_catalog.pg_has_role(current_user, then_owner.oid, 'USAGE')
     OR pg_catalog.pg_has_role(current_user, s.srvowner, 'USAGE')
     OR (SELECT me.rolsuper FROM pg_catalog.pg_roles me WHERE me.rolname = current_user);
COMMENT ON VIEW privid.releases IS 'releases: an analyst''s own, and all those of a camera for its owner';

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights
-- ---------------------------------------------------------------------------------------------------------------------

GRANT SELECT ON privid.cameras, privid.budget, privid.releases, privid.failures TO PUBLIC;
GRANT SELECT ON privid.executables TO privid_analyst, privid_owner;

GRANT SELECT, DELETE, INSERT (owner, name, content), UPDATE (content, uploaded_at)
  ON privid.executable_store TO privid_analyst, privid_owner;
REVOKE EXECUTE ON FUNCTION privid.upload(text, bytea), privid.remove(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.upload(text, bytea), privid.remove(text) TO privid_analyst, privid_owner;

-- The engine cannot remove a recording, a release or a charge; it only adds to them. The ledger's rows it also removes, to merge steps.
GRANT SELECT, INSERT, UPDATE ON privid.footage, privid.program_failures TO privid_engine;
GRANT SELECT, INSERT, UPDATE (r_star) ON privid.recordings TO privid_engine;
GRANT SELECT, INSERT ON privid.recording_files, privid.release_charges TO privid_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON privid.ledger TO privid_engine;
GRANT SELECT, INSERT, UPDATE (state, answer, answered_at, duration) ON privid.release_log TO privid_engine;
GRANT SELECT ON privid.executable_store TO privid_engine;
GRANT USAGE ON SEQUENCE privid.recordings_id_seq, privid.release_log_id_seq TO privid_engine;

-- ---------------------------------------------------------------------------------------------------------------------
-- A dump keeps the state, not only the command that made the extension
-- ---------------------------------------------------------------------------------------------------------------------

SELECT pg_catalog.pg_extension_config_dump('privid.recordings', '');
SELECT pg_catalog.pg_extension_config_dump('privid.recordings_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('privid.recording_files', '');
SELECT pg_catalog.pg_extension_config_dump('privid.footage', '');
SELECT pg_catalog.pg_extension_config_dump('privid.ledger', '');
SELECT pg_catalog.pg_extension_config_dump('privid.release_log', '');
SELECT pg_catalog.pg_extension_config_dump('privid.release_log_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('privid.release_charges', '');
SELECT pg_catalog.pg_extension_config_dump('privid.executable_store', '');
SELECT pg_catalog.pg_extension_config_dump('privid.program_failures', '');
