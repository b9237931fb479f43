-- From privid 0.1.0 to 0.2.0: the whole algebra, and a ledger that tells where it stands. A fresh install runs this after 0.1.0.

\echo Use "ALTER EXTENSION privid UPDATE TO '0.2.0'" to load this file. \quit

-- ---------------------------------------------------------------------------------------------------------------------
-- Ledger
-- ---------------------------------------------------------------------------------------------------------------------

ALTER TABLE privid.release_charges ADD COLUMN uses jsonb;
COMMENT ON COLUMN privid.release_charges.uses IS 'chunks of each table, when the release is linear: it is charged in proportion to those that a segment meets';
COMMENT ON COLUMN privid.release_charges.charge IS 'the same in the recording''s unit of account, where a segment meets as many chunks as any; less elsewhere when uses are told';

CREATE TABLE privid.ledger_blocks (
  recording bigint NOT NULL REFERENCES privid.recordings,
  first     bigint NOT NULL,
  added     numeric NOT NULL CHECK (added >= 0 AND added < 'Infinity'),
  peak      numeric NOT NULL,
  PRIMARY KEY (recording, first)
);
COMMENT ON TABLE privid.ledger_blocks IS 'runs of neighbouring steps of the ledger, once there are many: what is charged over all of a run is added here';
COMMENT ON COLUMN privid.ledger_blocks.first IS 'frame of its first step; the block reaches to the next block';
COMMENT ON COLUMN privid.ledger_blocks.added IS 'is spent at each of its steps besides what the step itself says';
COMMENT ON COLUMN privid.ledger_blocks.peak IS 'the most that one of its steps itself says';
COMMENT ON COLUMN privid.ledger.spent IS 'sum of the charges, in the recording''s unit of account, without what was added to its block';
GRANT SELECT, INSERT, UPDATE ON privid.ledger_blocks TO privid_engine;
SELECT pg_catalog.pg_extension_config_dump('privid.ledger_blocks', '');

CREATE VIEW privid.ledger_levels AS
  SELECT l.recording, l.frame,
         l.spent + coalesce((SELECT b.added FROM privid.ledger_blocks b WHERE b.recording = l.recording AND b.first <= l.frame
                             ORDER BY b.first DESC LIMIT 1), 0) AS spent
  FROM privid.ledger l;
COMMENT ON VIEW privid.ledger_levels IS 'the ledger with what was added to its blocks';

CREATE OR REPLACE VIEW privid.budget WITH (security_barrier = true) AS
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
      SELECT line.first, coalesce((SELECT l.spent FROM privid.ledger_levels l
                                   WHERE l.recording = r.id AND l.frame <= line.first
                                   ORDER BY l.frame DESC LIMIT 1), 0) AS spent
      UNION ALL
      SELECT l.frame, l.spent FROM privid.ledger_levels l
      WHERE l.recording = r.id AND l.frame > line.first AND l.frame < line.next
    ) p
  ) step;

-- Another content may lie in the place of an earlier one (a re-encoded file): both share the account of the place.
ALTER TABLE privid.recording_files DROP CONSTRAINT recording_files_recording_first_frame_key;
ALTER TABLE privid.recording_files ADD COLUMN path text;
COMMENT ON COLUMN privid.recording_files.path IS 'where the file lay under the video root when it was registered';
CREATE INDEX recording_files_place ON privid.recording_files (recording, first_frame);
CREATE INDEX recording_files_path ON privid.recording_files (path);

ALTER TABLE privid.recordings ADD COLUMN starts timestamptz, ADD COLUMN fps_numerator bigint, ADD COLUMN fps_denominator bigint;
COMMENT ON COLUMN privid.recordings.starts IS 'when frame 0 was filmed, as first declared: footage that replaces other is placed by its time';
UPDATE privid.recordings r
  SET starts = privid.moment(f.starts, -f.shift, f.fps_numerator, f.fps_denominator),
      fps_numerator = f.fps_numerator, fps_denominator = f.fps_denominator
  FROM privid.footage f WHERE f.recording = r.id;

-- History: what owners and the engine changed, in two chains. The engine never waits for an owner's open transaction, because it does not
-- write to the owners' chain. Rows are linked by hashes and cannot be changed.

CREATE TABLE privid.history (
  id       bigserial PRIMARY KEY,
  chain    text NOT NULL CHECK (chain IN ('owners', 'engine')),
  at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  who      text NOT NULL,
  camera   text,
  event    text NOT NULL,
  details  jsonb NOT NULL,
  previous text NOT NULL,
  hash     text NOT NULL,
  UNIQUE (chain, previous)
);
COMMENT ON TABLE privid.history IS 'what was changed of cameras, shares and footage, by whom; only ever added to, each entry linked to the one before by its hash';
COMMENT ON COLUMN privid.history.previous IS 'hash of the entry before in the same chain; zeros for the first';
COMMENT ON COLUMN privid.history.hash IS 'SHA-256 of this entry, previous included';

