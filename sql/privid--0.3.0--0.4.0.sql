\echo Use "ALTER EXTENSION privid UPDATE TO '0.4.0'" to load this file. \quit

-- Releases are computed in the engine's own PostgreSQL; what was evaluated there in the place of PostgreSQL's functions is no longer
-- needed here.
DROP FUNCTION IF EXISTS privid.total_add(float8, float8);
DROP FUNCTION IF EXISTS privid.total_sub(float8, float8);
DROP FUNCTION IF EXISTS privid.total_mul(float8, float8);
DROP FUNCTION IF EXISTS privid.total_div(float8, float8);
DROP FUNCTION IF EXISTS privid.total_sqrt(float8);
DROP FUNCTION IF EXISTS privid.total_ln(float8);
DROP FUNCTION IF EXISTS privid.total_log(float8);
DROP FUNCTION IF EXISTS privid.total_exp(float8);
DROP FUNCTION IF EXISTS privid.total_power(float8, float8);
DROP FUNCTION IF EXISTS privid.total_add(int4, int4);
DROP FUNCTION IF EXISTS privid.total_add(int4, int8);
DROP FUNCTION IF EXISTS privid.total_add(int8, int4);
DROP FUNCTION IF EXISTS privid.total_add(int8, int8);
DROP FUNCTION IF EXISTS privid.total_add(numeric, numeric);
DROP FUNCTION IF EXISTS privid.total_sub(int4, int4);
DROP FUNCTION IF EXISTS privid.total_sub(int4, int8);
DROP FUNCTION IF EXISTS privid.total_sub(int8, int4);
DROP FUNCTION IF EXISTS privid.total_sub(int8, int8);
DROP FUNCTION IF EXISTS privid.total_sub(numeric, numeric);
DROP FUNCTION IF EXISTS privid.total_mul(int4, int4);
DROP FUNCTION IF EXISTS privid.total_mul(int4, int8);
DROP FUNCTION IF EXISTS privid.total_mul(int8, int4);
DROP FUNCTION IF EXISTS privid.total_mul(int8, int8);
DROP FUNCTION IF EXISTS privid.total_mul(numeric, numeric);
DROP FUNCTION IF EXISTS privid.total_div(int4, int4);
DROP FUNCTION IF EXISTS privid.total_div(int4, int8);
DROP FUNCTION IF EXISTS privid.total_div(int8, int4);
DROP FUNCTION IF EXISTS privid.total_div(int8, int8);
DROP FUNCTION IF EXISTS privid.total_div(numeric, numeric);
DROP FUNCTION IF EXISTS privid.total_mod(int4, int4);
DROP FUNCTION IF EXISTS privid.total_neg(int4);
DROP FUNCTION IF EXISTS privid.total_mod(int8, int8);
DROP FUNCTION IF EXISTS privid.total_neg(int8);
DROP FUNCTION IF EXISTS privid.total_mod(numeric, numeric);
DROP FUNCTION IF EXISTS privid.total_float8(numeric);
DROP FUNCTION IF EXISTS privid.total_int4(numeric);
DROP FUNCTION IF EXISTS privid.total_int8(numeric);
DROP FUNCTION IF EXISTS privid.total_int4(float8);
DROP FUNCTION IF EXISTS privid.total_int8(float8);
DROP FUNCTION IF EXISTS privid.total_int4(int8);
DROP FUNCTION IF EXISTS privid.total_float8(text);
DROP FUNCTION IF EXISTS privid.total_int4(text);
DROP FUNCTION IF EXISTS privid.total_int8(text);
DROP FUNCTION IF EXISTS privid.total_boolean(text);
DROP FUNCTION IF EXISTS privid.total_concat(text, text);
DROP FUNCTION IF EXISTS privid.total_substring(text, int4, int4);
DROP FUNCTION IF EXISTS privid.total_split_part(text, text, int4);
DROP FUNCTION IF EXISTS privid.total_sub(timestamptz, timestamptz);
DROP FUNCTION IF EXISTS privid.total_extract(text, interval);

DROP FUNCTION privid.allowed_calls();
CREATE FUNCTION privid.allowed_calls(OUT kind text, OUT identity text) RETURNS SETOF record
  AS 'MODULE_PATHNAME', 'privid_allowed_calls' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION privid.allowed_calls() IS 'functions, operators, aggregates and casts that may stand in a release';

-- How runs ended is written after each release. PostgreSQL tells everybody how many bytes were logged (pg_stat_wal), and logs of a row
-- only what changed, of a page only what does not repeat: so this table is not logged at all. It is empty after a crash.
ALTER TABLE privid.program_failures SET UNLOGGED;

-- They are kept by table and day, and begin anew: of which table and day those before were, nobody knows.
DELETE FROM privid.program_failures;
ALTER TABLE privid.program_failures DROP CONSTRAINT program_failures_pkey,
  ADD COLUMN role text NOT NULL, ADD COLUMN foreign_table text NOT NULL, ADD COLUMN day date NOT NULL,
  ADD PRIMARY KEY (camera, owner, role, foreign_table, day, outcome);
COMMENT ON COLUMN privid.program_failures.role IS 'whose table it is';
COMMENT ON COLUMN privid.program_failures.day IS 'on which the programs ran, in UTC';
COMMENT ON TABLE privid.program_failures IS 'how many runs ended in which way; every outcome is written every time, and nothing of it logged, so that statistics of this table and of the log tell nothing';

-- ALTER TABLE alters foreign tables too, and those that inherit from the table that it names.
DROP EVENT TRIGGER privid_check_definition;
CREATE EVENT TRIGGER privid_check_definition ON ddl_command_end
  WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE', 'ALTER TABLE')
  EXECUTE FUNCTION privid.check_definition();
COMMENT ON EVENT TRIGGER privid_check_definition IS 'definitions of cameras and tables are checked when they are made';

-- Who asks is the current role where a function was called, not the session's: SECURITY DEFINER code of another has none of the rights of
-- whoever called it. A function that decides by who asks, with rights of its own, is written in this language. Only a superuser can.
CREATE FUNCTION privid.call_handler() RETURNS language_handler AS 'MODULE_PATHNAME', 'privid_call_handler' LANGUAGE C;
COMMENT ON FUNCTION privid.call_handler() IS 'handler of the language privid';
REVOKE EXECUTE ON FUNCTION privid.call_handler() FROM PUBLIC;
CREATE LANGUAGE privid HANDLER privid.call_handler VALIDATOR pg_catalog.plpgsql_validator;
COMMENT ON LANGUAGE privid IS 'PL/pgSQL with the rights of the function''s owner, in which privid.invoker() is whoever called it';

-- Not parallel safe: a worker does not know it.
CREATE OR REPLACE FUNCTION privid.invoker() RETURNS text AS 'MODULE_PATHNAME', 'privid_invoker' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION privid.invoker() IS 'who asks: the current role, and inside a function of the language privid the one that called it';

CREATE OR REPLACE FUNCTION privid.is_restoring() RETURNS boolean LANGUAGE sql STABLE
  RETURN pg_catalog.current_setting('check_function_bodies') = 'off'
     AND (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = privid.invoker()::name);

-- EXPLAIN ANALYZE tells how many rows each step of a plan has, also those below a view, and PostgreSQL evaluates conditions there that
-- cannot raise: whoever may read a view could count rows that it does not show. Rows that are not for everybody come from a function,
-- whose plan nobody sees.
CREATE FUNCTION privid.read_failures(OUT camera text, OUT outcome text, OUT count bigint, OUT role text, OUT foreign_table text, OUT day date)
  RETURNS SETOF record
  LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
    SELECT f.camera, f.outcome, f.count, f.role, f.foreign_table, f.day
    FROM privid.program_failures f
    JOIN pg_roles o ON o.rolname = f.owner::name
    WHERE pg_has_role(privid.invoker()::name, o.oid, 'USAGE')
    ORDER BY f.camera, f.day, f.role, f.foreign_table, f.outcome;
END
$$;
COMMENT ON FUNCTION privid.read_failures() IS 'the rows of privid.failures for whoever asks';

CREATE OR REPLACE VIEW privid.failures AS
  SELECT f.camera, f.outcome, f.count, f.role, f.foreign_table, f.day FROM privid.read_failures() f;
COMMENT ON VIEW privid.failures IS 'how many runs of programs over the current role''s cameras ended in which way, by table and day';
ALTER VIEW privid.failures RESET (security_barrier);

-- What was answered to an analyst is no longer for the analyst who has lost the right to one of the cameras. A camera is found by what it
-- was, also when it has another name now; where that is gone, as after a restore, by its name, if it is the same owner's: anybody could take
-- the name. A restored database gives numbers anew, so that one with neither that name nor that owner is another camera.
CREATE FUNCTION privid.may_use(role text, camera text, server oid, owner text) RETURNS boolean LANGUAGE sql STABLE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT EXISTS (SELECT FROM pg_roles o WHERE o.rolname::text = $4 AND pg_has_role($1::name, o.oid, 'USAGE'))
      OR coalesce(has_server_privilege($1::name, coalesce((SELECT s.oid FROM pg_foreign_server s
                                                     WHERE s.oid = $3 AND (s.srvname::text = $2 OR pg_get_userbyid(s.srvowner)::text = $4)),
                                                    (SELECT s.oid FROM pg_foreign_server s
                                                     WHERE s.srvname::text = $2 AND pg_get_userbyid(s.srvowner)::text = $4)), 'USAGE'),
                  (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = $1::name))
$$;
COMMENT ON FUNCTION privid.may_use(text, text, oid, text) IS 'whether a role may use a camera that was once charged, or is the owner''s that it had then';
REVOKE EXECUTE ON FUNCTION privid.may_use(text, text, oid, text) FROM PUBLIC;

CREATE FUNCTION privid.read_releases(OUT id bigint, OUT at timestamptz, OUT who text, OUT camera text, OUT query text, OUT epsilon numeric,
  OUT mechanism text, OUT noise_scale numeric[], OUT frames int8multirange, OUT answer jsonb, OUT state text, OUT answered_at timestamptz,
  OUT duration interval, OUT canonical text, OUT outputs jsonb, OUT share text, OUT rule text) RETURNS SETOF record
  LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me name := privid.invoker();
BEGIN
  RETURN QUERY
    WITH lost AS MATERIALIZED (
      SELECT p.camera, p.server_oid, p.owner
      FROM (SELECT DISTINCT p.camera, p.server_oid, p.owner FROM privid.release_charges p) p
      WHERE privid.may_use(me::text, p.camera, p.server_oid, p.owner) IS NOT TRUE)
    SELECT l.id, l.at, l.role, c.camera, l.query, c.epsilon, l.mechanism,
           ARRAY(SELECT privid.read_number(x.output ->> 'scale')
                 FROM jsonb_array_elements(l.outputs) WITH ORDINALITY x(output, n) ORDER BY x.n),
           c.frames, CASE WHEN l.role <> me::text OR NOT EXISTS (
               SELECT FROM privid.release_charges x JOIN lost ON lost.camera = x.camera AND lost.owner = x.owner
                 AND lost.server_oid IS NOT DISTINCT FROM x.server_oid
               WHERE x.release = l.id) THEN l.answer END, l.state, l.answered_at, l.duration, l.canonical,
           l.outputs, c.share, CASE WHEN c.charge = 0 THEN 'none' WHEN c.uses IS NULL THEN 'simple' ELSE 'exact' END
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
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM privid.executable_store s WHERE s.owner = privid.invoker()::name AND s.name = name;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" does not exist', name),
      HINT = 'The view privid.executables shows yours.';
  END IF;