CREATE FUNCTION privid.hash_history(privid.history) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.jsonb_build_array(
    $1.previous, $1.id, $1.chain, extract(epoch FROM $1.at), $1.who, $1.camera, $1.event, $1.details)::text, 'UTF8')), 'hex');
COMMENT ON FUNCTION privid.hash_history(privid.history) IS 'the hash that an entry must have';

CREATE FUNCTION privid.invoker() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  RETURN CASE WHEN coalesce(pg_catalog.current_setting('role', true), 'none') IN ('none', '') THEN session_user::text
              ELSE pg_catalog.current_setting('role') END;
COMMENT ON FUNCTION privid.invoker() IS 'who asked, seen from inside a function that runs with other rights';

-- pg_dump's scripts set this, and only a superuser can restore the extension's tables.
CREATE FUNCTION privid.is_restoring() RETURNS boolean LANGUAGE sql STABLE
  RETURN pg_catalog.current_setting('check_function_bodies') = 'off'
     AND (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = session_user);
COMMENT ON FUNCTION privid.is_restoring() IS 'whether a dump is being restored, which brings its history along';

CREATE FUNCTION privid.write_history(chain text, who text, camera text, event text, details jsonb) RETURNS bigint
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  entry privid.history;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('privid.history ' || chain, 0));
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
  RETURN entry.id;
END
$$;
COMMENT ON FUNCTION privid.write_history(text, text, text, text, jsonb) IS 'appends an entry to a chain of privid.history';

CREATE FUNCTION privid.refuse_rewriting() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'privid.history cannot be changed',
    DETAIL = format('%s was attempted.', TG_OP), HINT = 'Entries are only ever added.';
END
$$;
COMMENT ON FUNCTION privid.refuse_rewriting() IS 'trigger that refuses changes of what is only ever added to';
CREATE TRIGGER refuse_rewriting BEFORE UPDATE OR DELETE OR TRUNCATE ON privid.history
  FOR EACH STATEMENT EXECUTE FUNCTION privid.refuse_rewriting();
COMMENT ON TRIGGER refuse_rewriting ON privid.history IS 'history is only ever added to';

-- SECURITY DEFINER: everybody may check the chain, though only owners may read it.
CREATE FUNCTION privid.verify_history(OUT chain text, OUT id bigint, OUT problem text) RETURNS SETOF record
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT DISTINCT ON (link.chain) link.chain, link.id, link.problem
  FROM (SELECT h.chain, h.id,
               CASE WHEN h.hash IS DISTINCT FROM privid.hash_history(h.*) THEN 'entry was changed'
                    WHEN h.previous IS DISTINCT FROM coalesce(pg_catalog.lag(h.hash) OVER (PARTITION BY h.chain ORDER BY h.id),
                                                              pg_catalog.repeat('0', 64))
                    THEN 'entry before it is missing or was changed' END AS problem
        FROM privid.history h) link
  WHERE link.problem IS NOT NULL
  ORDER BY link.chain, link.id;
END;
COMMENT ON FUNCTION privid.verify_history() IS 'the first broken link of each chain of privid.history; no rows when all is as it was written';

-- Definitions of cameras as history saw them last. Compared with the catalogs, so that nothing done meanwhile goes unnoticed.

CREATE TABLE privid.camera_state (
  camera  text PRIMARY KEY,
  owner   text NOT NULL,
  options jsonb NOT NULL
);
COMMENT ON TABLE privid.camera_state IS 'cameras as privid.history last saw them';

CREATE VIEW privid.camera_definitions WITH (security_barrier = true) AS
  SELECT s.srvname::text AS camera, pg_catalog.pg_get_userbyid(s.srvowner)::text AS owner,
         coalesce((SELECT pg_catalog.jsonb_object_agg(x.option_name, x.option_value) FROM pg_catalog.pg_options_to_table(s.srvoptions) x),
                  '{}') AS options
  FROM pg_catalog.pg_foreign_server s
  JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwname = 'privid';
COMMENT ON VIEW privid.camera_definitions IS 'cameras as the catalogs have them';

-- ---------------------------------------------------------------------------------------------------------------------
-- Ledger: shares of a camera's budget
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION privid.owns_camera(camera text) RETURNS boolean LANGUAGE sql STABLE
  RETURN EXISTS (SELECT FROM pg_catalog.pg_foreign_server s
                 JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwname = 'privid'
                 WHERE s.srvname::text = $1 AND pg_catalog.pg_has_role(s.srvowner, 'USAGE'));
COMMENT ON FUNCTION privid.owns_camera(text) IS 'whether the current role owns the camera';

CREATE TABLE privid.share_grants (
  camera     text NOT NULL,
  role       text NOT NULL,
  epsilon    numeric CHECK (epsilon > 0 AND epsilon < 'Infinity'),
  granted_by text NOT NULL DEFAULT current_user,
  granted_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  PRIMARY KEY (camera, role)
);
COMMENT ON TABLE privid.share_grants IS 'how much of a camera''s epsilon a role may consume; a camera without any row is open to all who may use it';
COMMENT ON COLUMN privid.share_grants.role IS 'a role, which shares it with its members, or public';
COMMENT ON COLUMN privid.share_grants.epsilon IS 'NULL once revoked: the row stays, so that the camera does not become open to all';

ALTER TABLE privid.share_grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON privid.share_grants USING (privid.owns_camera(camera)) WITH CHECK (privid.owns_camera(camera));
CREATE POLICY engine ON privid.share_grants FOR SELECT TO privid_engine USING (true);
COMMENT ON POLICY owner ON privid.share_grants IS 'shares are given by the camera''s owner';
COMMENT ON POLICY engine ON privid.share_grants IS 'the engine reads all';

CREATE TABLE privid.share_accounts (
  id        bigserial PRIMARY KEY,
  recording bigint NOT NULL REFERENCES privid.recordings,
  role      text NOT NULL,
  UNIQUE (recording, role)
);
COMMENT ON TABLE privid.share_accounts IS 'what was consumed of a recording under the share of a role; made with the first release under it';

CREATE TABLE privid.share_ledger (
  share bigint NOT NULL REFERENCES privid.share_accounts,
  frame bigint NOT NULL,
  spent numeric NOT NULL CHECK (spent >= 0 AND spent < 'Infinity'),
  PRIMARY KEY (share, frame)
);
COMMENT ON TABLE privid.share_ledger IS 'a step function for each account of a share, as privid.ledger is one for each recording';

ALTER TABLE privid.release_charges ADD COLUMN share text;
COMMENT ON COLUMN privid.release_charges.share IS 'role under whose share it was charged; NULL when the camera had no shares or its owner asked';

CREATE FUNCTION privid.note_share() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM privid.write_history('owners', privid.invoker(), NEW.camera,
    CASE WHEN NEW.epsilon IS NULL THEN 'share revoked' ELSE 'share granted' END,
    jsonb_build_object('role', NEW.role, 'epsilon', NEW.epsilon));
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION privid.note_share() IS 'trigger that writes shares to privid.history';
CREATE TRIGGER note_share AFTER INSERT OR UPDATE OF epsilon ON privid.share_grants FOR EACH ROW
  WHEN (NOT privid.is_restoring()) EXECUTE FUNCTION privid.note_share();
COMMENT ON TRIGGER note_share ON privid.share_grants IS 'shares are told in privid.history, unless a dump is being restored';

CREATE FUNCTION privid.grant_budget(camera text, role text, epsilon numeric) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
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
  INSERT INTO privid.share_grants AS g (camera, role, epsilon) VALUES (camera, role, epsilon)
    ON CONFLICT ON CONSTRAINT share_grants_pkey
    DO UPDATE SET epsilon = excluded.epsilon, granted_by = current_user, granted_at = now();
END
$$;
COMMENT ON FUNCTION privid.grant_budget(text, text, numeric) IS 'lets a role and its members together consume up to epsilon of a camera; from the first grant on, who has no share can consume nothing';

CREATE FUNCTION privid.revoke_budget(camera text, role text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  PERFORM privid.check_share(camera, role, true);
  UPDATE privid.share_grants g SET epsilon = NULL, granted_by = current_user, granted_at = now()
    WHERE g.camera = camera AND g.role = role AND g.epsilon IS NOT NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" has no share of camera "%s"', role, camera),
      HINT = 'The view privid.shares shows who has.';
  END IF;
END
$$;
COMMENT ON FUNCTION privid.revoke_budget(text, text) IS 'takes a share back; what was consumed under it stays consumed';

CREATE FUNCTION privid.check_share(camera text, role text, gone boolean DEFAULT false) RETURNS void
  LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM privid.camera_definitions c WHERE c.camera = $1) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('camera "%s" does not exist', $1), HINT = 'The view privid.cameras shows all.';
  END IF;
  IF NOT privid.owns_camera($1) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of camera "%s"', $1);
  END IF;
  IF $2 IS NULL OR ($2 <> 'public' AND NOT $3 AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname::text = $2)) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', $2);
  END IF;
END
$$;
COMMENT ON FUNCTION privid.check_share(text, text, boolean) IS 'refuses a share that cannot be given';