END
$$;
CREATE OR REPLACE FUNCTION privid.detach(executable text, name text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM privid.attachment_store s WHERE s.owner = privid.invoker()::name AND s.executable = executable AND s.name = name;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" has no file "%s"', executable, name),
      HINT = 'The view privid.attachments shows yours.';
  END IF;
END
$$;
REVOKE DELETE ON privid.executable_store, privid.attachment_store FROM privid_analyst, privid_owner;

-- Advisory locks are anybody's, and whoever appends to a chain holds it until his transaction ends: so each role has one of its own, and
-- nobody waits for anybody else. That of 'owners' is what was written before there were any.
CREATE TABLE privid.history_chains (chain text PRIMARY KEY, latest bigint, hash text);
COMMENT ON TABLE privid.history_chains IS 'a row for each chain of privid.history, with its latest entry, to be locked while one is appended';
INSERT INTO privid.history_chains SELECT DISTINCT ON (h.chain) h.chain, h.id, h.hash FROM privid.history h ORDER BY h.chain, h.id DESC;
SELECT pg_catalog.pg_extension_config_dump('privid.history_chains', '');

CREATE FUNCTION privid.hold_chain(chain text) RETURNS void
  LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO privid.history_chains (chain) VALUES (chain) ON CONFLICT DO NOTHING;
  PERFORM FROM privid.history_chains c WHERE c.chain = chain FOR UPDATE;
END
$$;
COMMENT ON FUNCTION privid.hold_chain(text) IS 'locks a chain of privid.history until the transaction ends';
REVOKE EXECUTE ON FUNCTION privid.hold_chain(text) FROM PUBLIC;

ALTER TABLE privid.history DROP CONSTRAINT history_chain_check;
ALTER TABLE privid.history ADD CONSTRAINT history_chain_check CHECK (chain IN ('owners', 'engine', 'unseen') OR starts_with(chain, 'by '));
COMMENT ON COLUMN privid.history.chain IS 'that of the role who made the entry, the engine''s, or that of changes nobody saw; owners: of versions before 0.4.0';
CREATE INDEX history_latest ON privid.history (chain, id);

CREATE OR REPLACE FUNCTION privid.write_history(chain text, who text, camera text, event text, details jsonb) RETURNS bigint
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  entry privid.history;
BEGIN
  IF chain = 'owners' THEN
    chain := 'by ' || who;
  END IF;
  PERFORM privid.hold_chain(chain);
  entry.id := nextval('privid.history_id_seq');
  entry.chain := chain;
  entry.at := clock_timestamp();
  entry.who := who;
  entry.camera := camera;
  entry.event := event;
  entry.details := coalesce(details, '{}');
  entry.previous := coalesce((SELECT h.hash FROM privid.history h WHERE h.chain = chain ORDER BY h.id DESC LIMIT 1), repeat('0', 64));
  entry.hash := privid.hash_history(entry);
  INSERT INTO privid.history SELECT entry.*;
  UPDATE privid.history_chains c SET latest = entry.id, hash = entry.hash WHERE c.chain = chain;
  RETURN entry.id;
END
$$;
COMMENT ON FUNCTION privid.write_history(text, text, text, text, jsonb) IS 'appends an entry to a chain of privid.history; what owners do, to that of whoever does it';

-- A command notes what it changed itself, which it has locked anyway: nobody waits for a command about something else, and what somebody
-- else changed is not told as his who comes next. What fires no trigger (REASSIGN OWNED) is noted as unseen.
ALTER TABLE privid.camera_state ADD COLUMN server_oid oid;
COMMENT ON COLUMN privid.camera_state.server_oid IS 'number of its server, by which a camera is known that is renamed; in a restored database not yet what it is';
UPDATE privid.camera_state k SET server_oid = s.oid FROM pg_catalog.pg_foreign_server s WHERE s.srvname::text = k.camera;

CREATE FUNCTION privid.note_dropped(camera text, chain text, who text) RETURNS void
  LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  kept privid.camera_state;
BEGIN
  DELETE FROM privid.camera_state k WHERE k.camera = camera RETURNING * INTO kept;
  IF FOUND THEN
    PERFORM privid.write_history(chain, who, camera, 'dropped', jsonb_build_object('owner', kept.owner, 'options', kept.options));
  END IF;
END
$$;
COMMENT ON FUNCTION privid.note_dropped(text, text, text) IS 'writes to privid.history that a camera was dropped';

CREATE FUNCTION privid.note_camera(server oid, chain text, who text) RETURNS void
  LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  made  record;
  kept  privid.camera_state;
BEGIN
  SELECT c.camera, c.owner, c.options INTO made
    FROM pg_foreign_server s JOIN privid.camera_definitions c ON c.camera = s.srvname::text WHERE s.oid = server;
  IF NOT FOUND THEN
    RETURN;  -- a server of another wrapper
  END IF;
  SELECT * INTO kept FROM privid.camera_state k WHERE k.camera = made.camera;
  IF kept.server_oid <> server AND kept.owner <> made.owner THEN  -- another role's that has its name
    PERFORM privid.note_dropped(made.camera, chain, who);
    kept := NULL;
  END IF;
  IF kept.camera IS NULL THEN
    SELECT * INTO kept FROM privid.camera_state k
      WHERE k.server_oid = server AND NOT EXISTS (SELECT FROM privid.camera_definitions c WHERE c.camera = k.camera);
    IF NOT FOUND THEN
      INSERT INTO privid.camera_state (camera, owner, options, server_oid) VALUES (made.camera, made.owner, made.options, server);
      PERFORM privid.write_history(chain, who, made.camera, 'created', jsonb_build_object('owner', made.owner, 'options', made.options));
      RETURN;
    END IF;
    UPDATE privid.camera_state k SET camera = made.camera WHERE k.camera = kept.camera;
    PERFORM privid.write_history(chain, who, made.camera, 'renamed', jsonb_build_object('from', kept.camera, 'to', made.camera));
  END IF;
  IF (made.owner, made.options) IS DISTINCT FROM (kept.owner, kept.options) THEN
    PERFORM privid.write_history(chain, who, made.camera, 'altered', (
      SELECT jsonb_object_agg(d.name, jsonb_build_object('from', d.before, 'to', d.after))
      FROM (SELECT coalesce(o.key, n.key) AS name, o.value AS before, n.value AS after
            FROM jsonb_each_text(kept.options) o FULL JOIN jsonb_each_text(made.options) n ON n.key = o.key
            WHERE o.value IS DISTINCT FROM n.value
            UNION ALL
            SELECT 'owner', kept.owner, made.owner WHERE made.owner <> kept.owner) d));
  END IF;
  IF (made.owner, made.options, server) IS DISTINCT FROM (kept.owner, kept.options, kept.server_oid) THEN
    UPDATE privid.camera_state k SET owner = made.owner, options = made.options, server_oid = server WHERE k.camera = made.camera;
  END IF;
END
$$;
COMMENT ON FUNCTION privid.note_camera(oid, text, text) IS 'writes to privid.history what the catalogs say of a camera and history does not know yet';

-- ---------------------------------------------------------------------------------------------------------------------
-- Promises (masks, regions, shares, consent) are of who made them, and count while that role owns the camera
-- ---------------------------------------------------------------------------------------------------------------------

-- A name can be taken, and a transaction can be committed long after the camera became another's. So a promise says whose it is and of
-- which server, and whoever reads promises reads those alone that the camera's owner of now has made.
CREATE VIEW privid.promisers AS
  SELECT s.srvname::text AS camera, pg_catalog.pg_get_userbyid(s.srvowner)::text AS owner, coalesce(k.server_oid, s.oid) AS server_oid
  FROM pg_catalog.pg_foreign_server s
  LEFT JOIN privid.camera_state k ON k.camera = s.srvname::text;
COMMENT ON VIEW privid.promisers IS 'whose promises count now, of each camera';
COMMENT ON COLUMN privid.promisers.server_oid IS 'as history knows it: a restored database has what the dump says, there and with each promise, until both are brought up to date';

ALTER TABLE privid.mask_store ADD COLUMN owner text, ADD COLUMN server_oid oid;
ALTER TABLE privid.region_store ADD COLUMN owner text, ADD COLUMN server_oid oid;
ALTER TABLE privid.share_grants ADD COLUMN owner text, ADD COLUMN server_oid oid;
DELETE FROM privid.mask_store m WHERE NOT EXISTS (SELECT FROM privid.promisers p WHERE p.camera = m.camera);
DELETE FROM privid.region_store r WHERE NOT EXISTS (SELECT FROM privid.promisers p WHERE p.camera = r.camera);
DELETE FROM privid.share_grants g WHERE NOT EXISTS (SELECT FROM privid.promisers p WHERE p.camera = g.camera);
UPDATE privid.mask_store m SET owner = p.owner, server_oid = p.server_oid FROM privid.promisers p WHERE p.camera = m.camera;
UPDATE privid.region_store r SET owner = p.owner, server_oid = p.server_oid FROM privid.promisers p WHERE p.camera = r.camera;
UPDATE privid.share_grants g SET owner = p.owner, server_oid = p.server_oid FROM privid.promisers p WHERE p.camera = g.camera;
-- Nobody waits for a name that another takes in a transaction that is open.
ALTER TABLE privid.mask_store DROP CONSTRAINT mask_store_pkey, ADD PRIMARY KEY (camera, name, owner, server_oid);
ALTER TABLE privid.region_store DROP CONSTRAINT region_store_pkey, ADD PRIMARY KEY (camera, name, owner, server_oid);
ALTER TABLE privid.share_grants DROP CONSTRAINT share_grants_pkey, ADD PRIMARY KEY (camera, role, owner, server_oid);
COMMENT ON COLUMN privid.mask_store.owner IS 'whose promise it is: the camera''s owner when it was made, or to whom he gave the camera with it';
COMMENT ON COLUMN privid.region_store.owner IS 'whose promise it is: the camera''s owner when it was made, or to whom he gave the camera with it';
COMMENT ON COLUMN privid.share_grants.owner IS 'whose promise it is: the camera''s owner when it was made, or to whom he gave the camera with it';

CREATE FUNCTION privid.sign_promise() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF TG_OP = 'INSERT' AND NEW.owner IS NULL THEN  -- a dump says whose it is, unless it is of an older version
    SELECT p.owner, p.server_oid INTO NEW.owner, NEW.server_oid FROM privid.promisers p WHERE p.camera = NEW.camera;
    IF NOT FOUND THEN
      RETURN NULL;  -- of a camera that is gone
    END IF;
  ELSIF TG_OP = 'INSERT' OR (OLD.camera, OLD.owner, OLD.server_oid) <> (NEW.camera, NEW.owner, NEW.server_oid) THEN
    RETURN NEW;  -- it follows its camera
  END IF;
  -- the camera may have become another's since it was looked at
  IF NOT privid.acts_for(privid.invoker(), NEW.owner) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of camera "%s"', NEW.camera),
      DETAIL = 'It was given to another role meanwhile.';
  END IF;
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION privid.sign_promise() IS 'trigger that notes whose promise it is, and of which server, and that whoever makes or changes it is that role';
CREATE TRIGGER sign_promise BEFORE INSERT OR UPDATE ON privid.mask_store FOR EACH ROW EXECUTE FUNCTION privid.sign_promise();
CREATE TRIGGER sign_promise BEFORE INSERT OR UPDATE ON privid.region_store FOR EACH ROW EXECUTE FUNCTION privid.sign_promise();
CREATE TRIGGER sign_promise BEFORE INSERT OR UPDATE ON privid.share_grants FOR EACH ROW EXECUTE FUNCTION privid.sign_promise();
COMMENT ON TRIGGER sign_promise ON privid.mask_store IS 'a mask is of the camera''s owner';
COMMENT ON TRIGGER sign_promise ON privid.region_store IS 'regions are of the camera''s owner';
COMMENT ON TRIGGER sign_promise ON privid.share_grants IS 'a share is of the camera''s owner';

-- They follow a camera that is renamed, or known by another number, and go with one that is dropped; privid.history keeps what they were.
CREATE OR REPLACE FUNCTION privid.carry_masks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM privid.mask_store m WHERE (m.camera, m.owner, m.server_oid) = (OLD.camera, OLD.owner, OLD.server_oid);
    DELETE FROM privid.region_store r WHERE (r.camera, r.owner, r.server_oid) = (OLD.camera, OLD.owner, OLD.server_oid);
    DELETE FROM privid.share_grants g WHERE (g.camera, g.owner, g.server_oid) = (OLD.camera, OLD.owner, OLD.server_oid);
  ELSE
    UPDATE privid.mask_store m SET camera = NEW.camera, server_oid = NEW.server_oid
      WHERE (m.camera, m.owner, m.server_oid) = (OLD.camera, OLD.owner, OLD.server_oid);
    UPDATE privid.region_store r SET camera = NEW.camera, server_oid = NEW.server_oid
      WHERE (r.camera, r.owner, r.server_oid) = (OLD.camera, OLD.owner, OLD.server_oid);
    UPDATE privid.share_grants g SET camera = NEW.camera, server_oid = NEW.server_oid
      WHERE (g.camera, g.owner, g.server_oid) = (OLD.camera, OLD.owner, OLD.server_oid);
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION privid.carry_masks() IS 'trigger that lets shares, masks and regions follow their camera';
DROP TRIGGER carry_masks ON privid.camera_state;
CREATE TRIGGER carry_masks AFTER UPDATE OF camera, server_oid ON privid.camera_state FOR EACH ROW
  WHEN ((OLD.camera, OLD.server_oid) IS DISTINCT FROM (NEW.camera, NEW.server_oid)) EXECUTE FUNCTION privid.carry_masks();
CREATE TRIGGER drop_masks AFTER DELETE ON privid.camera_state FOR EACH ROW EXECUTE FUNCTION privid.carry_masks();
COMMENT ON TRIGGER carry_masks ON privid.camera_state IS 'shares, masks and regions follow a camera that is renamed';
COMMENT ON TRIGGER drop_masks ON privid.camera_state IS 'shares, masks and regions go with a camera that is dropped';

-- Early and clear; what is committed late all the same counts nowhere. A transaction that sees the database as it was when it began is
-- refused by PostgreSQL to lock what somebody else has changed since.
CREATE FUNCTION privid.check_current(camera text) RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM FROM pg_foreign_server s WHERE s.srvname::text = $1 FOR SHARE SKIP LOCKED;
    RAISE EXCEPTION 'nobody is to wait for this lock';
  END IF;
EXCEPTION
  WHEN raise_exception THEN
    NULL;  -- which is no more
  WHEN serialization_failure THEN
    RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('camera "%s" is not what this transaction takes it for', $1),
      DETAIL = 'It was changed after the transaction began, which sees what was before.', HINT = 'Roll back, and try again.';
END
$$;
COMMENT ON FUNCTION privid.check_current(text) IS 'refuses a transaction that sees a camera as it is no more';
REVOKE EXECUTE ON FUNCTION privid.check_current(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION privid.check_camera(camera text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  holder oid := (SELECT s.srvowner FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwname = 'privid'
                 WHERE s.srvname::text = $1);
BEGIN
  IF holder IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('camera "%s" does not exist', $1), HINT = 'The view privid.cameras shows all.';
  END IF;
  IF NOT pg_has_role(privid.invoker()::name, holder, 'USAGE') THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of camera "%s"', $1);
  END IF;
  PERFORM privid.check_current($1);
END
$$;

CREATE OR REPLACE FUNCTION privid.drop_mask(camera text, name text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  PERFORM privid.check_camera(camera);
  UPDATE privid.mask_store m SET withdrawn = true FROM privid.promisers p
    WHERE (p.camera, p.owner, p.server_oid) = (m.camera, m.owner, m.server_oid) AND m.camera = camera AND m.name = name AND NOT m.withdrawn;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('mask "%s" of camera "%s" does not exist', name, camera),
      HINT = 'The view privid.masks shows all.';
  END IF;
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'mask withdrawn', jsonb_build_object('mask', name));
END
$$;

CREATE OR REPLACE FUNCTION privid.drop_regions(camera text, name text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  PERFORM privid.check_camera(camera);
  UPDATE privid.region_store r SET withdrawn = true FROM privid.promisers p
    WHERE (p.camera, p.owner, p.server_oid) = (r.camera, r.owner, r.server_oid) AND r.camera = camera AND r.name = name AND NOT r.withdrawn;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('regions "%s" of camera "%s" do not exist', name, camera),
      HINT = 'The view privid.regions shows all.';
  END IF;
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'regions withdrawn', jsonb_build_object('regions', name));
END
$$;

-- The engine's: in a transaction that sees one moment. A camera that somebody is changing is noted by whoever changes it, or next time.
-- Nobody decides how long this takes, nor whose cameras come first.
DROP FUNCTION privid.reconcile_cameras(text, boolean);
CREATE FUNCTION privid.reconcile_cameras() RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '20ms'
AS $$
DECLARE
  one  record;
  late integer := 0;
BEGIN
  FOR one IN
    SELECT d.camera, d.server, d.known FROM (
    SELECT c.camera, s.oid AS server, k.camera IS NOT NULL AS known
    FROM privid.camera_definitions c JOIN pg_foreign_server s ON s.srvname::text = c.camera LEFT JOIN privid.camera_state k ON k.camera = c.camera
    WHERE (c.owner, c.options, s.oid) IS DISTINCT FROM (k.owner, k.options, k.server_oid)
    UNION ALL
    SELECT k.camera, NULL, true FROM privid.camera_state k WHERE NOT EXISTS (SELECT FROM privid.camera_definitions c WHERE c.camera = k.camera)) d
    ORDER BY d.server IS NULL, random() LIMIT 200
  LOOP
    BEGIN
      PERFORM FROM privid.camera_state k WHERE k.camera = one.camera FOR UPDATE SKIP LOCKED;
      IF FOUND OR NOT one.known THEN
        IF one.server IS NOT NULL THEN
          PERFORM privid.note_camera(one.server, 'unseen', 'unseen');
        ELSE
          PERFORM privid.note_dropped(one.camera, 'unseen', 'unseen');  -- unless it was renamed: then it is no more here
        END IF;
      END IF;
    EXCEPTION WHEN lock_not_available OR serialization_failure OR deadlock_detected OR unique_violation THEN
      late := late + 1;
      EXIT WHEN late = 5;
    END;
  END LOOP;
END
$$;
COMMENT ON FUNCTION privid.reconcile_cameras() IS 'writes to privid.history what the catalogs say of cameras and nobody has noted; waits for nobody';
REVOKE EXECUTE ON FUNCTION privid.reconcile_cameras(), privid.note_camera(oid, text, text), privid.note_dropped(text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.reconcile_cameras() TO privid_engine;

-- A superuser who only pretends to restore is found out at the next occasion.
CREATE FUNCTION privid.note_unseen() RETURNS event_trigger LANGUAGE privid SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me    text := privid.invoker();
  held  text[];
  found oid;
BEGIN
  -- for privid.note_definitions, at the end of this command: nothing runs in between that could set it to anything else
  PERFORM set_config('privid_owners.before', coalesce((SELECT jsonb_object_agg(s.oid, pg_get_userbyid(s.srvowner))
                                                       FROM pg_foreign_server s WHERE pg_has_role(me::name, s.srvowner, 'USAGE'))::text, '{}'), true);
  IF privid.is_restoring() THEN
    RETURN;
  END IF;
  -- those that this command can be about, and nobody else is at work on
  held := ARRAY(SELECT k.camera FROM privid.camera_state k
                JOIN pg_foreign_server s ON s.srvname::text = k.camera AND pg_has_role(me::name, s.srvowner, 'USAGE')
                JOIN privid.camera_definitions c ON c.camera = k.camera
                WHERE (c.owner, c.options) IS DISTINCT FROM (k.owner, k.options) FOR UPDATE OF k SKIP LOCKED);
  FOR found IN SELECT s.oid FROM pg_foreign_server s WHERE s.srvname::text = ANY (held) ORDER BY 1 LOOP
    PERFORM privid.note_camera(found, 'by ' || me, 'unseen');
  END LOOP;
END
$$;
COMMENT ON FUNCTION privid.note_unseen() IS 'event trigger: writes to privid.history, as unseen, what was changed of the current role''s cameras before this command';

CREATE OR REPLACE FUNCTION privid.note_definitions() RETURNS event_trigger LANGUAGE privid SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me    text := privid.invoker();
  made  oid;
  giver text;
  now   record;
BEGIN
  IF privid.is_restoring() THEN
    RETURN;
  END IF;
  FOR made IN SELECT DISTINCT d.objid FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_foreign_server'::regclass LOOP
    PERFORM privid.note_camera(made, 'owners', me);
    CONTINUE WHEN tg_tag <> 'ALTER SERVER';
    giver := current_setting('privid_owners.before')::jsonb ->> made::text;
    SELECT max(s.srvname::text) AS camera, max(pg_get_userbyid(s.srvowner)::text) AS owner, count(*) AS seen INTO now
      FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwname = 'privid' WHERE s.oid = made;
    IF now.seen > 1 THEN  -- as it was when the transaction began, and as this command made it of what somebody else has made of it since
      RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('camera "%s" is not what this transaction takes it for', now.camera),
        DETAIL = 'It was changed after the transaction began, which sees what was before.', HINT = 'Roll back, and try again.';
    END IF;
    IF now.owner <> giver THEN
      PERFORM privid.hand_over(now.camera, giver, now.owner);
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION privid.note_definitions() IS 'event trigger: writes to privid.history what a command made or changed of cameras';

CREATE FUNCTION privid.note_drops() RETURNS event_trigger LANGUAGE privid SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me   text := privid.invoker();
  gone text;
BEGIN
  IF privid.is_restoring() THEN
    RETURN;
  END IF;
  FOR gone IN SELECT d.address_names[1] FROM pg_event_trigger_dropped_objects() d WHERE d.classid = 'pg_foreign_server'::regclass ORDER BY 1 LOOP
    PERFORM privid.note_dropped(gone, 'owners', me);
  END LOOP;
END
$$;
COMMENT ON FUNCTION privid.note_drops() IS 'event trigger: writes to privid.history which cameras a command dropped';
REVOKE EXECUTE ON FUNCTION privid.note_unseen(), privid.note_drops(), privid.sign_promise() FROM PUBLIC;
GRANT SELECT ON privid.promisers TO privid_engine;

DROP EVENT TRIGGER privid_note_definitions;
CREATE EVENT TRIGGER privid_note_unseen ON ddl_command_start
  WHEN TAG IN ('ALTER SERVER', 'DROP SERVER', 'DROP OWNED') EXECUTE FUNCTION privid.note_unseen();
-- Named so that it runs after privid_check_definition, which asks the engine.
CREATE EVENT TRIGGER privid_note_definitions ON ddl_command_end
  WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER') EXECUTE FUNCTION privid.note_definitions();
CREATE EVENT TRIGGER privid_note_drops ON sql_drop WHEN TAG IN ('DROP SERVER', 'DROP OWNED') EXECUTE FUNCTION privid.note_drops();
COMMENT ON EVENT TRIGGER privid_note_unseen IS 'what was changed of cameras by no such command is told as unseen';
COMMENT ON EVENT TRIGGER privid_note_definitions IS 'changes of cameras are told in privid.history';
COMMENT ON EVENT TRIGGER privid_note_drops IS 'cameras that are dropped are told in privid.history';

-- A cast to text could be anybody's.
CREATE FUNCTION privid.label(anyenum) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
  AS 'SELECT pg_catalog.textin(pg_catalog.enum_out($1))';
COMMENT ON FUNCTION privid.label(anyenum) IS 'an enum''s label as text, whatever casts its type has';

-- A condition on an index is evaluated before row security is; one on this expression is not.
DROP INDEX privid.attachment_store_sha256;
CREATE INDEX attachment_store_sha256 ON privid.attachment_store ((sha256 || ''));

-- ---------------------------------------------------------------------------------------------------------------------
-- Masks and regions: how long an appearance is visible in all
-- ---------------------------------------------------------------------------------------------------------------------

ALTER TABLE privid.mask_store ADD COLUMN visible text CHECK (privid.read_seconds(visible) >= 0);
COMMENT ON COLUMN privid.mask_store.visible IS 'the longest that all visible pieces of one appearance last together; null: nothing is promised of it';

ALTER TABLE privid.region_store ADD COLUMN rho text CHECK (privid.read_seconds(rho) >= 0),
  ADD COLUMN pieces integer NOT NULL DEFAULT 1 CHECK (pieces BETWEEN 1 AND 1000000),
  ADD COLUMN visible text CHECK (privid.read_seconds(visible) >= 0),
  ADD COLUMN cells jsonb,
  ADD CHECK (rho IS NOT NULL OR (pieces = 1 AND visible IS NULL));
COMMENT ON COLUMN privid.region_store.cells IS 'of a grid: width and height of a cell, the largest width and height of whatever is protected, in pixels, and its speed in pixels a second; null: nothing is promised of it';
COMMENT ON COLUMN privid.region_store.rho IS 'the longest that one visible piece of an appearance lasts in one region; null: nothing is promised of it';
COMMENT ON COLUMN privid.region_store.pieces IS 'the most pieces in which one appearance is visible in one region';
COMMENT ON COLUMN privid.region_store.visible IS 'the longest that these pieces last together in one region; null: nothing is promised of it';

CREATE FUNCTION privid.check_pieces(what text, camera text, rho text, pieces integer, visible text) RETURNS void
  LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  whole text := (SELECT o.option_value FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o
                 WHERE s.srvname::text = $2 AND o.option_name = 'rho');
BEGIN
  IF privid.read_seconds(rho) IS NULL OR privid.read_seconds(rho) < 0 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid value for the rho of %s: "%s"', what, left(rho, 100)),
      HINT = 'Write a duration as a number and a unit: us, ms, s, min, h or d, for example 5s.';
  END IF;
  IF privid.read_seconds(rho) > coalesce(privid.read_seconds(whole), 0) THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('rho of %s is %s, but that of camera "%s" is %s', what, rho, camera, whole),
      DETAIL = 'The budget is kept for segments as long as the camera''s rho, and each must hold every visible piece of an appearance.',
      HINT = 'Nobody is visible for longer in a part of the picture than in all of it: measure again, or raise the rho of the camera.';
  END IF;
  IF pieces IS NULL OR pieces NOT BETWEEN 1 AND 1000000 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pieces of %s must be between 1 and 1000000, but are %s', what, pieces),
      HINT = 'It is the number of pieces in which one appearance is visible there.';
  END IF;
  IF visible IS NULL THEN
    RETURN;
  END IF;
  IF privid.read_seconds(visible) IS NULL OR privid.read_seconds(visible) < 0 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid value for the visible time of %s: "%s"', what, left(visible, 100)),
      HINT = 'Write a duration as a number and a unit: us, ms, s, min, h or d, for example 5s.';
  END IF;
  IF privid.read_seconds(visible) < privid.read_seconds(rho) THEN
    RAISE EXCEPTION USING ERRCODE = '22023',
      MESSAGE = format('visible time of %s is %s, but rho, the longest piece of it, is %s', what, visible, rho),
      HINT = 'The visible time is that of all pieces of one appearance together, so it is at least rho: lower rho, or measure again.';
  END IF;
END
$$;
COMMENT ON FUNCTION privid.check_pieces(text, text, text, integer, text) IS 'refuses a promise of visible pieces that cannot be meant';

DROP FUNCTION privid.create_mask(text, text, polygon[], text, integer, bytea);
CREATE FUNCTION privid.create_mask(camera text, name text, shapes polygon[] DEFAULT '{}', rho text DEFAULT NULL, pieces integer DEFAULT 1,
                                   image bytea DEFAULT NULL, visible text DEFAULT NULL) RETURNS text
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  kept    privid.mask_store;
  shape   polygon;
  head    text[];
  wide    bigint;
  high    bigint;
  digest  text;
  largest CONSTANT int := 16777216;
BEGIN
  PERFORM privid.check_camera(camera);
  PERFORM privid.check_scene(camera);
  IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND 63 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid name for a mask: "%s"', left(name, 100)),
      HINT = 'Use between 1 and 63 bytes.';
  END IF;
  rho := coalesce(rho, (SELECT o.option_value FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o
                        WHERE s.srvname::text = camera AND o.option_name = 'rho'));  -- nobody is visible for longer than without the mask
  PERFORM privid.check_pieces(format('mask "%s"', name), camera, rho, pieces, visible);
  shapes := coalesce(shapes, '{}');
  IF cardinality(shapes) = 0 AND image IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('mask "%s" covers nothing', name),
      HINT = 'Give polygons, for example shapes => ''{"((0,0),(640,0),(640,120),(0,120))"}'', or a bitmap, or both.';
  END IF;
  IF array_ndims(shapes) > 1 OR cardinality(shapes) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('mask "%s" must have at most 1000 polygons in one dimension', name),
      HINT = 'A bitmap can cover any set of pixels.';
  END IF;
  IF (SELECT sum(npoints(s)) FROM unnest(shapes) s) > 10000 THEN
    RAISE EXCEPTION USING ERRCODE = '22023',
      MESSAGE = format('mask "%s" has %s corners, but at most 10000 are allowed', name, (SELECT sum(npoints(s)) FROM unnest(shapes) s)),
      HINT = 'A bitmap can cover any set of pixels.';
  END IF;
  FOREACH shape IN ARRAY shapes LOOP
    PERFORM privid.check_shape(shape, format('polygon of mask "%s"', name));
  END LOOP;
  IF image IS NOT NULL THEN
    IF octet_length(image) > largest THEN
      RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('bitmap of mask "%s" has %s bytes, but at most %s are allowed', name, octet_length(image), largest);
    END IF;
    head := regexp_match(encode(substring(image FROM 1 FOR 30), 'escape'), '^P4[ \n]([1-9][0-9]{0,5})[ \n]([1-9][0-9]{0,5})\n');
    IF head IS NOT NULL THEN
      wide := head[1]::bigint;
      high := head[2]::bigint;
    END IF;
    IF head IS NULL OR octet_length(image) <> 5 + length(head[1]) + length(head[2]) + (wide + 7) / 8 * high THEN
      RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('bitmap of mask "%s" is not a PBM image of type P4 without comments', name),
        HINT = 'privid mask CAMERA NAME IMAGE reads any image and stores it as such.';
    END IF;
    IF EXISTS (SELECT FROM privid.footage f WHERE f.camera = camera AND (f.width, f.height) <> (wide, high)) THEN
      RAISE EXCEPTION USING ERRCODE = '22023',
        MESSAGE = (SELECT format('bitmap of mask "%s" has %s x %s pixels, but camera "%s" has %s x %s', name, wide, high, camera, f.width, f.height)
                   FROM privid.footage f WHERE f.camera = camera);
    END IF;
  END IF;
  SELECT m.* INTO kept FROM privid.mask_store m JOIN privid.promisers p ON (p.camera, p.owner, p.server_oid) = (m.camera, m.owner, m.server_oid)
    WHERE m.camera = camera AND m.name = name;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42710',
      MESSAGE = format(CASE WHEN kept.withdrawn THEN 'mask "%s" of camera "%s" was withdrawn' ELSE 'mask "%s" of camera "%s" already exists' END, name, camera),
      HINT = 'A mask is never changed, so that tables keep meaning what they meant: choose another name.';
  END IF;
  INSERT INTO privid.mask_store (camera, name, rho, pieces, visible, shapes, image, created_by)
    VALUES (camera, name, rho, pieces, visible, shapes, image, privid.invoker());
  digest := encode(sha256(convert_to(shapes::text, 'UTF8') || coalesce('\x00'::bytea || image, '')), 'hex');
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'mask created',
    jsonb_strip_nulls(jsonb_build_object('mask', name, 'rho', rho, 'pieces', pieces, 'visible', visible, 'shapes', shapes::text,
                                         'sha256', digest)));
  RETURN digest;
END
$$;
COMMENT ON FUNCTION privid.create_mask(text, text, polygon[], text, integer, bytea, text) IS 'offers tables of a camera a mask, with what is visible of an appearance behind it; returns the SHA-256 of what it covers';

DROP FUNCTION privid.create_regions(text, text, jsonb, text, integer);
CREATE FUNCTION privid.create_regions(camera text, name text, regions jsonb, boundary text DEFAULT 'soft', straddle integer DEFAULT NULL,
                                      rho text DEFAULT NULL, pieces integer DEFAULT 1, visible text DEFAULT NULL,
                                      cells jsonb DEFAULT NULL)
  RETURNS integer
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  kept   privid.region_store;
  part   record;
  shape  polygon;
  names  text[] := '{}';
  shapes polygon[] := '{}';
  most CONSTANT int := 256;
BEGIN
  PERFORM privid.check_camera(camera);
  PERFORM privid.check_scene(camera);
  IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND 63 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid name for regions: "%s"', left(name, 100)),
      HINT = 'Use between 1 and 63 bytes.';
  END IF;
  IF boundary IS NULL OR boundary NOT IN ('hard', 'soft') THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid boundary of regions: "%s"', boundary),
      HINT = 'Write hard if an event never leaves its region, otherwise soft.';
  END IF;
  IF jsonb_typeof(regions) IS DISTINCT FROM 'object' OR regions = '{}' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('regions "%s" must be an object with a polygon for each name', name),
      HINT = 'For example {"left": "((0,0),(320,0),(320,360),(0,360))", "right": [[320,0],[640,0],[640,360],[320,360]]}.';
  END IF;
  IF octet_length(regions::text) > 1048576 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('regions "%s" have %s bytes, but at most 1048576 are allowed', name, octet_length(regions::text)),
      HINT = 'Write fewer corners, with fewer digits.';
  END IF;
  IF (SELECT count(*) FROM jsonb_object_keys(regions)) > most THEN
    RAISE EXCEPTION USING ERRCODE = '22023',
      MESSAGE = format('regions "%s" have %s parts, but at most %s are allowed', name, (SELECT count(*) FROM jsonb_object_keys(regions)), most),
      HINT = 'Make several regions of them, each with some of the parts.';
  END IF;
  FOR part IN SELECT e.key, e.value FROM jsonb_each(regions) e ORDER BY e.key COLLATE "C" LOOP
    IF octet_length(part.key) NOT BETWEEN 1 AND 63 THEN
      RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid name for a region: "%s"', left(part.key, 100)),
        HINT = 'Use between 1 and 63 bytes.';
    END IF;
    BEGIN
      shape := CASE jsonb_typeof(part.value)
        WHEN 'string' THEN (part.value #>> '{}')::polygon
        WHEN 'array' THEN (SELECT '(' || string_agg(format('(%s,%s)', c.corner ->> 0, c.corner ->> 1), ',' ORDER BY c.n) || ')'
                           FROM jsonb_array_elements(part.value) WITH ORDINALITY c(corner, n))::polygon END;
    EXCEPTION WHEN data_exception THEN
      shape := NULL;
    END;
    PERFORM privid.check_shape(shape, format('region "%s"', part.key));
    names := names || part.key;
    shapes := shapes || shape;
  END LOOP;
  IF (SELECT sum(npoints(s)) FROM unnest(shapes) s) > 10000 THEN
    RAISE EXCEPTION USING ERRCODE = '22023',
      MESSAGE = format('regions "%s" have %s corners, but at most 10000 are allowed', name, (SELECT sum(npoints(s)) FROM unnest(shapes) s)),
      HINT = 'Write polygons with fewer corners.';
  END IF;
  IF straddle IS NOT NULL AND straddle NOT BETWEEN 1 AND cardinality(names) THEN
    RAISE EXCEPTION USING ERRCODE = '22023',
      MESSAGE = format('straddle of regions "%s" must be between 1 and their number, %s, but is %s', name, cardinality(names), straddle),
      HINT = 'It is the greatest number of regions in which one event is visible within one frame: 2 across a border, 4 at a corner.';
  END IF;
  IF straddle IS NOT NULL AND boundary = 'hard' AND straddle <> 1 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('regions "%s" cannot have a hard boundary and a straddle of %s', name, straddle),
      HINT = 'Behind a hard boundary an event is visible in one region. Make the boundary soft.';
  END IF;
  IF rho IS NOT NULL THEN
    PERFORM privid.check_pieces(format('regions "%s"', name), camera, rho, pieces, visible);
  ELSIF pieces IS DISTINCT FROM 1 OR visible IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('regions "%s" have pieces or a visible time, but no rho', name),
      HINT = 'Give the longest that one visible piece of an appearance lasts in one region, for example rho => ''5s''.';
  END IF;
  IF cells IS NOT NULL AND (boundary <> 'soft' OR (cells #>> '{cell,0}')::integer NOT BETWEEN 1 AND 100000
      OR (cells #>> '{cell,1}')::integer NOT BETWEEN 1 AND 100000 OR (cells #>> '{size,0}')::integer NOT BETWEEN 1 AND 100000
      OR (cells #>> '{size,1}')::integer NOT BETWEEN 1 AND 100000 OR (cells ->> 'speed')::numeric NOT BETWEEN 0 AND 1000000) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('cells of regions "%s" must have a soft boundary and sizes and a speed in pixels', name),
      HINT = 'privid.create_grid makes regions that are cells, with what is promised of them.';
  END IF;
  SELECT r.* INTO kept FROM privid.region_store r JOIN privid.promisers p ON (p.camera, p.owner, p.server_oid) = (r.camera, r.owner, r.server_oid)
    WHERE r.camera = camera AND r.name = name;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42710',
      MESSAGE = format(CASE WHEN kept.withdrawn THEN 'regions "%s" of camera "%s" were withdrawn' ELSE 'regions "%s" of camera "%s" already exist' END, name, camera),
      HINT = 'Regions are never changed, so that tables keep meaning what they meant: choose another name.';
  END IF;
  straddle := CASE boundary WHEN 'hard' THEN 1 ELSE coalesce(straddle, cardinality(names)) END;
  INSERT INTO privid.region_store (camera, name, boundary, straddle, regions, shapes, rho, pieces, visible, cells, created_by)
    VALUES (camera, name, boundary, straddle, names, shapes, rho, pieces, visible, cells, privid.invoker());
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'regions created',
    jsonb_strip_nulls(jsonb_build_object('regions', name, 'boundary', boundary, 'straddle', straddle, 'rho', rho,
                                         'pieces', CASE WHEN rho IS NOT NULL THEN pieces END, 'visible', visible,
                                         'cells', cells, 'names', names, 'shapes', shapes::text)));
  RETURN cardinality(names);
END
$$;
COMMENT ON FUNCTION privid.create_regions(text, text, jsonb, text, integer, text, integer, text, jsonb) IS 'offers tables of a camera to be run region by region; returns the number of regions';

CREATE FUNCTION privid.create_grid(camera text, name text, columns integer, rows integer, cell_width integer, cell_height integer,
                                   width integer, height integer, speed numeric) RETURNS integer
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  IF (columns BETWEEN 1 AND 256 AND rows BETWEEN 1 AND 256 AND cell_width BETWEEN 1 AND 100000 AND cell_height BETWEEN 1 AND 100000
      AND width BETWEEN 1 AND 100000 AND height BETWEEN 1 AND 100000 AND speed BETWEEN 0 AND 1000000) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('grid "%s" must have at most 256 columns and rows, and sizes and a speed in pixels', name),
      HINT = 'cell_width and cell_height are those of a cell, width and height the largest of whatever is protected, speed the most pixels that it moves in a second along either axis.';
  END IF;
  RETURN privid.create_regions(camera, name,
    (SELECT jsonb_object_agg(format('r%sc%s', lpad(r::text, 3, '0'), lpad(c::text, 3, '0')),
       format('((%1$s,%2$s),(%3$s,%2$s),(%3$s,%4$s),(%1$s,%4$s))', (c - 1) * cell_width, (r - 1) * cell_height, c * cell_width, r * cell_height))
     FROM generate_series(1, rows) r, generate_series(1, columns) c),
    'soft', cells => jsonb_build_object('cell', jsonb_build_array(cell_width, cell_height), 'size', jsonb_build_array(width, height),
                                        'speed', speed::text));
END
$$;
COMMENT ON FUNCTION privid.create_grid(text, text, integer, integer, integer, integer, integer, integer, numeric) IS 'offers tables of a camera to be run cell by cell of a grid, with the largest size and speed of whatever is protected; returns the number of cells';

REVOKE EXECUTE ON FUNCTION privid.create_grid(text, text, integer, integer, integer, integer, integer, integer, numeric) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.create_grid(text, text, integer, integer, integer, integer, integer, integer, numeric) TO privid_owner;
REVOKE EXECUTE ON FUNCTION privid.create_mask(text, text, polygon[], text, integer, bytea, text),
  privid.create_regions(text, text, jsonb, text, integer, text, integer, text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.create_mask(text, text, polygon[], text, integer, bytea, text),
  privid.create_regions(text, text, jsonb, text, integer, text, integer, text, jsonb) TO privid_owner;

CREATE OR REPLACE VIEW privid.masks WITH (security_barrier = true) AS
  SELECT m.camera, m.name, least(privid.read_seconds(m.rho), 1e11)::float8 * interval '1 second' AS rho, m.pieces, m.shapes, m.image,
         m.created_at,
         CASE WHEN m.visible IS NOT NULL THEN least(privid.read_seconds(m.visible), 1e11)::float8 * interval '1 second' END AS visible
  FROM privid.mask_store m
  JOIN privid.promisers p ON (p.camera, p.owner, p.server_oid) = (m.camera, m.owner, m.server_oid)
  WHERE NOT m.withdrawn;

CREATE OR REPLACE VIEW privid.regions WITH (security_barrier = true) AS
  SELECT r.camera, r.name, part.region, part.shape, r.boundary, r.straddle, r.created_at,
         CASE WHEN r.rho IS NOT NULL THEN least(privid.read_seconds(r.rho), 1e11)::float8 * interval '1 second' END AS rho,
         CASE WHEN r.rho IS NOT NULL THEN r.pieces END AS pieces,
         CASE WHEN r.visible IS NOT NULL THEN least(privid.read_seconds(r.visible), 1e11)::float8 * interval '1 second' END AS visible,
         r.cells
  FROM privid.region_store r
  JOIN privid.promisers p ON (p.camera, p.owner, p.server_oid) = (r.camera, r.owner, r.server_oid)
  CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(r.regions), pg_catalog.unnest(r.shapes)) part(region, shape)
  WHERE NOT r.withdrawn;

-- ---------------------------------------------------------------------------------------------------------------------
-- Quotas: what one role may have, so that the others have something left. Nothing here depends on what a video shows.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE privid.quota_store (
  role         text PRIMARY KEY,
  executables  integer CHECK (executables >= 0),
  upload_bytes bigint CHECK (upload_bytes >= 0),
  tables       integer CHECK (tables >= 0),
  kept_bytes   bigint CHECK (kept_bytes >= 0),
  jobs         integer CHECK (jobs >= 0),
  slots        bigint CHECK (slots >= 0),
  slot_seconds integer CHECK (slot_seconds >= 0),
  compute_seconds integer CHECK (compute_seconds >= 0),
  set_by       text NOT NULL,
  set_at       timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE privid.quota_store IS 'quotas that were set; null: that of public, which stands for every role, or else the default';

CREATE UNLOGGED TABLE privid.quota_use (
  role       text PRIMARY KEY,
  jobs       integer NOT NULL,
  kept_bytes bigint NOT NULL,
  slots      bigint NOT NULL DEFAULT 0,
  compute_seconds numeric NOT NULL DEFAULT 0
);
COMMENT ON TABLE privid.quota_use IS 'what roles use of the engine, as it has posted it, by public facts alone';

-- Not the table above: a role holds its row here for as long as its transaction lasts, and the engine must not wait for that.
CREATE UNLOGGED TABLE privid.quota_turns (role text PRIMARY KEY, turn bigint NOT NULL);
COMMENT ON TABLE privid.quota_turns IS 'a row for each role, by which its uploads and tables are counted one after the other';

CREATE FUNCTION privid.quota_of(role text, OUT executables integer, OUT upload_bytes bigint, OUT tables integer, OUT kept_bytes bigint, OUT jobs integer,
                                OUT slots bigint, OUT slot_seconds integer, OUT compute_seconds integer)
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce(own.executables, every.executables, 1000), coalesce(own.upload_bytes, every.upload_bytes, 8::bigint << 30),
         coalesce(own.tables, every.tables, 1000), coalesce(own.kept_bytes, every.kept_bytes, 4::bigint << 30),
         coalesce(own.jobs, every.jobs, 32), coalesce(own.slots, every.slots, 1000000),
         coalesce(own.slot_seconds, every.slot_seconds, 600), coalesce(own.compute_seconds, every.compute_seconds, 600)
  FROM (VALUES (1)) one
  LEFT JOIN privid.quota_store own ON own.role = $1
  LEFT JOIN privid.quota_store every ON every.role = 'public'
$$;
COMMENT ON FUNCTION privid.quota_of(text) IS 'what a role may have: its own quota, that of public, or the default';

CREATE FUNCTION privid.set_quota(role text, executables integer DEFAULT NULL, upload_bytes bigint DEFAULT NULL, tables integer DEFAULT NULL,
                                 kept_bytes bigint DEFAULT NULL, jobs integer DEFAULT NULL, slots bigint DEFAULT NULL,
                                 slot_seconds integer DEFAULT NULL, compute_seconds integer DEFAULT NULL) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  IF role IS NULL OR (role <> 'public' AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname::text = role)) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', role),
      HINT = 'The role public stands for all that have no quota of their own.';
  END IF;
  IF least(executables, upload_bytes, tables, kept_bytes, jobs, slots, slot_seconds, compute_seconds) < 0 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('quota of role "%s" must not be negative', role);
  END IF;
  INSERT INTO privid.quota_store AS q (role, executables, upload_bytes, tables, kept_bytes, jobs, slots, slot_seconds, compute_seconds, set_by)
    VALUES (role, executables, upload_bytes, tables, kept_bytes, jobs, slots, slot_seconds, compute_seconds, privid.invoker())
    ON CONFLICT ON CONSTRAINT quota_store_pkey DO UPDATE SET
      executables = coalesce(excluded.executables, q.executables), upload_bytes = coalesce(excluded.upload_bytes, q.upload_bytes),
      tables = coalesce(excluded.tables, q.tables), kept_bytes = coalesce(excluded.kept_bytes, q.kept_bytes),
      jobs = coalesce(excluded.jobs, q.jobs), slots = coalesce(excluded.slots, q.slots),
      slot_seconds = coalesce(excluded.slot_seconds, q.slot_seconds),
      compute_seconds = coalesce(excluded.compute_seconds, q.compute_seconds), set_by = excluded.set_by, set_at = now();
END
$$;
COMMENT ON FUNCTION privid.set_quota(text, integer, bigint, integer, bigint, integer, bigint, integer, integer) IS 'sets what a role may have; what is left out stays as it is';

CREATE FUNCTION privid.reset_quota(role text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM privid.quota_store q WHERE q.role = role;
END
$$;
COMMENT ON FUNCTION privid.reset_quota(text) IS 'gives a role the quota that all others have';

-- What a role does in several sessions at once is counted one after the other: to change this row it waits for its own, and for nobody else's.
CREATE FUNCTION privid.take_turn(role text) RETURNS void
  LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
  INSERT INTO privid.quota_turns AS t (role, turn) VALUES ($1, 1) ON CONFLICT (role) DO UPDATE SET turn = t.turn + 1
$$;
COMMENT ON FUNCTION privid.take_turn(text) IS 'has the caller wait until nobody else counts what the role has, until the transaction ends';

CREATE FUNCTION privid.uploaded(role text, OUT executables bigint, OUT bytes numeric)
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT (SELECT count(*) FROM privid.executable_store s WHERE s.owner = $1::name),
         coalesce((SELECT sum(octet_length(s.content)) FROM privid.executable_store s WHERE s.owner = $1::name), 0)
           + coalesce((SELECT sum(octet_length(s.content)) FROM privid.attachment_store s WHERE s.owner = $1::name), 0)
$$;
COMMENT ON FUNCTION privid.uploaded(text) IS 'executables of a role, and bytes of them and of the files attached to them';

CREATE FUNCTION privid.tables_of(role text) RETURNS bigint
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT count(*)
  FROM pg_foreign_table t
  JOIN pg_class c ON c.oid = t.ftrelid
  JOIN pg_foreign_server s ON s.oid = t.ftserver
  JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
  JOIN pg_roles r ON r.oid = c.relowner
  WHERE w.fdwname = 'privid' AND r.rolname = $1::name
$$;
COMMENT ON FUNCTION privid.tables_of(text) IS 'how many tables of cameras a role owns';

-- A superuser is not counted, who also restores dumps. Of the function that wrote the row it is known who called it; in one of language
-- privid it would not be.
CREATE FUNCTION privid.check_uploads() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  owner   text := NEW.owner::text;
  allowed record;
  found   record;
BEGIN
  IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = privid.invoker()::name) THEN
    RETURN NULL;
  END IF;
  PERFORM privid.take_turn(owner);
  SELECT * INTO allowed FROM privid.quota_of(owner);
  SELECT * INTO found FROM privid.uploaded(owner);
  IF TG_OP = 'INSERT' AND TG_TABLE_NAME = 'executable_store' AND found.executables > allowed.executables THEN
    RAISE EXCEPTION USING ERRCODE = '53400',
      MESSAGE = format('role "%s" would have %s executables, but its quota is %s', owner, found.executables, allowed.executables),
      HINT = 'Remove some with privid.remove, or ask who runs this database for more (privid.set_quota).';
  END IF;
  IF found.bytes > allowed.upload_bytes AND (TG_OP = 'INSERT' OR octet_length(NEW.content) > octet_length(OLD.content)) THEN
    RAISE EXCEPTION USING ERRCODE = '53400',
      MESSAGE = format('uploads of role "%s" would have %s bytes, but its quota is %s', owner, found.bytes, allowed.upload_bytes),
      HINT = 'Remove some with privid.remove or privid.detach, or ask who runs this database for more (privid.set_quota).';
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION privid.check_uploads() IS 'refuses an executable or a file beyond the quota of its owner';
CREATE TRIGGER check_uploads AFTER INSERT OR UPDATE ON privid.executable_store FOR EACH ROW EXECUTE FUNCTION privid.check_uploads();
CREATE TRIGGER check_uploads AFTER INSERT OR UPDATE ON privid.attachment_store FOR EACH ROW EXECUTE FUNCTION privid.check_uploads();

CREATE FUNCTION privid.check_tables() RETURNS event_trigger
  LANGUAGE privid SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  role    text;
  allowed integer;
  found   bigint;
BEGIN
  IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = privid.invoker()::name) THEN
    RETURN;
  END IF;
  FOR role IN
    SELECT DISTINCT pg_get_userbyid(c.relowner)::text
    FROM pg_event_trigger_ddl_commands() d
    JOIN pg_foreign_table t ON d.classid = 'pg_class'::regclass AND t.ftrelid = d.objid
    JOIN pg_class c ON c.oid = d.objid
    JOIN pg_foreign_server s ON s.oid = t.ftserver
    JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwname = 'privid'
    ORDER BY 1
  LOOP
    PERFORM privid.take_turn(role);
    allowed := (privid.quota_of(role)).tables;
    found := privid.tables_of(role);
    IF found > allowed THEN
      RAISE EXCEPTION USING ERRCODE = '53400',
        MESSAGE = format('role "%s" would have %s foreign tables of cameras, but its quota is %s', role, found, allowed),
        HINT = 'Drop some, or ask who runs this database for more (privid.set_quota).';
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION privid.check_tables() IS 'event trigger: refuses a table beyond the quota of its owner';
CREATE EVENT TRIGGER privid_check_tables ON ddl_command_end
  WHEN TAG IN ('CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE', 'ALTER TABLE') EXECUTE FUNCTION privid.check_tables();
COMMENT ON EVENT TRIGGER privid_check_tables IS 'tables of cameras are counted when they are made, altered or given away';

CREATE FUNCTION privid.read_quotas(OUT role text, OUT resource text, OUT used numeric, OUT quota bigint) RETURNS SETOF record
  LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me name := privid.invoker();
BEGIN
  RETURN QUERY
    SELECT who.rolname::text, item.resource, item.used, item.quota
    FROM pg_roles who
    CROSS JOIN LATERAL privid.quota_of(who.rolname::text) q
    CROSS JOIN LATERAL privid.uploaded(who.rolname::text) u
    LEFT JOIN privid.quota_use e ON e.role = who.rolname::text
    CROSS JOIN LATERAL (VALUES (1, 'executables', u.executables::numeric, q.executables::bigint),
                               (2, 'upload_bytes', u.bytes, q.upload_bytes),
                               (3, 'tables', privid.tables_of(who.rolname::text)::numeric, q.tables::bigint),
                               (4, 'kept_bytes', coalesce(e.kept_bytes, 0)::numeric, q.kept_bytes),
                               (5, 'jobs', coalesce(e.jobs, 0)::numeric, q.jobs::bigint),
                               (6, 'slots', coalesce(e.slots, 0)::numeric, q.slots),
                               (7, 'slot_seconds', NULL, q.slot_seconds::bigint),
                               (8, 'compute_seconds', coalesce(e.compute_seconds, 0), q.compute_seconds::bigint)) item(n, resource, used, quota)
    WHERE who.rolname = me
       OR (who.rolcanlogin AND has_function_privilege(me, 'privid.set_quota(text,integer,bigint,integer,bigint,integer,bigint,integer,integer)', 'EXECUTE'))
    ORDER BY 1, item.n;
END
$$;
COMMENT ON FUNCTION privid.read_quotas() IS 'the rows of privid.quotas for whoever asks';

CREATE VIEW privid.quotas AS SELECT q.role, q.resource, q.used, q.quota FROM privid.read_quotas() q;
COMMENT ON VIEW privid.quotas IS 'what the current role has of each resource, and what it may have; for whoever may set quotas, that of all who can log in';

REVOKE EXECUTE ON FUNCTION privid.set_quota(text, integer, bigint, integer, bigint, integer, bigint, integer, integer), privid.reset_quota(text), privid.take_turn(text),
  privid.uploaded(text), privid.tables_of(text), privid.quota_of(text), privid.check_uploads(), privid.check_tables() FROM PUBLIC;
-- One role's analyst may be another owner's: quotas are set by whoever runs the database, and those to whom he grants that.
GRANT EXECUTE ON FUNCTION privid.quota_of(text) TO privid_engine;
GRANT SELECT ON privid.quota_store TO privid_engine;
GRANT SELECT, INSERT, UPDATE ON privid.quota_use TO privid_engine;
GRANT SELECT ON privid.quotas TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('privid.quota_store', '');

-- ---------------------------------------------------------------------------------------------------------------------
-- Previews: no text is pasted into a statement
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION privid.split_statements(text) RETURNS text[]
  AS 'MODULE_PATHNAME', 'privid_split_statements' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION privid.split_statements(text) IS 'the statements of a text, apart where PostgreSQL''s own parser takes them apart';

CREATE FUNCTION privid.explain(statement text, path text) RETURNS json
  AS 'MODULE_PATHNAME', 'privid_explain' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION privid.explain(text, text) IS 'what EXPLAIN says of one query under a search_path, and null for any other statement; nothing of it runs';

-- The search path of the caller arrives as a default and goes to EXPLAIN alone: the function's own is pinned.
CREATE OR REPLACE FUNCTION privid.afford(statements text, path text DEFAULT pg_catalog.current_setting('search_path'),
                              OUT statement integer, OUT query text, OUT camera text, OUT epsilon numeric, OUT remaining numeric,
                              OUT affordable boolean, OUT note text)
  RETURNS SETOF record LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  plan    jsonb;
  found   jsonb;
  charge  jsonb;
  pending jsonb := '[]';
  mine    jsonb;
  short   boolean;
  seen    jsonb := '[]';
BEGIN
  IF statements IS NULL OR path IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'statements and path must not be null', HINT = 'Leave path out: it is then the session''s search_path.';
  END IF;
  statement := 0;
  FOREACH query IN ARRAY privid.split_statements(statements) LOOP
    statement := statement + 1;
    camera := NULL; epsilon := NULL; remaining := NULL; affordable := NULL; note := NULL;
    BEGIN
      plan := privid.explain(query, path)::jsonb;
    EXCEPTION WHEN OTHERS THEN
      affordable := false;
      note := SQLERRM;
      RETURN NEXT;
      CONTINUE;
    END;
    IF plan IS NULL THEN
      note := 'not a query';
      RETURN NEXT;
      CONTINUE;
    END IF;
    IF NOT jsonb_path_exists(plan, 'strict $.**.Privid') THEN
      note := 'reads no camera';
      affordable := true;
      RETURN NEXT;
      CONTINUE;
    END IF;
    mine := '[]';
    short := false;
    FOR found IN SELECT jsonb_path_query(plan, 'strict $.**.Privid') LOOP
      IF (found ->> 'Answered Before')::boolean OR seen @> jsonb_build_array(found -> 'Release') THEN
        camera := NULL; epsilon := 0; remaining := NULL; affordable := true;
        note := CASE WHEN (found ->> 'Answered Before')::boolean THEN 'answered before, costs nothing' ELSE 'the same as above, costs nothing' END;
        RETURN NEXT;
        CONTINUE;
      END IF;
      FOR charge IN SELECT jsonb_array_elements(found -> 'Charges') LOOP
        camera := charge ->> 'Camera';
        epsilon := (charge ->> 'Epsilon')::numeric;
        -- Least of: remaining budget, minus what the statements before would take, minus this one, at every step of any of them.
        SELECT min(b.remaining - coalesce((SELECT sum((p.value ->> 3)::numeric) FROM jsonb_array_elements(pending || mine) p
                                           WHERE p.value ->> 0 = camera AND (p.value ->> 1)::int8 <= place.q AND (p.value ->> 2)::int8 > place.q), 0)
                   - epsilon * place.share)
          INTO remaining
          FROM (SELECT greatest(e.q, (s.value ->> 0)::int8) AS q, (s.value ->> 2)::numeric AS share
                FROM jsonb_array_elements(charge -> 'Where') s
                CROSS JOIN LATERAL (SELECT (s.value ->> 0)::int8 AS q
                                    UNION SELECT lower(b.frames) FROM privid.budget b WHERE b.camera = camera
                                    UNION SELECT (p.value ->> 1)::int8 FROM jsonb_array_elements(pending || mine) p WHERE p.value ->> 0 = camera) e
                WHERE e.q < (s.value ->> 1)::int8) place
          JOIN privid.budget b ON b.camera = camera AND b.frames @> place.q;
        remaining := trim_scale(least(remaining, (charge ->> 'Share Remaining')::numeric - epsilon));
        affordable := coalesce(remaining >= 0, true);
        note := CASE WHEN NOT affordable THEN format('short of %s', -remaining) WHEN epsilon = 0 THEN 'costs nothing' END;
        short := short OR NOT affordable;
        mine := mine || coalesce((SELECT jsonb_agg(jsonb_build_array(camera, s.value -> 0, s.value -> 1, epsilon * (s.value ->> 2)::numeric))
                                  FROM jsonb_array_elements(charge -> 'Where') s), '[]');
        remaining := greatest(remaining, 0);
        RETURN NEXT;
      END LOOP;
      IF NOT short AND current_setting('privid.reuse', true) IS DISTINCT FROM 'off' THEN
        seen := seen || jsonb_build_array(found -> 'Release');
      END IF;
    END LOOP;
    -- what would be refused takes nothing
    IF NOT short THEN
      pending := pending || mine;
    END IF;
  END LOOP;
END
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Bounds on what comes in
-- ---------------------------------------------------------------------------------------------------------------------

-- A text of more than 100 characters is no duration that is meant: the engine, which reads it again, has the same bound.
CREATE OR REPLACE FUNCTION privid.read_seconds(text) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN CASE WHEN pg_catalog.length($1) OPERATOR(pg_catalog.<=) 100 THEN
    privid.read_number(pg_catalog.regexp_replace($1, '\s*[a-z]+\s*$', '')) OPERATOR(pg_catalog.*)
    CASE coalesce(pg_catalog.substring($1, '([a-z]+)\s*$'), 's')
      WHEN 'us' THEN 0.000001 WHEN 'ms' THEN 0.001 WHEN 's' THEN 1 WHEN 'sec' THEN 1
      WHEN 'min' THEN 60 WHEN 'm' THEN 60 WHEN 'h' THEN 3600 WHEN 'd' THEN 86400
    END END;

-- ---------------------------------------------------------------------------------------------------------------------
-- Owners apart: folders of their own
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE privid.folder_grants (
  role       text NOT NULL,
  folder     text NOT NULL,
  granted_by text NOT NULL,
  granted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (role, folder)
);
COMMENT ON TABLE privid.folder_grants IS 'folders below the video root in which sources of cameras of a role and its members may lie';
COMMENT ON COLUMN privid.folder_grants.folder IS 'canonical: without a slash at either end; a dot is the whole root';

-- The engine takes a source apart in the same way (video/source.py), and follows no link.
CREATE FUNCTION privid.path_parts(path text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN NOT starts_with($1, '/') AND '..' <> ALL (p.parts) THEN p.parts END
  FROM (SELECT array_remove(array_remove(string_to_array($1, '/'), ''), '.') AS parts) p
$$;
COMMENT ON FUNCTION privid.path_parts(text) IS 'names in a path below the video root; NULL if it would leave it';

CREATE FUNCTION privid.acts_for(role text, other text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT $1 = $2 OR EXISTS (SELECT FROM pg_roles r, pg_roles o
                            WHERE r.rolname::text = $1 AND o.rolname::text = $2 AND pg_has_role(r.oid, o.oid, 'USAGE'))
$$;
COMMENT ON FUNCTION privid.acts_for(text, text) IS 'whether a role has the rights of another: it is that role, a member of it, or a superuser';

-- A pattern never equals the name of a granted folder, which has none of its letters: so what a source matches lies in the folder too.
CREATE FUNCTION privid.in_folder(owner text, source text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce((SELECT r.rolsuper FROM pg_roles r WHERE r.rolname::text = $1), false)
      OR EXISTS (SELECT FROM privid.folder_grants g, privid.path_parts(g.folder) f, privid.path_parts($2) p
                 WHERE cardinality(p) > cardinality(f) AND p[1:cardinality(f)] = f AND privid.acts_for($1, g.role))
$$;
COMMENT ON FUNCTION privid.in_folder(text, text) IS 'whether cameras of a role may show a source: it lies in a folder that was granted to the role, or the role is a superuser';

-- The folder of a source, up to its first pattern.
CREATE FUNCTION privid.folder_of(source text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce(nullif(string_agg(x.name, '/' ORDER BY x.n), ''), '.')
  FROM (SELECT u.name, u.n, bool_or(u.name ~ '[*?[]') OVER (ORDER BY u.n) AS pattern, count(*) OVER () AS names
        FROM unnest(privid.path_parts($1)) WITH ORDINALITY u(name, n)) x
  WHERE NOT x.pattern AND x.n < x.names
$$;
COMMENT ON FUNCTION privid.folder_of(text) IS 'the narrowest folder in which a source lies';

CREATE FUNCTION privid.check_folder(role text, path text, gone boolean) RETURNS text
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF $1 IS NULL OR (NOT $3 AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname::text = $1)) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', $1);
  END IF;
  IF privid.path_parts($2) IS NULL OR $2 ~ '[*?[[:cntrl:]]' OR octet_length($2) > 4096 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid folder: "%s"', left($2, 200)),
      HINT = 'Write a path relative to the video root, without .. and without a pattern, for example campus/north; a dot is the whole root.';
  END IF;
  RETURN coalesce(nullif(array_to_string(privid.path_parts($2), '/'), ''), '.');
END
$$;
COMMENT ON FUNCTION privid.check_folder(text, text, boolean) IS 'the canonical form of a folder that can be granted to a role';

CREATE FUNCTION privid.grant_folder(role text, path text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  folder text := privid.check_folder(role, path, false);
BEGIN
  INSERT INTO privid.folder_grants (role, folder, granted_by) VALUES (role, folder, privid.invoker()) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    PERFORM privid.write_history('owners', privid.invoker(), NULL, 'folder granted', jsonb_build_object('role', role, 'folder', folder));
  END IF;
END
$$;
COMMENT ON FUNCTION privid.grant_folder(text, text) IS 'lets cameras of a role and of its members show what lies in a folder below the video root';

CREATE FUNCTION privid.revoke_folder(role text, path text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  folder text := privid.check_folder(role, path, true);
BEGIN
  DELETE FROM privid.folder_grants g WHERE g.role = role AND g.folder = folder;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('folder "%s" is not granted to role "%s"', folder, role),
      HINT = 'The view privid.folders shows what is; a folder is taken back as it was granted.';
  END IF;
  PERFORM privid.write_history('owners', privid.invoker(), NULL, 'folder revoked', jsonb_build_object('role', role, 'folder', folder));
END
$$;
COMMENT ON FUNCTION privid.revoke_folder(text, text) IS 'takes a folder back: cameras whose sources lie in no other folder of their owner answer no more';

CREATE FUNCTION privid.read_folders(OUT role text, OUT folder text, OUT granted_by text, OUT granted_at timestamptz) RETURNS SETOF record
  LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY SELECT g.role, g.folder, g.granted_by, g.granted_at FROM privid.folder_grants g
    WHERE privid.acts_for(privid.invoker(), g.role) ORDER BY g.role, g.folder;
END
$$;
COMMENT ON FUNCTION privid.read_folders() IS 'the rows of privid.folders for whoever asks';

CREATE VIEW privid.folders AS SELECT f.role, f.folder, f.granted_by, f.granted_at FROM privid.read_folders() f;
COMMENT ON VIEW privid.folders IS 'folders below the video root in which sources of the current role''s cameras may lie; all of them for a superuser';

-- Before privid_check_definition, by name, which has the engine look at the file. The engine asks again with each release.
CREATE FUNCTION privid.check_source() RETURNS event_trigger LANGUAGE privid SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  made record;
BEGIN
  IF privid.is_restoring() THEN
    RETURN;  -- a dump brings its folders after its cameras
  END IF;
  FOR made IN
    SELECT c.camera, c.owner, c.options ->> 'source' AS source
    FROM pg_event_trigger_ddl_commands() d
    JOIN pg_foreign_server s ON d.classid = 'pg_foreign_server'::regclass AND s.oid = d.objid
    JOIN privid.camera_definitions c ON c.camera = s.srvname::text
    -- what would leave the root is refused by the engine, whoever asks
    WHERE privid.path_parts(c.options ->> 'source') IS NOT NULL AND NOT privid.in_folder(c.owner, c.options ->> 'source')
  LOOP
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = format('source "%s" of camera "%s" does not lie in a folder of role "%s"', left(made.source, 200), made.camera, made.owner),
      HINT = format('The view privid.folders shows your folders; a superuser grants one with SELECT privid.grant_folder(%L, %L).',
                    made.owner, coalesce(privid.folder_of(made.source), 'campus'));
  END LOOP;
END
$$;
COMMENT ON FUNCTION privid.check_source() IS 'event trigger: refuses a camera whose source lies in no folder of its owner';
CREATE EVENT TRIGGER privid_allow_source ON ddl_command_end
  WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER') EXECUTE FUNCTION privid.check_source();
COMMENT ON EVENT TRIGGER privid_allow_source IS 'sources of cameras lie in folders of their owners';

-- Owners keep the folders of what they have.
INSERT INTO privid.folder_grants (role, folder, granted_by)
  SELECT DISTINCT c.owner, privid.folder_of(c.options ->> 'source'), 'upgrade'
  FROM privid.camera_definitions c JOIN pg_catalog.pg_roles r ON r.rolname::text = c.owner
  WHERE NOT r.rolsuper AND privid.path_parts(c.options ->> 'source') IS NOT NULL;

REVOKE EXECUTE ON FUNCTION privid.grant_folder(text, text), privid.revoke_folder(text, text), privid.check_folder(text, text, boolean),
  privid.in_folder(text, text), privid.check_source() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.in_folder(text, text) TO privid_engine;
GRANT SELECT ON privid.folder_grants TO privid_engine;
GRANT SELECT ON privid.folders TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('privid.folder_grants', '');

-- ---------------------------------------------------------------------------------------------------------------------
-- Owners apart: whose an account is
-- ---------------------------------------------------------------------------------------------------------------------

ALTER TABLE privid.recordings ADD COLUMN owner text;
COMMENT ON COLUMN privid.recordings.owner IS 'role whose account it is, which alone changes what the account promises; NULL in a dump of an older version: whoever has a camera over it next';
ALTER TABLE privid.footage ADD COLUMN owner text;
COMMENT ON COLUMN privid.footage.owner IS 'owner of the camera then';

-- Nothing that owners write refers to what the engine locks: a foreign key would hold its row until their transaction ends.
CREATE TABLE privid.consent_store (
  recording bigint NOT NULL,
  role      text NOT NULL,
  owner     text NOT NULL,
  given_by  text NOT NULL,
  given_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (recording, role, owner)
);
COMMENT ON TABLE privid.consent_store IS 'roles whose cameras may share an account, because its owner agreed';
COMMENT ON COLUMN privid.consent_store.owner IS 'whose consent it is, which counts while the account is that role''s';

-- Footage is its camera's owner's. An account that cameras of several owners show is the one''s that was first; the others stay, by consent.
UPDATE privid.footage f SET owner = c.owner FROM privid.camera_definitions c WHERE c.camera = f.camera;
UPDATE privid.footage f SET owner = (SELECT h.details ->> 'owner' FROM privid.history h
                                     WHERE h.camera = f.camera AND h.event = 'dropped' ORDER BY h.id DESC LIMIT 1)
  WHERE f.owner IS NULL;
UPDATE privid.recordings r SET owner = coalesce(
    (SELECT f.owner FROM privid.footage f
     LEFT JOIN privid.history h ON h.camera = f.camera AND h.event = 'footage registered' AND h.details -> 'recording' = to_jsonb(r.id)
     WHERE f.recording = r.id AND f.owner IS NOT NULL
     ORDER BY NOT EXISTS (SELECT FROM privid.camera_definitions c WHERE c.camera = f.camera), h.id, f.camera LIMIT 1),
    (SELECT c.owner FROM privid.release_charges c WHERE c.recording = r.id ORDER BY c.release LIMIT 1));
INSERT INTO privid.consent_store (recording, role, owner, given_by)
  SELECT DISTINCT f.recording, f.owner, r.owner, 'upgrade'
  FROM privid.footage f JOIN privid.camera_definitions c ON c.camera = f.camera JOIN privid.recordings r ON r.id = f.recording
  WHERE f.owner <> r.owner AND f.owner NOT IN ('privid_owner', 'privid_analyst', 'privid_engine');

CREATE TABLE privid.account_gifts (
  id        bigserial PRIMARY KEY,
  recording bigint NOT NULL,
  giver     text NOT NULL,
  owner     text NOT NULL
);
COMMENT ON TABLE privid.account_gifts IS 'accounts that were given away, until the engine has written their owner to privid.recordings';
COMMENT ON COLUMN privid.account_gifts.giver IS 'role whose account it was: a gift counts only if it is that role''s when the gift''s turn comes, whenever it is committed';
COMMENT ON COLUMN privid.account_gifts.owner IS 'role whose account it is by this';
CREATE INDEX account_gifts_latest ON privid.account_gifts (recording, giver, id);
ALTER TABLE privid.recordings ADD COLUMN gift bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN privid.recordings.gift IS 'number of the latest gift by which it is its owner''s: earlier ones, committed later, count no more';

-- Every owner is a member of privid_owner: what it owned would be everybody's, and consent to it consent to all who will ever be members.
CREATE FUNCTION privid.is_crowd(role text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT $1 IN ('privid_owner', 'privid_analyst', 'privid_engine')
$$;
COMMENT ON FUNCTION privid.is_crowd(text) IS 'whether it is a role of the extension''s, which stands for many and owns no account';
-- A camera of such a role is nobody's until it is given to an owner, whose its account is then.
UPDATE privid.recordings r SET owner = NULL WHERE privid.is_crowd(r.owner);

CREATE FUNCTION privid.account_gift(recording bigint, OUT owner text, OUT gift bigint)
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE owners(owner, gift) AS (
    SELECT r.owner, r.gift FROM privid.recordings r WHERE r.id = $1
    UNION ALL
    SELECT g.owner, g.id FROM owners o CROSS JOIN LATERAL (
      SELECT a.owner, a.id FROM privid.account_gifts a WHERE a.recording = $1 AND a.giver = o.owner AND a.id > o.gift
      ORDER BY a.id DESC LIMIT 1) g)
  SELECT o.owner, o.gift FROM owners o ORDER BY o.gift DESC LIMIT 1
$$;
COMMENT ON FUNCTION privid.account_gift(bigint) IS 'role whose account a recording is, and the gift by which it is';

CREATE FUNCTION privid.account_owner(recording bigint) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT g.owner FROM privid.account_gift($1) g
$$;
COMMENT ON FUNCTION privid.account_owner(bigint) IS 'role whose account a recording is';

CREATE FUNCTION privid.owns_account(recording bigint, role text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT EXISTS (SELECT FROM privid.recordings r, privid.account_owner(r.id) o(owner)
                 WHERE r.id = $1 AND (o.owner IS NULL OR privid.acts_for($2, o.owner)))
$$;
COMMENT ON FUNCTION privid.owns_account(bigint, text) IS 'whether an account is a role''s own';

CREATE FUNCTION privid.uses_account(recording bigint, role text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT privid.owns_account($1, $2)
      OR EXISTS (SELECT FROM privid.consent_store c
                 WHERE c.recording = $1 AND c.owner = privid.account_owner($1) AND privid.acts_for($2, c.role))
$$;
COMMENT ON FUNCTION privid.uses_account(bigint, text) IS 'whether cameras of a role may share an account: it is the role''s own, or its owner agreed';

CREATE FUNCTION privid.account_of(camera text, OUT recording bigint, OUT owner text)
  LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM privid.check_camera($1);
  -- an account without an owner will be the camera's
  SELECT f.recording, coalesce(privid.account_owner(f.recording), p.owner) INTO account_of.recording, account_of.owner
    FROM privid.footage f JOIN privid.promisers p ON p.camera = f.camera WHERE f.camera = $1;
  IF account_of.recording IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('footage of camera "%s" has not been seen yet', $1),
      HINT = 'Create or alter its server while the engine is running.';
  END IF;
  IF NOT privid.owns_account(account_of.recording, privid.invoker()) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of the account of camera "%s"', $1),
      DETAIL = 'The footage was first registered by another role, whose account it is.';
  END IF;
END
$$;
COMMENT ON FUNCTION privid.account_of(text) IS 'the number of a camera''s recording and whose account it is, for whoever owns both';

-- The engine asks again with each release, of the account that it charges.
CREATE FUNCTION privid.check_scene(camera text) RETURNS void
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  other text := (SELECT privid.account_owner(f.recording) FROM privid.footage f JOIN pg_foreign_server s ON s.srvname::text = f.camera
                 WHERE f.camera = $1 AND NOT privid.owns_account(f.recording, pg_get_userbyid(s.srvowner)::text));
BEGIN
  IF other IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('account of camera "%s" is another role''s, "%s"', $1, other),
      DETAIL = 'What is visible of people in another role''s footage behind a mask, or in a region, is not the camera''s owner''s to promise.',
      HINT = 'That role can offer masks and regions of a camera of its own, and grant USAGE on it.';
  END IF;
END
$$;
COMMENT ON FUNCTION privid.check_scene(text) IS 'refuses masks and regions of a camera whose footage is in another role''s account';
REVOKE EXECUTE ON FUNCTION privid.check_scene(text) FROM PUBLIC;

CREATE FUNCTION privid.consent(camera text, role text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  account record := privid.account_of(camera);
BEGIN
  IF role IS NULL OR NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname::text = role) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', role);
  END IF;
  IF privid.is_crowd(role) THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('role "%s" stands for many, and consent is to one owner', role),
      HINT = 'Name the role whose cameras may share the account.';
  END IF;
  INSERT INTO privid.consent_store (recording, role, owner, given_by) VALUES (account.recording, role, account.owner, privid.invoker())
    ON CONFLICT DO NOTHING;
  IF FOUND THEN
    PERFORM privid.write_history('owners', privid.invoker(), camera, 'consent given',
      jsonb_build_object('role', role, 'recording', account.recording));
  END IF;
END
$$;
COMMENT ON FUNCTION privid.consent(text, text) IS 'lets cameras of another role over the same footage, and no other, share the account of a camera';

CREATE FUNCTION privid.withdraw_consent(camera text, role text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  account record := privid.account_of(camera);
BEGIN
  DELETE FROM privid.consent_store c WHERE (c.recording, c.role, c.owner) = (account.recording, role, account.owner);
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" has no consent to share the account of camera "%s"', role, camera),
      HINT = 'The view privid.consents shows who has.';
  END IF;
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'consent withdrawn',
    jsonb_build_object('role', role, 'recording', account.recording));
END
$$;
COMMENT ON FUNCTION privid.withdraw_consent(text, text) IS 'ends that: cameras of the other role over this footage answer no more; what they consumed stays consumed';

CREATE FUNCTION privid.read_consents(OUT recording bigint, OUT owner text, OUT role text, OUT given_by text, OUT given_at timestamptz)
  RETURNS SETOF record LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY SELECT c.recording, o.owner, c.role, c.given_by, c.given_at
    FROM privid.consent_store c JOIN LATERAL privid.account_owner(c.recording) o(owner) ON o.owner = c.owner
    WHERE privid.acts_for(privid.invoker(), o.owner) OR privid.acts_for(privid.invoker(), c.role) ORDER BY c.recording, c.role;
END
$$;
COMMENT ON FUNCTION privid.read_consents() IS 'the rows of privid.consents for whoever asks';

CREATE VIEW privid.consents AS SELECT c.recording, c.owner, c.role, c.given_by, c.given_at FROM privid.read_consents() c;
COMMENT ON VIEW privid.consents IS 'accounts that the current role shares with other roles, as their owner or by the owner''s consent';

-- Who gives a camera away gives what is promised of it: what is committed by then, which is all that is seen here, while the camera is
-- still the giver's for everybody else. With the only camera over an account goes the account; who has others gives consent. Neither is
-- written where the engine locks: it would wait for the end of this transaction. A role that stands for many gives and is given nothing,
-- and what no command is seen to give (REASSIGN OWNED) stays where it is.
CREATE FUNCTION privid.hand_over(camera text, giver text, taker text) RETURNS void
  LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  server  oid := (SELECT p.server_oid FROM privid.promisers p WHERE p.camera = camera);
  account bigint := (SELECT f.recording FROM privid.footage f WHERE f.camera = camera);
BEGIN
  IF privid.is_crowd(giver) OR privid.is_crowd(taker) THEN
    RETURN;
  END IF;
  -- what the taker promised when the camera was the taker's before counts again, and stands
  UPDATE privid.mask_store m SET owner = taker WHERE (m.camera, m.owner, m.server_oid) = (camera, giver, server)
    AND NOT EXISTS (SELECT FROM privid.mask_store t WHERE (t.camera, t.name, t.owner, t.server_oid) = (camera, m.name, taker, server));
  UPDATE privid.region_store r SET owner = taker WHERE (r.camera, r.owner, r.server_oid) = (camera, giver, server)
    AND NOT EXISTS (SELECT FROM privid.region_store t WHERE (t.camera, t.name, t.owner, t.server_oid) = (camera, r.name, taker, server));
  UPDATE privid.share_grants g SET owner = taker WHERE (g.camera, g.owner, g.server_oid) = (camera, giver, server)
    AND NOT EXISTS (SELECT FROM privid.share_grants t WHERE (t.camera, t.role, t.owner, t.server_oid) = (camera, g.role, taker, server));
  IF privid.account_owner(account) IS DISTINCT FROM giver THEN
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM privid.footage o JOIN privid.promisers p ON p.camera = o.camera AND p.owner = giver
             WHERE o.recording = account AND o.camera <> camera) THEN
    INSERT INTO privid.consent_store (recording, role, owner, given_by) VALUES (account, taker, giver, giver) ON CONFLICT DO NOTHING;
  ELSE
    INSERT INTO privid.account_gifts (recording, giver, owner) VALUES (account, giver, taker);
    UPDATE privid.consent_store c SET owner = taker WHERE (c.recording, c.owner) = (account, giver)
      AND NOT EXISTS (SELECT FROM privid.consent_store t WHERE (t.recording, t.role, t.owner) = (account, c.role, taker));
  END IF;
END
$$;
COMMENT ON FUNCTION privid.hand_over(text, text, text) IS 'lets what was promised of a camera, and its account, follow it to the role that it is given to';

REVOKE EXECUTE ON FUNCTION privid.consent(text, text), privid.withdraw_consent(text, text), privid.account_of(text),
  privid.owns_account(bigint, text), privid.uses_account(bigint, text), privid.hand_over(text, text, text), privid.is_crowd(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.is_crowd(text) TO privid_engine;
GRANT EXECUTE ON FUNCTION privid.consent(text, text), privid.withdraw_consent(text, text) TO privid_owner;
REVOKE EXECUTE ON FUNCTION privid.account_owner(bigint), privid.account_gift(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.account_owner(bigint), privid.account_gift(bigint), privid.owns_account(bigint, text), privid.uses_account(bigint, text) TO privid_engine;
GRANT UPDATE (owner, gift) ON privid.recordings TO privid_engine;
GRANT SELECT, DELETE ON privid.account_gifts TO privid_engine;
GRANT SELECT ON privid.consent_store TO privid_engine;
GRANT SELECT ON privid.consents TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('privid.consent_store', '');
SELECT pg_catalog.pg_extension_config_dump('privid.account_gifts', '');
SELECT pg_catalog.pg_extension_config_dump('privid.account_gifts_id_seq', '');

-- ---------------------------------------------------------------------------------------------------------------------
-- Owners apart: paths, shares and history are each owner's own
-- ---------------------------------------------------------------------------------------------------------------------

-- Options of servers are public in PostgreSQL, and one of them is the path; information_schema shows them to whoever may use the server.
-- Its owner sees them in privid.cameras.
REVOKE SELECT ON information_schema.foreign_server_options FROM PUBLIC;
REVOKE SELECT ON pg_catalog.pg_foreign_server FROM PUBLIC;
GRANT SELECT (tableoid, oid, srvname, srvowner, srvfdw, srvtype, srvversion, srvacl) ON pg_catalog.pg_foreign_server TO PUBLIC;
GRANT SELECT ON pg_catalog.pg_foreign_server TO privid_engine;

CREATE OR REPLACE VIEW privid.camera_definitions WITH (security_barrier = true) AS
  SELECT s.srvname::text AS camera, pg_catalog.pg_get_userbyid(s.srvowner)::text AS owner,
         coalesce((SELECT pg_catalog.jsonb_object_agg(x.option_name, x.option_value) FROM pg_catalog.pg_options_to_table(s.srvoptions) x
                   WHERE x.option_name <> 'source' OR pg_catalog.pg_has_role(s.srvowner, 'USAGE')), '{}') AS options
  FROM pg_catalog.pg_foreign_server s
  JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwname = 'privid';
COMMENT ON VIEW privid.camera_definitions IS 'cameras as the catalogs have them; the source for their owner alone';

-- The view is otherwise as it was.
DO $$
BEGIN
  EXECUTE 'CREATE OR REPLACE VIEW privid.cameras WITH (security_barrier = true) AS '
    || regexp_replace(regexp_replace(pg_get_viewdef('privid.cameras'::regclass),
         '\mo\.source,', 'CASE WHEN pg_has_role(s.srvowner, ''USAGE'') THEN o.source END AS source,'),
         ' AS epsilon\s+FROM \(+pg_foreign_server', ' AS epsilon,
         CASE WHEN ''visibility=own'' = ANY (s.srvoptions) THEN ''own'' ELSE ''open'' END AS visibility
         FROM (((pg_foreign_server');
  ASSERT pg_get_viewdef('privid.cameras'::regclass) ~ 'END AS source' AND pg_get_viewdef('privid.cameras'::regclass) ~ 'END AS visibility',
    'view privid.cameras';
END
$$;
COMMENT ON COLUMN privid.cameras.source IS 'for the camera''s owner alone';
COMMENT ON COLUMN privid.cameras.visibility IS 'open: analysts see what is left of the budget and what has been run; own: each sees what he himself did';

CREATE FUNCTION privid.read_shares(OUT camera text, OUT role text, OUT epsilon numeric, OUT spent numeric, OUT remaining numeric,
                                   OUT granted_by text, OUT granted_at timestamptz) RETURNS SETOF record
  LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
    -- What is spent of a share is spent of the account, by whichever camera: it is for the account's owner, and for the role whose share it
    -- is. One of public is everybody's, and tells what others did: for all where every camera over the account is open.
    SELECT g.camera, g.role, g.epsilon,
           CASE WHEN seen.all THEN trim_scale(coalesce(used.spent * c.k / r.k, 0)) END,
           CASE WHEN seen.all THEN trim_scale(greatest(least(g.epsilon, c.epsilon) - coalesce(used.spent * c.k / r.k, 0), 0)) END,
           g.granted_by, g.granted_at
    FROM privid.share_grants g
    JOIN privid.promisers p ON (p.camera, p.owner, p.server_oid) = (g.camera, g.owner, g.server_oid)
    JOIN privid.cameras c ON c.camera = g.camera
    LEFT JOIN privid.footage f ON f.camera = g.camera
    LEFT JOIN privid.recordings r ON r.id = f.recording
    LEFT JOIN LATERAL (SELECT max(l.spent) AS spent FROM privid.share_accounts a JOIN privid.share_levels l ON l.share = a.id
                       WHERE a.recording = r.id AND a.role = g.role) used ON true
    CROSS JOIN LATERAL (SELECT r.id IS NULL OR privid.owns_account(r.id, privid.invoker())
                            OR CASE g.role WHEN 'public' THEN privid.shows_all(g.camera, 'public')
                                    ELSE privid.acts_for(privid.invoker(), g.role) END AS "all") seen
    WHERE g.epsilon IS NOT NULL
      AND (g.role = 'public' OR privid.acts_for(privid.invoker(), g.role) OR privid.acts_for(privid.invoker(), c.owner));
END
$$;
COMMENT ON FUNCTION privid.read_shares() IS 'the rows of privid.shares for whoever asks';

CREATE OR REPLACE VIEW privid.shares AS
  SELECT s.camera, s.role, s.epsilon, s.spent, s.remaining, s.granted_by, s.granted_at FROM privid.read_shares() s;
COMMENT ON VIEW privid.shares IS 'shares of the budgets of the current role''s cameras, and those that it has of others'', with what of each is spent where most is spent';
ALTER VIEW privid.shares RESET (security_barrier);

-- No rights on tables for people: below a view or a policy, PostgreSQL evaluates conditions that it takes for harmless first, and EXPLAIN
-- tells how many rows there were. What they write and read goes through functions.
DROP POLICY owner ON privid.share_grants;
DROP POLICY own ON privid.executable_store;
DROP POLICY own ON privid.attachment_store;
REVOKE ALL ON privid.share_grants, privid.executable_store, privid.attachment_store FROM privid_owner, privid_analyst;
REVOKE ALL (camera, role, epsilon, granted_by, granted_at) ON privid.share_grants FROM privid_owner;
REVOKE ALL (owner, name, content, uploaded_at) ON privid.executable_store FROM privid_owner, privid_analyst;
REVOKE ALL (owner, executable, name, content, attached_at) ON privid.attachment_store FROM privid_owner, privid_analyst;

CREATE OR REPLACE FUNCTION privid.check_share(camera text, role text, gone boolean DEFAULT false) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM privid.check_camera($1);
  IF $2 IS NULL OR ($2 <> 'public' AND NOT $3 AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname::text = $2)) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', $2);
  END IF;
END
$$;
DROP FUNCTION privid.owns_camera(text);

-- Who asks is known of the function that wrote the row.
CREATE OR REPLACE FUNCTION privid.note_share() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM privid.write_history('owners', privid.invoker(), NEW.camera,
    CASE WHEN NEW.epsilon IS NULL THEN 'share revoked' ELSE 'share granted' END,
    jsonb_build_object('role', NEW.role, 'epsilon', NEW.epsilon));
  RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION privid.grant_budget(camera text, role text, epsilon numeric) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  whole numeric := (SELECT c.epsilon FROM privid.cameras c WHERE c.camera = camera);
BEGIN
  PERFORM privid.check_share(camera, role);
  IF epsilon IS NULL OR epsilon <= 0 OR epsilon > whole THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('share of camera "%s" must be more than 0 and at most %s, but is %s', camera, whole, epsilon),
      HINT = 'A share is a part of the camera''s own epsilon; privid.revoke_budget takes one back.';
  END IF;
  INSERT INTO privid.share_grants AS g (camera, role, epsilon, granted_by) VALUES (camera, role, epsilon, privid.invoker())
    ON CONFLICT ON CONSTRAINT share_grants_pkey
    DO UPDATE SET epsilon = excluded.epsilon, granted_by = excluded.granted_by, granted_at = now();
END
$$;

CREATE OR REPLACE FUNCTION privid.revoke_budget(camera text, role text) RETURNS void
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  PERFORM privid.check_share(camera, role, true);
  UPDATE privid.share_grants g SET epsilon = NULL, granted_by = privid.invoker(), granted_at = now() FROM privid.promisers p
    WHERE (p.camera, p.owner, p.server_oid) = (g.camera, g.owner, g.server_oid) AND g.camera = camera AND g.role = role AND g.epsilon IS NOT NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" has no share of camera "%s"', role, camera),
      HINT = 'The view privid.shares shows who has.';
  END IF;
END
$$;

-- These are otherwise as they were.
DO $$
DECLARE
  called regprocedure;
  body   text;
BEGIN
  FOREACH called IN ARRAY '{"privid.upload(text, bytea)", "privid.attach(text, text, bytea)"}'::regprocedure[] LOOP
    body := replace(replace(pg_get_functiondef(called), 'current_user', 'privid.invoker()::name'), E' LANGUAGE plpgsql\n', E' LANGUAGE privid\n');
    ASSERT body ~ 'LANGUAGE privid' AND body ~ 'invoker' AND body !~ 'DEFINER', called::text;
    EXECUTE body;
  END LOOP;
END
$$;

CREATE FUNCTION privid.read_executables(OUT name text, OUT sha256 text, OUT bytes integer, OUT uploaded_at timestamptz, OUT owner name)
  RETURNS SETOF record LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY SELECT s.name, s.sha256, octet_length(s.content), s.uploaded_at, s.owner
    FROM privid.executable_store s WHERE s.owner = privid.invoker()::name ORDER BY s.name;
END
$$;
COMMENT ON FUNCTION privid.read_executables() IS 'the rows of privid.executables for whoever asks';
CREATE OR REPLACE VIEW privid.executables AS
  SELECT e.name, e.sha256, e.bytes, e.uploaded_at, e.owner FROM privid.read_executables() e;
ALTER VIEW privid.executables RESET (security_invoker, security_barrier);

CREATE FUNCTION privid.read_attachments(OUT executable text, OUT name text, OUT sha256 text, OUT bytes integer, OUT attached_at timestamptz,
                                        OUT owner name) RETURNS SETOF record
  LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY SELECT s.executable, s.name, s.sha256, octet_length(s.content), s.attached_at, s.owner
    FROM privid.attachment_store s WHERE s.owner = privid.invoker()::name ORDER BY s.executable, s.name;
END
$$;
COMMENT ON FUNCTION privid.read_attachments() IS 'the rows of privid.attachments for whoever asks';
CREATE OR REPLACE VIEW privid.attachments AS
  SELECT a.executable, a.name, a.sha256, a.bytes, a.attached_at, a.owner FROM privid.read_attachments() a;
ALTER VIEW privid.attachments RESET (security_invoker, security_barrier);

REVOKE EXECUTE ON FUNCTION privid.read_executables(), privid.read_attachments() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.read_executables(), privid.read_attachments() TO privid_analyst, privid_owner;
COMMENT ON COLUMN privid.executable_store.owner IS 'role that uploaded it, which alone is shown it';
COMMENT ON COLUMN privid.attachment_store.owner IS 'role that attached it, which alone is shown it';

-- What everybody may read is a view; the chain itself is a table that nobody may.
ALTER TABLE privid.history RENAME TO history_log;
REVOKE SELECT ON privid.history_log FROM privid_owner;
ALTER TABLE privid.history_log ADD COLUMN readers text[];
COMMENT ON COLUMN privid.history_log.readers IS 'owners whom an entry is about, who may read it; NULL: all owners';
DO $$
DECLARE
  writer oid;
BEGIN
  FOR writer IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'privid'::regnamespace AND p.prosrc ~ '\m(FROM|INTO|JOIN|entry) privid\.history\M' LOOP
    EXECUTE regexp_replace(pg_get_functiondef(writer), '\m(FROM|INTO|JOIN|entry) privid\.history\M', '\1 privid.history_log', 'g');
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION privid.verify_history(OUT chain text, OUT id bigint, OUT problem text) RETURNS SETOF record
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT DISTINCT ON (link.chain) link.chain, link.id, link.problem
  FROM (SELECT h.chain, h.id,
               CASE WHEN h.hash IS DISTINCT FROM privid.hash_history(h.*) THEN 'entry was changed'
                    WHEN h.previous IS DISTINCT FROM coalesce(lag(h.hash) OVER (PARTITION BY h.chain ORDER BY h.id), repeat('0', 64))
                    THEN 'entry before it is missing or was changed' END AS problem
        FROM privid.history_log h
        UNION ALL
        SELECT c.chain, c.latest, 'entry is missing, or is not the latest' FROM privid.history_chains c
        WHERE (SELECT (h.id, h.hash) FROM privid.history_log h WHERE h.chain = c.chain ORDER BY h.id DESC LIMIT 1)
              IS DISTINCT FROM (c.latest, c.hash)) link
  WHERE link.problem IS NOT NULL
  ORDER BY link.chain, link.id
$$;

-- Entries of a camera are for the owner that it has then, and for the one that it had. The engine says whose it is, because it hears of
-- a camera before others can see it.
CREATE FUNCTION privid.readers_of(camera text, event text, details jsonb) RETURNS text[] LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN $2 IN ('folder granted', 'folder revoked') THEN ARRAY[$3 ->> 'role']
    WHEN $1 IS NULL THEN NULL
    ELSE array_remove(ARRAY[
           CASE jsonb_typeof($3 -> 'owner') WHEN 'string' THEN $3 ->> 'owner' WHEN 'object' THEN $3 -> 'owner' ->> 'to'
             ELSE coalesce((SELECT c.owner FROM privid.camera_definitions c WHERE c.camera = $1),
                           (SELECT k.owner FROM privid.camera_state k WHERE k.camera = $1)) END,
           CASE WHEN jsonb_typeof($3 -> 'owner') = 'object' THEN $3 -> 'owner' ->> 'from' END,
           CASE WHEN $2 IN ('consent given', 'consent withdrawn') THEN $3 ->> 'role' END], NULL) END
$$;
COMMENT ON FUNCTION privid.readers_of(text, text, jsonb) IS 'owners whom an entry of the history is about';

CREATE FUNCTION privid.note_readers() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  NEW.readers := privid.readers_of(NEW.camera, NEW.event, NEW.details);
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION privid.note_readers() IS 'trigger that notes who may read an entry of the history';
CREATE TRIGGER note_readers BEFORE INSERT ON privid.history_log FOR EACH ROW WHEN (NEW.readers IS NULL) EXECUTE FUNCTION privid.note_readers();
COMMENT ON TRIGGER note_readers ON privid.history_log IS 'an entry is for those whom it is about';

-- Of earlier entries: the owner that the camera had, by what was written before, and else by what was written next.
ALTER TABLE privid.history_log DISABLE TRIGGER refuse_rewriting;
UPDATE privid.history_log h SET readers = coalesce(
  CASE WHEN h.details ? 'owner' THEN privid.readers_of(h.camera, h.event, h.details) END,
  (SELECT CASE WHEN o.event <> 'dropped' THEN privid.readers_of(o.camera, o.event, o.details) END FROM privid.history_log o
   WHERE o.camera = h.camera AND o.details ? 'owner' AND o.id < h.id ORDER BY o.id DESC LIMIT 1),
  (SELECT privid.readers_of(o.camera, o.event, o.details) FROM privid.history_log o
   WHERE o.camera = h.camera AND o.details ? 'owner' AND o.id > h.id ORDER BY o.id LIMIT 1),
  privid.readers_of(h.camera, h.event, h.details), '{}')
  WHERE h.camera IS NOT NULL;
ALTER TABLE privid.history_log ENABLE TRIGGER refuse_rewriting;

CREATE FUNCTION privid.read_history(OUT id bigint, OUT chain text, OUT at timestamptz, OUT who text, OUT camera text, OUT event text,
                                    OUT details jsonb, OUT previous text, OUT hash text) RETURNS SETOF record
  LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me text := privid.invoker();
BEGIN
  RETURN QUERY
    SELECT h.id, h.chain, h.at, h.who, h.camera, h.event, h.details, h.previous, h.hash
    FROM privid.history_log h
    WHERE h.readers IS NULL OR EXISTS (SELECT FROM unnest(h.readers) r(role) WHERE privid.acts_for(me, r.role))
       OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname::text = me)
    ORDER BY h.id;
END
$$;
COMMENT ON FUNCTION privid.read_history() IS 'the rows of privid.history for whoever asks';

CREATE VIEW privid.history AS
  SELECT h.id, h.chain, h.at, h.who, h.camera, h.event, h.details, h.previous, h.hash FROM privid.read_history() h;
COMMENT ON VIEW privid.history IS 'what was changed of the current role''s cameras, their shares and footage, by whom; all of it for a superuser';

-- Not for analysts: it tells files by their digests, and a digest would tell one video from another.
REVOKE EXECUTE ON FUNCTION privid.read_history(), privid.readers_of(text, text, jsonb), privid.note_readers() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.read_history() TO privid_owner;
GRANT SELECT ON privid.history TO privid_owner;

-- ---------------------------------------------------------------------------------------------------------------------
-- What analysts see of each other is their camera's owner's decision (option visibility)
-- ---------------------------------------------------------------------------------------------------------------------

-- Cameras over one account show what the most reserved of them does: what is spent is spent of all of them.
-- A camera's row may be of another that had its name, and its account another's, who has taken consent back.
CREATE VIEW privid.footage_now AS
  SELECT f.camera, f.recording FROM privid.footage f JOIN privid.promisers p ON p.camera = f.camera WHERE privid.uses_account(f.recording, p.owner);
COMMENT ON VIEW privid.footage_now IS 'accounts of cameras whose owners may use them now';
GRANT SELECT ON privid.footage_now TO privid_engine;

CREATE FUNCTION privid.shows_all(camera text, role text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT EXISTS (SELECT FROM pg_foreign_server s JOIN pg_roles r ON r.rolname::text = $2
                 WHERE s.srvname::text = $1 AND pg_has_role(r.oid, s.srvowner, 'USAGE'))
      OR NOT EXISTS (SELECT FROM pg_foreign_server s
                     WHERE 'visibility=own' = ANY (s.srvoptions)
                       AND (s.srvname::text = $1
                            OR EXISTS (SELECT FROM privid.footage_now f JOIN privid.footage_now o ON o.recording = f.recording
                                       WHERE f.camera = $1 AND o.camera = s.srvname::text)))
$$;
COMMENT ON FUNCTION privid.shows_all(text, text) IS 'whether a role may see what others did through a camera: it is the owner''s, or visibility is open';

CREATE FUNCTION privid.budget_of(camera text, role text, OUT begins timestamptz, OUT ends timestamptz, OUT frames int8range, OUT remaining numeric)
  RETURNS SETOF record LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  WITH seen AS MATERIALIZED (SELECT privid.shows_all($1, $2) AS "all")
  SELECT privid.moment(f.starts, step.first - f.shift, f.fps_numerator, f.fps_denominator),
         privid.moment(f.starts, step.next - f.shift, f.fps_numerator, f.fps_denominator),
         int8range(step.first - f.shift, step.next - f.shift),
         trim_scale(greatest(most.epsilon - CASE WHEN c.k = r.k THEN step.spent ELSE step.spent * c.k / r.k END, 0))
  FROM seen
  CROSS JOIN privid.cameras c
  JOIN privid.footage f ON f.camera = c.camera
  JOIN privid.footage_now n ON n.camera = f.camera
  JOIN privid.recordings r ON r.id = f.recording
  CROSS JOIN LATERAL (
    SELECT CASE WHEN seen.all THEN c.epsilon
                ELSE least(c.epsilon, (SELECT g.epsilon FROM privid.share_grants g
                                    JOIN privid.promisers p ON (p.camera, p.owner, p.server_oid) = (g.camera, g.owner, g.server_oid)
                                    WHERE g.camera = $1 AND g.role = $2)) END AS epsilon) most
  CROSS JOIN LATERAL (SELECT f.shift - greatest(r.r_star, 1) + 1 AS first, f.shift + f.frames AS next) line
  CROSS JOIN LATERAL (
    SELECT j.frame AS first, coalesce(lead(j.frame) OVER (ORDER BY j.frame), line.next) AS next, sum(j.jump) OVER (ORDER BY j.frame) AS spent
    FROM (
      SELECT greatest(e.frame, line.first) AS frame, sum(e.jump) AS jump
      FROM (
        SELECT line.first AS frame, 0::numeric AS jump
        UNION ALL
        SELECT l.frame, l.jump FROM privid.ledger l WHERE seen.all AND l.recording = r.id AND l.frame < line.next
        UNION ALL
        SELECT edge.frame, edge.jump
        FROM (SELECT x.charge, range_agg(int8range(lower(p.part) + x.shift - r.r_star + 1, upper(p.part) + x.shift)) AS places
              FROM privid.release_charges x
              JOIN privid.release_log l ON l.id = x.release
              CROSS JOIN LATERAL unnest(x.frames) p(part)
              WHERE NOT seen.all AND x.recording = r.id AND x.charge > 0 AND l.role = $2
              GROUP BY x.release, x.claim, x.charge) own
        CROSS JOIN LATERAL unnest(own.places) place(part)
        CROSS JOIN LATERAL (VALUES (lower(place.part), own.charge), (upper(place.part), -own.charge)) edge(frame, jump)
        WHERE edge.frame < line.next
      ) e
      GROUP BY 1
      HAVING sum(e.jump) <> 0 OR greatest(e.frame, line.first) = line.first
    ) j
  ) step
  WHERE c.camera = $1
$$;
COMMENT ON FUNCTION privid.budget_of(text, text) IS 'the timeline of a camera as ranges with what remains, as far as a role may see: of all that was charged, or of what the role itself was, where that in full';

CREATE FUNCTION privid.read_budget(camera text, OUT begins timestamptz, OUT ends timestamptz, OUT frames int8range, OUT remaining numeric)
  RETURNS SETOF record LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY SELECT b.begins, b.ends, b.frames, b.remaining FROM privid.budget_of($1, privid.invoker()) b;
END
$$;
COMMENT ON FUNCTION privid.read_budget(text) IS 'the rows of privid.budget for whoever asks';

CREATE OR REPLACE VIEW privid.budget AS
  SELECT c.camera, b.begins, b.ends, b.frames, b.remaining FROM privid.cameras c CROSS JOIN LATERAL privid.read_budget(c.camera) b;
COMMENT ON VIEW privid.budget IS 'the whole timeline of each camera, as ranges with what remains; where visibility is own, beside what the current role itself was charged';
ALTER VIEW privid.budget RESET (security_barrier);

CREATE OR REPLACE FUNCTION privid.available(camera text, epsilon numeric, OUT begins timestamptz, OUT ends timestamptz, OUT frames int8range)
  RETURNS SETOF record LANGUAGE privid STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY
    SELECT privid.moment(f.starts, w.first, f.fps_numerator, f.fps_denominator), privid.moment(f.starts, w.next, f.fps_numerator, f.fps_denominator),
           int8range(w.first, w.next)
    FROM privid.footage f
    JOIN privid.recordings r ON r.id = f.recording
    CROSS JOIN LATERAL (
      -- A window costs from r_star - 1 frames before it on: a stretch that can afford it is shorter by so many at its beginning.
      SELECT greatest(min(lower(b.frames)) + greatest(r.r_star, 1) - 1, 0) AS first, max(upper(b.frames)) AS next
      FROM (SELECT b.frames, b.remaining, count(*) FILTER (WHERE b.remaining < $2) OVER (ORDER BY b.frames) AS stretch
            FROM privid.budget_of($1, privid.invoker()) b) b
      WHERE b.remaining >= $2
      GROUP BY b.stretch) w
    WHERE f.camera = $1 AND w.first < w.next
    ORDER BY w.first;
END
$$;

-- What was released so far is for those who may see it; the function is otherwise as it was.
DO $$
DECLARE
  called text := pg_get_functiondef('privid.exposure(text, interval, bigint, double precision)'::regprocedure);
BEGIN
  called := replace(called, E' LANGUAGE plpgsql\n STABLE SECURITY DEFINER\n', E' LANGUAGE privid\n STABLE\n');
  called := replace(called, '(SELECT max(c.epsilon - b.remaining) FROM privid.budget b WHERE b.camera = c.camera)',
    'CASE WHEN privid.shows_all(c.camera, privid.invoker()) AND EXISTS (SELECT FROM privid.footage_now n WHERE n.camera = c.camera)
              THEN coalesce((SELECT max(c.epsilon - b.remaining) FROM privid.budget_of(c.camera, privid.invoker()) b), 0) END');
  called := replace(called, 'coalesce(policy.spent, 0)', 'policy.spent');
  ASSERT called ~ 'LANGUAGE privid' AND called ~ 'shows_all' AND called !~ 'privid\.budget ' AND called !~ 'coalesce\(policy', called;
  EXECUTE called;
END
$$;

-- A job of a camera that shows each his own is for the role whose release it runs for, and for the owner.
ALTER TABLE privid.timetable ADD COLUMN kept_for text NOT NULL DEFAULT '';
COMMENT ON COLUMN privid.timetable.kept_for IS 'role whose release it is, where the camera''s visibility is own; otherwise empty';

CREATE FUNCTION privid.read_progress(OUT job text, OUT camera text, OUT "table" text, OUT slots bigint, OUT slots_over bigint, OUT lanes integer,
                                     OUT begins timestamptz, OUT ends timestamptz, OUT percent numeric) RETURNS SETOF record
  LANGUAGE privid VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me text := privid.invoker();
BEGIN
  RETURN QUERY
    SELECT t.job, t.camera, CASE WHEN privid.acts_for(me, t.owner::text) THEN t."table" END,
           t.slots, floor(t.slots * p.share)::bigint, t.lanes, t.begins, t.ends, round((100 * p.share)::numeric, 1)
    FROM privid.timetable t
    CROSS JOIN LATERAL (SELECT least(1, greatest(0, extract(epoch FROM clock_timestamp() - t.begins)
                                                    / greatest(0.001, extract(epoch FROM t.ends - t.begins)))) AS share) p
    WHERE t.kept_for = '' OR privid.acts_for(me, t.kept_for)
       OR EXISTS (SELECT FROM privid.camera_definitions c WHERE c.camera = t.camera AND privid.acts_for(me, c.owner));
END
$$;
COMMENT ON FUNCTION privid.read_progress() IS 'the rows of privid.progress for whoever asks';

CREATE OR REPLACE VIEW privid.progress AS
  SELECT p.job, p.camera, p."table", p.slots, p.slots_over, p.lanes, p.begins, p.ends, p.percent FROM privid.read_progress() p;
COMMENT ON VIEW privid.progress IS 'how far the tables that are being read have come, by the public timetable alone; tables of other roles have no name, and where visibility is own their jobs are not shown';
ALTER VIEW privid.progress RESET (security_barrier);

REVOKE EXECUTE ON FUNCTION privid.shows_all(text, text), privid.budget_of(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.shows_all(text, text) TO privid_engine;

-- ---------------------------------------------------------------------------------------------------------------------
-- The ledger, and what the engine posts, is written by the engine alone
-- ---------------------------------------------------------------------------------------------------------------------

-- Rights on tables can be had by membership (pg_write_all_data); the role under which the engine writes cannot, where the library is
-- preloaded: it lets nobody but a superuser grant it.
CREATE FUNCTION privid.refuse_others() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for table %s', TG_TABLE_NAME),
      DETAIL = 'Only the engine writes it, whatever rights on the table a role has.';
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION privid.refuse_others() IS 'trigger that lets nobody but the engine and superusers write';
REVOKE EXECUTE ON FUNCTION privid.refuse_others() FROM PUBLIC;
DO $$
DECLARE
  kept regclass;
BEGIN
  FOR kept IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'privid'::regnamespace AND c.relkind = 'r' ORDER BY c.relname LOOP
    EXECUTE format('CREATE TRIGGER refuse_others BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT '
                   'WHEN (current_user <> ''privid_engine'') EXECUTE FUNCTION privid.refuse_others()', kept);
    EXECUTE format('COMMENT ON TRIGGER refuse_others ON %s IS ''written by the engine and by functions of the extension alone''', kept);
  END LOOP;
END
$$;