CREATE VIEW privid.shares WITH (security_barrier = true) AS
  SELECT g.camera, g.role, g.epsilon,
         pg_catalog.trim_scale(coalesce(used.spent * c.k / r.k, 0)) AS spent,
         pg_catalog.trim_scale(greatest(least(g.epsilon, c.epsilon) - coalesce(used.spent * c.k / r.k, 0), 0)) AS remaining,
         g.granted_by, g.granted_at
  FROM privid.share_grants g
  JOIN privid.cameras c ON c.camera = g.camera
  LEFT JOIN privid.footage f ON f.camera = g.camera
  LEFT JOIN privid.recordings r ON r.id = f.recording
  LEFT JOIN LATERAL (SELECT pg_catalog.max(l.spent) AS spent FROM privid.share_accounts a JOIN privid.share_ledger l ON l.share = a.id
                     WHERE a.recording = r.id AND a.role = g.role) used ON true
  WHERE g.epsilon IS NOT NULL;
COMMENT ON VIEW privid.shares IS 'shares of the cameras'' budgets, and what of each is spent where most is spent';

-- Cameras that are made, altered, renamed, given away or dropped

CREATE FUNCTION privid.reconcile_cameras(tag text, wait boolean) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  owners  bigint := hashtextextended('privid.history owners', 0);
  who     text := CASE WHEN wait THEN privid.invoker() ELSE 'unseen' END;
  gone    text[];
  fresh   text[];
  changed record;
BEGIN
  -- The engine does not wait: whoever holds the lock has a definition under way and reconciles himself.
  IF wait THEN
    PERFORM pg_advisory_xact_lock(owners);
  ELSIF NOT pg_try_advisory_xact_lock(owners) THEN
    RETURN;
  END IF;
  gone := ARRAY(SELECT k.camera FROM privid.camera_state k
                WHERE NOT EXISTS (SELECT FROM privid.camera_definitions c WHERE c.camera = k.camera));
  fresh := ARRAY(SELECT c.camera FROM privid.camera_definitions c
                 WHERE NOT EXISTS (SELECT FROM privid.camera_state k WHERE k.camera = c.camera));
  IF tag = 'ALTER SERVER' AND cardinality(gone) = 1 AND cardinality(fresh) = 1 THEN
    UPDATE privid.camera_state k SET camera = fresh[1] WHERE k.camera = gone[1];
    DELETE FROM privid.share_grants g WHERE g.camera = fresh[1];
    UPDATE privid.share_grants g SET camera = fresh[1] WHERE g.camera = gone[1];
    PERFORM privid.write_history('owners', who, fresh[1], 'renamed', jsonb_build_object('from', gone[1], 'to', fresh[1]));
    gone := '{}';
    fresh := '{}';
  END IF;
  FOR changed IN SELECT k.camera, k.owner, k.options FROM privid.camera_state k WHERE k.camera = ANY (gone) ORDER BY 1 LOOP
    PERFORM privid.write_history('owners', who, changed.camera, 'dropped', jsonb_build_object('owner', changed.owner, 'options', changed.options));
    DELETE FROM privid.camera_state k WHERE k.camera = changed.camera;
  END LOOP;
  FOR changed IN SELECT c.camera, c.owner, c.options FROM privid.camera_definitions c WHERE c.camera = ANY (fresh) ORDER BY 1 LOOP
    PERFORM privid.write_history('owners', who, changed.camera, 'created', jsonb_build_object('owner', changed.owner, 'options', changed.options));
    INSERT INTO privid.camera_state VALUES (changed.camera, changed.owner, changed.options);
  END LOOP;
  FOR changed IN
    SELECT c.camera, c.owner, c.options, k.owner AS old_owner, k.options AS old_options
    FROM privid.camera_definitions c JOIN privid.camera_state k ON k.camera = c.camera
    WHERE (c.owner, c.options) IS DISTINCT FROM (k.owner, k.options) ORDER BY 1
  LOOP
    PERFORM privid.write_history('owners', who, changed.camera, 'altered', (
      SELECT jsonb_object_agg(d.name, jsonb_build_object('from', d.before, 'to', d.after))
      FROM (SELECT coalesce(o.key, n.key) AS name, o.value AS before, n.value AS after
            FROM jsonb_each_text(changed.old_options) o FULL JOIN jsonb_each_text(changed.options) n ON n.key = o.key
            WHERE o.value IS DISTINCT FROM n.value
            UNION ALL
            SELECT 'owner', changed.old_owner, changed.owner WHERE changed.owner <> changed.old_owner) d));
    UPDATE privid.camera_state k SET owner = changed.owner, options = changed.options WHERE k.camera = changed.camera;
  END LOOP;
END
$$;
COMMENT ON FUNCTION privid.reconcile_cameras(text, boolean) IS 'writes to privid.history what the catalogs say of cameras and history does not know yet';

CREATE FUNCTION privid.note_definitions() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  -- A superuser who only pretends to restore is found out at the next occasion.
  IF NOT privid.is_restoring() THEN
    PERFORM privid.reconcile_cameras(TG_TAG, true);
  END IF;
END
$$;
COMMENT ON FUNCTION privid.note_definitions() IS 'writes changes of cameras to privid.history';
REVOKE EXECUTE ON FUNCTION privid.note_definitions() FROM PUBLIC;

-- Named so that it runs after privid_check_definition, which asks the engine.
CREATE EVENT TRIGGER privid_note_definitions ON ddl_command_end
  WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER', 'DROP SERVER', 'DROP OWNED')
  EXECUTE FUNCTION privid.note_definitions();
COMMENT ON EVENT TRIGGER privid_note_definitions IS 'changes of cameras are told in privid.history';

SELECT privid.reconcile_cameras('', true);

-- ---------------------------------------------------------------------------------------------------------------------
-- Ledger: seeing where one stands
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW privid.releases WITH (security_barrier = true) AS
  SELECT l.id, l.at, l.role AS who, c.camera, l.query, c.epsilon,
         l.mechanism,
         ARRAY(SELECT privid.read_number(x.output ->> 'scale')
               FROM pg_catalog.jsonb_array_elements(l.outputs) WITH ORDINALITY x(output, n) ORDER BY x.n) AS noise_scale,
         c.frames, l.answer, l.state, l.answered_at, l.duration, l.canonical, l.outputs, c.share,
         CASE WHEN c.charge = 0 THEN 'none' WHEN c.uses IS NULL THEN 'simple' ELSE 'exact' END AS rule
  FROM privid.release_log l
  JOIN privid.release_charges c ON c.release = l.id
  LEFT JOIN pg_catalog.pg_roles then_owner ON then_owner.rolname = c.owner::name
  LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = c.server_oid AND s.srvname = c.camera::name
  WHERE l.role = current_user::text
     OR pg_catalog.pg_has_role(current_user, then_owner.oid, 'USAGE')
     OR pg_catalog.pg_has_role(current_user, s.srvowner, 'USAGE')
     OR (SELECT me.rolsuper FROM pg_catalog.pg_roles me WHERE me.rolname = current_user);

CREATE FUNCTION privid.available(camera text, epsilon numeric, OUT begins timestamptz, OUT ends timestamptz, OUT frames int8range)
  RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT privid.moment(f.starts, w.first, f.fps_numerator, f.fps_denominator), privid.moment(f.starts, w.next, f.fps_numerator, f.fps_denominator),
         int8range(w.first, w.next)
  FROM (
    -- A window costs from r_star - 1 frames before it on: a stretch that can afford it is shorter by so many at its beginning.
    SELECT b.camera, greatest(min(lower(b.frames)) + greatest(r.r_star, 1) - 1, 0) AS first, max(upper(b.frames)) AS next
    FROM (SELECT b.*, count(*) FILTER (WHERE b.remaining < $2) OVER (PARTITION BY b.camera ORDER BY b.frames) AS stretch
          FROM privid.budget b WHERE b.camera = $1) b
    JOIN privid.footage f ON f.camera = b.camera
    JOIN privid.recordings r ON r.id = f.recording
    WHERE b.remaining >= $2
    GROUP BY b.camera, b.stretch, r.r_star) w
  JOIN privid.footage f ON f.camera = w.camera
  WHERE w.first < w.next
  ORDER BY w.first
$$;
COMMENT ON FUNCTION privid.available(text, numeric) IS 'the stretches of a camera in which any window can still afford epsilon; a linear release may also afford windows a little beyond them';

CREATE FUNCTION privid.detection(epsilon float8, false_positive float8) RETURNS float8 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN CASE WHEN $1 > 700 THEN 1 ELSE least(1, pg_catalog.exp($1) * $2, 1 - pg_catalog.exp(-$1) * (1 - $2)) END;
COMMENT ON FUNCTION privid.detection(float8, float8) IS 'the greatest probability with which an event can be told to have happened by a test that is wrong with at most the given probability when it did not';

CREATE FUNCTION privid.exposure(camera text, duration interval, times bigint DEFAULT 1, false_positive float8 DEFAULT 0.01,
                                OUT epsilon numeric, OUT detection float8, OUT epsilon_so_far numeric, OUT detection_so_far float8)
  RETURNS record LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  policy record;
  frames numeric;
  units  numeric;
BEGIN
  SELECT c.k, c.epsilon, c.fps, f.fps_numerator, f.fps_denominator, coalesce(privid.read_seconds(d.options ->> 'rho'), f.rho) AS rho,
         (SELECT max(c.epsilon - b.remaining) FROM privid.budget b WHERE b.camera = c.camera) AS spent
    INTO policy FROM privid.cameras c JOIN privid.camera_definitions d ON d.camera = c.camera LEFT JOIN privid.footage f ON f.camera = c.camera
    WHERE c.camera = camera;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('camera "%s" does not exist', camera), HINT = 'The view privid.cameras shows all.';
  END IF;
  IF duration < interval '0' OR times < 0 OR NOT false_positive BETWEEN 0 AND 1 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'duration and times must not be negative, and false_positive must lie between 0 and 1';
  END IF;
  IF policy.fps_numerator IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('footage of camera "%s" has not been seen yet', camera), HINT = 'Create or alter its server while the engine is running.';
  END IF;
  -- Segments of r frames that together cover one appearance; each loses at most epsilon / K.
  frames := floor(policy.rho * policy.fps_numerator / policy.fps_denominator);
  units := ceil(extract(epoch FROM duration)::numeric * policy.fps_numerator / policy.fps_denominator);
  IF extract(epoch FROM duration)::numeric <= policy.rho THEN
    units := least(units, frames);  -- what the policy promises is kept also where rho is no whole number of frames
  END IF;
  IF units * times = 0 THEN
    epsilon := 0;
    epsilon_so_far := 0;
  ELSIF frames = 0 OR policy.k = 0 THEN
    epsilon := 'Infinity';
    epsilon_so_far := 'Infinity';
  ELSE
    epsilon := trim_scale(policy.epsilon * ceil(units / frames) * times / policy.k);
    epsilon_so_far := trim_scale(coalesce(policy.spent, 0) * ceil(units / frames) * times / policy.k);
  END IF;
  detection := privid.detection(epsilon::float8, false_positive);
  detection_so_far := privid.detection(epsilon_so_far::float8, false_positive);
END
$$;
COMMENT ON FUNCTION privid.exposure(text, interval, bigint, float8) IS 'what an event of so many appearances of that length can lose: by the whole budget, and by what was released so far';

CREATE FUNCTION privid.split_statements(text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  rest   text := $1;
  token  text;
  depth  integer;
  part   text := '';
  parts  text[] := '{}';
BEGIN
  WHILE rest <> '' LOOP
    token := coalesce(substring(rest FROM '^(?:[^;''"$/eE-]+|[A-Za-z_][A-Za-z_0-9$]*(?!''))'),
                      substring(rest FROM '^[eE]''(?:[^''\\]|\\.|'''')*'''), substring(rest FROM '^''[^'']*'''), substring(rest FROM '^"[^"]*"'),
                      substring(rest FROM '^--[^\n]*'));
    IF token IS NULL AND rest ~ '^\$([A-Za-z_][A-Za-z_0-9]*)?\$' THEN
      token := substring(rest FROM '^\$(?:[A-Za-z_][A-Za-z_0-9]*)?\$');
      depth := strpos(substr(rest, length(token) + 1), token);
      token := CASE WHEN depth = 0 THEN rest ELSE left(rest, depth + 2 * length(token) - 1) END;
    ELSIF token IS NULL AND rest ~ '^/\*' THEN
      depth := 0;
      token := '';
      LOOP
        depth := depth + CASE WHEN substr(rest, length(token) + 1, 2) = '/*' THEN 1 WHEN substr(rest, length(token) + 1, 2) = '*/' THEN -1 ELSE 0 END;
        token := left(rest, length(token) + CASE WHEN substr(rest, length(token) + 1, 2) IN ('/*', '*/') THEN 2 ELSE 1 END);
        EXIT WHEN depth = 0 OR length(token) >= length(rest);
      END LOOP;
    END IF;
    IF token IS NULL AND left(rest, 1) = ';' THEN
      parts := parts || part;
      part := '';
      rest := substr(rest, 2);
    ELSE
      token := coalesce(nullif(token, ''), left(rest, 1));
      part := part || token;
      rest := substr(rest, length(token) + 1);
    END IF;
  END LOOP;
  RETURN ARRAY(SELECT btrim(p.text, E' \t\r\n') FROM unnest(parts || part) WITH ORDINALITY p(text, n) WHERE btrim(p.text, E' \t\r\n') <> '' ORDER BY p.n);
END
$$;
COMMENT ON FUNCTION privid.split_statements(text) IS 'the statements of a text, apart at semicolons that stand in no string, name or comment';

-- The search path of the caller arrives as a default: the function's own is pinned.
CREATE FUNCTION privid.afford(statements text, path text DEFAULT pg_catalog.current_setting('search_path'),
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
  statement := 0;
  FOREACH query IN ARRAY privid.split_statements(statements) LOOP
    statement := statement + 1;
    camera := NULL; epsilon := NULL; remaining := NULL; affordable := NULL; note := NULL;
    IF query !~* '^(\s|--[^\n]*(\n|$)|/\*([^*]|\*[^/])*\*/)*(select|with|table|values|execute|\()' THEN
      note := 'not a query';
      RETURN NEXT;
      CONTINUE;
    END IF;
    BEGIN
      PERFORM set_config('search_path', path, true);
      EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
      PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
    EXCEPTION WHEN OTHERS THEN
      affordable := false;
      note := SQLERRM;
      RETURN NEXT;
      CONTINUE;
    END;
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
COMMENT ON FUNCTION privid.afford(text, text) IS 'what each statement of a batch would cost after those before it, and whether it could be afforded; runs nothing and charges nothing';

-- ---------------------------------------------------------------------------------------------------------------------
-- Ledger: rights, and what a dump keeps
-- ---------------------------------------------------------------------------------------------------------------------

REVOKE EXECUTE ON FUNCTION privid.write_history(text, text, text, text, jsonb), privid.reconcile_cameras(text, boolean),
  privid.note_share(), privid.refuse_rewriting() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.write_history(text, text, text, text, jsonb), privid.reconcile_cameras(text, boolean) TO privid_engine;
REVOKE EXECUTE ON FUNCTION privid.grant_budget(text, text, numeric), privid.revoke_budget(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.grant_budget(text, text, numeric), privid.revoke_budget(text, text) TO privid_owner;
GRANT SELECT, INSERT (camera, role, epsilon), UPDATE (epsilon, granted_by, granted_at) ON privid.share_grants TO privid_owner;
GRANT SELECT ON privid.shares, privid.camera_definitions TO PUBLIC;
-- Not for analysts: it tells files by their digests, and a digest would tell one video from another.
GRANT SELECT ON privid.history TO privid_owner;
GRANT SELECT ON privid.share_grants TO privid_engine;
GRANT SELECT, INSERT ON privid.share_accounts TO privid_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON privid.share_ledger TO privid_engine;
GRANT USAGE ON SEQUENCE privid.share_accounts_id_seq TO privid_engine;

SELECT pg_catalog.pg_extension_config_dump('privid.history', '');
SELECT pg_catalog.pg_extension_config_dump('privid.history_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('privid.camera_state', '');
SELECT pg_catalog.pg_extension_config_dump('privid.share_grants', '');
SELECT pg_catalog.pg_extension_config_dump('privid.share_accounts', '');
SELECT pg_catalog.pg_extension_config_dump('privid.share_accounts_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('privid.share_ledger', '');

-- ---------------------------------------------------------------------------------------------------------------------
-- Calculus
-- ---------------------------------------------------------------------------------------------------------------------

-- Version 0.2.0 made more total functions here, of which the same is true as of those of 0.1.0.

-- The most frequent value. In a release the library answers it by a mechanism of its own; over ordinary tables it is mode().
CREATE FUNCTION privid.most_frequent(anycompatiblearray) RETURNS anycompatible
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
  AS 'SELECT mode() WITHIN GROUP (ORDER BY x) FROM unnest($1) x';
COMMENT ON FUNCTION privid.most_frequent(anycompatiblearray) IS 'the most frequent element, the least of them if there are several';

CREATE AGGREGATE privid.argmax(anycompatible) (
  SFUNC = pg_catalog.array_append, STYPE = anycompatiblearray, FINALFUNC = privid.most_frequent
);
COMMENT ON AGGREGATE privid.argmax(anycompatible) IS 'the most frequent value; in a release, by permute-and-flip';

-- ---------------------------------------------------------------------------------------------------------------------
-- Engine
-- ---------------------------------------------------------------------------------------------------------------------

-- Files attached to an executable (the weights of a model), found by it at /app/files/NAME. They go when it is removed.
CREATE TABLE privid.attachment_store (
  owner       name NOT NULL DEFAULT current_user,
  executable  text NOT NULL,
  name        text NOT NULL CHECK (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$'),
  content     bytea NOT NULL CHECK (pg_catalog.octet_length(content) BETWEEN 1 AND 268435456),
  sha256      text NOT NULL GENERATED ALWAYS AS (pg_catalog.encode(pg_catalog.sha256(content), 'hex')) STORED,
  attached_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  PRIMARY KEY (owner, executable, name),
  FOREIGN KEY (owner, executable) REFERENCES privid.executable_store (owner, name) ON DELETE CASCADE
);
CREATE INDEX attachment_store_sha256 ON privid.attachment_store (sha256);
ALTER TABLE privid.attachment_store ALTER COLUMN content SET STORAGE EXTERNAL;
COMMENT ON TABLE privid.attachment_store IS 'files attached to executables, by content';
COMMENT ON COLUMN privid.attachment_store.owner IS 'role that attached it; row-level security shows it to that role alone';

ALTER TABLE privid.attachment_store ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON privid.attachment_store USING (owner = current_user) WITH CHECK (owner = current_user);
CREATE POLICY engine ON privid.attachment_store FOR SELECT TO privid_engine USING (true);
COMMENT ON POLICY own ON privid.attachment_store IS 'a role reads and writes its own files';
COMMENT ON POLICY engine ON privid.attachment_store IS 'the engine reads all';

CREATE FUNCTION privid.attach(executable text, name text, content bytea) RETURNS text
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  digest text;
  largest CONSTANT int := 268435456;
  most CONSTANT int := 32;
BEGIN
  IF NOT EXISTS (SELECT FROM privid.executable_store s WHERE s.owner = current_user AND s.name = executable) THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" does not exist', executable),
      HINT = 'Upload the executable first; the view privid.executables shows yours.';
  END IF;
  IF name IS NULL OR name !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid name for an attached file: "%s"', left(name, 100)),
      HINT = 'Use letters, digits, underscore, dot and hyphen, at most 63, not beginning with a dot or a hyphen.';
  END IF;
  IF content IS NULL OR octet_length(content) NOT BETWEEN 1 AND largest THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008',
      MESSAGE = format('file "%s" has %s bytes, but must have between 1 and %s', name, coalesce(octet_length(content), 0), largest),
      HINT = 'Split a larger file into several, or store its numbers with less precision.';
  END IF;
  IF (SELECT count(*) FROM privid.attachment_store s WHERE s.owner = current_user AND s.executable = executable AND s.name <> name) >= most THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" already has %s files, which is the limit', executable, most),
      HINT = 'Put several files into one archive.';
  END IF;
  INSERT INTO privid.attachment_store AS s (owner, executable, name, content) VALUES (current_user, executable, name, content)
    ON CONFLICT ON CONSTRAINT attachment_store_pkey DO UPDATE SET content = excluded.content, attached_at = now()
    RETURNING s.sha256 INTO digest;
  RETURN digest;
END
$$;
COMMENT ON FUNCTION privid.attach(text, text, bytea) IS 'attaches a file to an executable of the current role, in place of an earlier one of that name; returns its SHA-256';

CREATE FUNCTION privid.detach(executable text, name text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM privid.attachment_store s WHERE s.owner = current_user AND s.executable = executable AND s.name = name;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'PV008', MESSAGE = format('executable "%s" has no file "%s"', executable, name),
      HINT = 'The view privid.attachments shows yours.';
  END IF;
END
$$;
COMMENT ON FUNCTION privid.detach(text, text) IS 'removes a file from an executable of the current role';

CREATE VIEW privid.attachments WITH (security_invoker = true, security_barrier = true) AS
  SELECT s.executable, s.name, s.sha256, pg_catalog.octet_length(s.content) AS bytes, s.attached_at, s.owner
  FROM privid.attachment_store s
  WHERE s.owner = current_user;
COMMENT ON VIEW privid.attachments IS 'files attached to the current role''s executables';

-- The timetable of what runs now. Everything in it was fixed before any chunk was seen; nobody learns from it what a program does.
CREATE UNLOGGED TABLE privid.timetable (
  job     text PRIMARY KEY,
  camera  text NOT NULL,
  owner   name NOT NULL,
  "table" text NOT NULL,
  slots   bigint NOT NULL,
  lanes   integer NOT NULL,
  begins  timestamptz NOT NULL,
  ends    timestamptz NOT NULL
);
COMMENT ON TABLE privid.timetable IS 'slots reserved for the tables that are being read; emptied when the engine starts';

CREATE VIEW privid.progress WITH (security_barrier = true) AS
  SELECT t.job, t.camera,
         CASE WHEN pg_catalog.to_regrole(pg_catalog.quote_ident(t.owner)) IS NOT NULL AND pg_catalog.pg_has_role(t.owner, 'USAGE')
              THEN t."table" END AS "table",
         t.slots, pg_catalog.floor(t.slots * p.share)::bigint AS slots_over, t.lanes, t.begins, t.ends,
         pg_catalog.round((100 * p.share)::numeric, 1) AS percent
  FROM privid.timetable t,
       LATERAL (SELECT LEAST(1, GREATEST(0, EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - t.begins)
                                            / GREATEST(0.001, EXTRACT(EPOCH FROM t.ends - t.begins)))) AS share) p;
COMMENT ON VIEW privid.progress IS 'how far the tables that are being read have come, by the public timetable alone; tables of other roles have no name';

GRANT SELECT ON privid.progress TO PUBLIC;
GRANT SELECT ON privid.attachments TO privid_analyst, privid_owner;
GRANT SELECT, DELETE, INSERT (owner, executable, name, content), UPDATE (content, attached_at)
  ON privid.attachment_store TO privid_analyst, privid_owner;
REVOKE EXECUTE ON FUNCTION privid.attach(text, text, bytea), privid.detach(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.attach(text, text, bytea), privid.detach(text, text) TO privid_analyst, privid_owner;
GRANT SELECT ON privid.attachment_store TO privid_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON privid.timetable TO privid_engine;
SELECT pg_catalog.pg_extension_config_dump('privid.attachment_store', '');
