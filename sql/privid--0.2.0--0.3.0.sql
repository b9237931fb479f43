-- From privid 0.2.0 to 0.3.0: masks and regions, and a ledger that is written by its jumps. A fresh install runs this after 0.2.0.

\echo Use "ALTER EXTENSION privid UPDATE TO '0.3.0'" to load this file. \quit

-- ---------------------------------------------------------------------------------------------------------------------
-- Ledger: jumps in place of levels, so that a debit over any window writes two of them, and blocks of blocks over them
-- ---------------------------------------------------------------------------------------------------------------------

-- The column has another name with its other meaning: a dump of 0.2.0 cannot be loaded as if it held jumps.
ALTER TABLE privid.ledger DROP CONSTRAINT ledger_spent_check;
ALTER TABLE privid.share_ledger DROP CONSTRAINT share_ledger_spent_check;
ALTER TABLE privid.ledger RENAME COLUMN spent TO jump;
ALTER TABLE privid.share_ledger RENAME COLUMN spent TO jump;

UPDATE privid.ledger l SET jump = step.jump
  FROM (SELECT s.recording, s.frame, s.spent - coalesce(pg_catalog.lag(s.spent) OVER (PARTITION BY s.recording ORDER BY s.frame), 0) AS jump
        FROM privid.ledger_levels s) step
  WHERE l.recording = step.recording AND l.frame = step.frame;
UPDATE privid.share_ledger l SET jump = step.jump
  FROM (SELECT s.share, s.frame, s.jump - coalesce(pg_catalog.lag(s.jump) OVER (PARTITION BY s.share ORDER BY s.frame), 0) AS jump
        FROM privid.share_ledger s) step
  WHERE l.share = step.share AND l.frame = step.frame;
DELETE FROM privid.ledger l WHERE l.jump = 0;  -- a block of 0.2.0 could begin where nothing rose or fell
DELETE FROM privid.share_ledger l WHERE l.jump = 0;

ALTER TABLE privid.ledger ADD CONSTRAINT ledger_jump_check CHECK (jump > '-Infinity' AND jump < 'Infinity');
ALTER TABLE privid.share_ledger ADD CONSTRAINT share_ledger_jump_check CHECK (jump > '-Infinity' AND jump < 'Infinity');
COMMENT ON TABLE privid.ledger IS 'budget spent, as a step function: the frames at which it rises or falls; before the first and from the last on it is 0';
COMMENT ON COLUMN privid.ledger.frame IS 'first frame of a protected segment, on the recording''s timeline';
COMMENT ON COLUMN privid.ledger.jump IS 'by how much more is spent from here on than before, in the recording''s unit of account; less where it is negative';
COMMENT ON COLUMN privid.share_ledger.jump IS 'as in privid.ledger';

CREATE OR REPLACE VIEW privid.ledger_levels AS
  SELECT l.recording, l.frame, pg_catalog.sum(l.jump) OVER (PARTITION BY l.recording ORDER BY l.frame) AS spent FROM privid.ledger l;
COMMENT ON VIEW privid.ledger_levels IS 'what is spent from each frame on at which that changes';

CREATE VIEW privid.share_levels AS
  SELECT l.share, l.frame, pg_catalog.sum(l.jump) OVER (PARTITION BY l.share ORDER BY l.frame) AS spent FROM privid.share_ledger l;
COMMENT ON VIEW privid.share_levels IS 'the same under each account of a share';

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
      SELECT line.first, coalesce((SELECT pg_catalog.sum(l.jump) FROM privid.ledger l
                                   WHERE l.recording = r.id AND l.frame <= line.first), 0) AS spent
      UNION ALL
      SELECT l.frame, l.spent FROM privid.ledger_levels l
      WHERE l.recording = r.id AND l.frame > line.first AND l.frame < line.next
    ) p
  ) step;

CREATE OR REPLACE VIEW privid.shares WITH (security_barrier = true) AS
  SELECT g.camera, g.role, g.epsilon,
         pg_catalog.trim_scale(coalesce(used.spent * c.k / r.k, 0)) AS spent,
         pg_catalog.trim_scale(greatest(least(g.epsilon, c.epsilon) - coalesce(used.spent * c.k / r.k, 0), 0)) AS remaining,
         g.granted_by, g.granted_at
  FROM privid.share_grants g
  JOIN privid.cameras c ON c.camera = g.camera
  LEFT JOIN privid.footage f ON f.camera = g.camera
  LEFT JOIN privid.recordings r ON r.id = f.recording
  LEFT JOIN LATERAL (SELECT pg_catalog.max(l.spent) AS spent FROM privid.share_accounts a JOIN privid.share_levels l ON l.share = a.id
                     WHERE a.recording = r.id AND a.role = g.role) used ON true
  WHERE g.epsilon IS NOT NULL;

DELETE FROM privid.ledger_blocks;
ALTER TABLE privid.ledger_blocks DROP CONSTRAINT ledger_blocks_pkey, DROP COLUMN added, DROP COLUMN peak,
  ADD COLUMN height integer NOT NULL CHECK (height > 0), ADD COLUMN total numeric NOT NULL, ADD COLUMN peak numeric,
  ADD PRIMARY KEY (recording, height, first);
CREATE TABLE privid.share_blocks (
  share  bigint NOT NULL REFERENCES privid.share_accounts,
  first  bigint NOT NULL,
  height integer NOT NULL CHECK (height > 0),
  total  numeric NOT NULL,
  peak   numeric,
  PRIMARY KEY (share, height, first)
);
COMMENT ON TABLE privid.ledger_blocks IS 'runs of neighbouring jumps of the ledger, once there are many, and runs of such runs; those of one height cover all frames';
COMMENT ON COLUMN privid.ledger_blocks.height IS '1 for a run of jumps; otherwise a run of blocks whose height is one less';
COMMENT ON COLUMN privid.ledger_blocks.first IS 'from which frame on; the block reaches to the next of its height';
COMMENT ON COLUMN privid.ledger_blocks.total IS 'sum of the jumps in it';
COMMENT ON COLUMN privid.ledger_blocks.peak IS 'the most that is spent from one of its jumps on, more than before the block; NULL when it has no jump';
COMMENT ON TABLE privid.share_blocks IS 'blocks of privid.share_ledger, as privid.ledger_blocks are those of privid.ledger';
GRANT SELECT, INSERT, UPDATE ON privid.share_blocks TO privid_engine;
SELECT pg_catalog.pg_extension_config_dump('privid.share_blocks', '');

-- Blocks for what is there already; from now on the engine makes them. A block of one height less, or a jump, is a part.
DO $$
DECLARE
  kind    record;
  height  int;
  made    bigint;
  size    CONSTANT int := 32;
BEGIN
  FOR kind IN SELECT * FROM (VALUES ('recording', 'ledger', 'ledger_blocks'), ('share', 'share_ledger', 'share_blocks')) k(key, jumps, blocks) LOOP
    height := 1;
    LOOP
      EXECUTE pg_catalog.format($make$
        INSERT INTO privid.%3$I (%1$I, height, first, total, peak)
        SELECT s.account, $1, CASE s.run WHEN 0 THEN -4611686018427387904 ELSE pg_catalog.min(s.first) END, pg_catalog.sum(s.total),
               pg_catalog.max(s.before + s.peak) - (pg_catalog.array_agg(s.before ORDER BY s.first))[1]
        FROM (SELECT p.account, p.first, p.total, p.peak, pg_catalog.sum(p.total) OVER earlier - p.total AS before,
                     (pg_catalog.row_number() OVER earlier - 1) / $2 AS run, pg_catalog.count(*) OVER (PARTITION BY p.account) AS parts
              FROM (SELECT l.%1$I AS account, l.frame AS first, l.jump AS total, l.jump AS peak FROM privid.%2$I l WHERE $1 = 1
                    UNION ALL
                    SELECT b.%1$I, b.first, b.total, b.peak FROM privid.%3$I b WHERE b.height = $1 - 1) p
              WINDOW earlier AS (PARTITION BY p.account ORDER BY p.first)) s
        WHERE s.parts > 2 * $2
        GROUP BY s.account, s.run$make$, kind.key, kind.jumps, kind.blocks) USING height, size;
      GET DIAGNOSTICS made = ROW_COUNT;
      EXIT WHEN made = 0;
      height := height + 1;
    END LOOP;
  END LOOP;
END
$$;

-- A recording that was loaded from a dump of 0.2.0 has no jumps, because the dump has none: by its format the engine refuses to charge it.
ALTER TABLE privid.recordings ADD COLUMN format integer NOT NULL DEFAULT 2;
UPDATE privid.recordings SET format = 3;
COMMENT ON COLUMN privid.recordings.format IS 'how its ledger is written: 3, by jumps; 2 when a dump of privid 0.2.0 was loaded into a later version';

-- ---------------------------------------------------------------------------------------------------------------------
-- Masks and regions: the owner's further promises about a camera
-- ---------------------------------------------------------------------------------------------------------------------

-- A name stands for one content for ever: a row is never changed but by being withdrawn, and a withdrawn name is not used again. So
-- what a table was defined with cannot become something else under it. Nobody writes here but through the functions below.
CREATE TABLE privid.mask_store (
  camera     text NOT NULL,
  name       text NOT NULL CHECK (pg_catalog.octet_length(name) BETWEEN 1 AND 63),
  rho        text NOT NULL CHECK (privid.read_seconds(rho) >= 0),
  pieces     integer NOT NULL CHECK (pieces BETWEEN 1 AND 1000000),
  shapes     polygon[] NOT NULL,
  image      bytea,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  withdrawn  boolean NOT NULL DEFAULT false,
  PRIMARY KEY (camera, name),
  CHECK (pg_catalog.cardinality(shapes) > 0 OR image IS NOT NULL)
);
COMMENT ON TABLE privid.mask_store IS 'what is blacked out of a camera''s pictures, and what its owner promises of the rest';
COMMENT ON COLUMN privid.mask_store.rho IS 'the longest that one visible piece of an appearance lasts behind the mask';
COMMENT ON COLUMN privid.mask_store.pieces IS 'the most pieces in which one appearance is visible behind the mask';
COMMENT ON COLUMN privid.mask_store.shapes IS 'polygons in pixels from the upper left corner; a pixel is black if its middle lies in one of them';
COMMENT ON COLUMN privid.mask_store.image IS 'a bitmap as PBM (P4) of the camera''s size; its black pixels are black';
COMMENT ON COLUMN privid.mask_store.withdrawn IS 'no table can use it any more; the row keeps the name from being used for something else';

CREATE TABLE privid.region_store (
  camera     text NOT NULL,
  name       text NOT NULL CHECK (pg_catalog.octet_length(name) BETWEEN 1 AND 63),
  boundary   text NOT NULL CHECK (boundary IN ('hard', 'soft')),
  straddle   integer NOT NULL CHECK (straddle >= 1),
  regions    text[] NOT NULL,
  shapes     polygon[] NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  withdrawn  boolean NOT NULL DEFAULT false,
  PRIMARY KEY (camera, name),
  CHECK (pg_catalog.cardinality(regions) > 0 AND pg_catalog.cardinality(regions) = pg_catalog.cardinality(shapes))
);
COMMENT ON TABLE privid.region_store IS 'parts into which a camera''s pictures are cut, and what its owner promises of their borders';
COMMENT ON COLUMN privid.region_store.boundary IS 'hard: an event never leaves its region; soft: it may';
COMMENT ON COLUMN privid.region_store.straddle IS 'the most regions in which one event is visible within one frame';
COMMENT ON COLUMN privid.region_store.regions IS 'names, in their order; shapes has the polygon of each';

-- SECURITY DEFINER functions below ask for the one who called them, not for the role that they run as.
CREATE FUNCTION privid.check_camera(camera text) RETURNS void
  LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
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
END
$$;
COMMENT ON FUNCTION privid.check_camera(text) IS 'refuses who does not own the camera';

CREATE FUNCTION privid.check_shape(shape polygon, what text) RETURNS void
  LANGUAGE plpgsql IMMUTABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF shape IS NULL OR npoints(shape) NOT BETWEEN 3 AND 1000 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s must have between 3 and 1000 corners, but has %s', what, coalesce(npoints(shape), 0)),
      HINT = 'Write a polygon in pixels, for example ''((0,0),(640,0),(640,120),(0,120))''.';
  END IF;
  IF shape::text !~ '^[-+0-9.e(),]*$' OR NOT box(shape) <@ box '((-1000000,-1000000),(1000000,1000000))' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s has a corner far outside of any picture', what),
      HINT = 'Corners are in pixels from the upper left corner of the picture.';
  END IF;
END
$$;
COMMENT ON FUNCTION privid.check_shape(polygon, text) IS 'refuses a polygon that has no inside, or corners nowhere';

CREATE FUNCTION privid.create_mask(camera text, name text, shapes polygon[] DEFAULT '{}', rho text DEFAULT NULL, pieces integer DEFAULT 1,
                                   image bytea DEFAULT NULL) RETURNS text
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  kept    privid.mask_store;
  whole   text;
  shape   polygon;
  head    text[];
  wide    bigint;
  high    bigint;
  digest  text;
  largest CONSTANT int := 16777216;
BEGIN
  PERFORM privid.check_camera(camera);
  IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND 63 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid name for a mask: "%s"', left(name, 100)),
      HINT = 'Use between 1 and 63 bytes.';
  END IF;
  SELECT o.option_value INTO whole
    FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o WHERE s.srvname::text = camera AND o.option_name = 'rho';
  rho := coalesce(rho, whole);  -- nobody is visible for longer than without the mask
  IF privid.read_seconds(rho) IS NULL OR privid.read_seconds(rho) < 0 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid value for the rho of a mask: "%s"', rho),
      HINT = 'Write a duration as a number and a unit: us, ms, s, min, h or d, for example 5s.';
  END IF;
  IF privid.read_seconds(rho) > coalesce(privid.read_seconds(whole), 0) THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('rho of mask "%s" is %s, but that of camera "%s" is %s', name, rho, camera, whole),
      DETAIL = 'The budget is kept for segments as long as the camera''s rho, and each must hold every visible piece of an appearance.',
      HINT = 'Behind a mask nobody is visible for longer than without it: measure again, or raise the rho of the camera.';
  END IF;
  IF pieces IS NULL OR pieces NOT BETWEEN 1 AND 1000000 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pieces of mask "%s" must be between 1 and 1000000, but are %s', name, pieces),
      HINT = 'It is the number of pieces in which one appearance is visible behind the mask.';
  END IF;
  shapes := coalesce(shapes, '{}');
  IF cardinality(shapes) = 0 AND image IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('mask "%s" covers nothing', name),
      HINT = 'Give polygons, for example shapes => ''{"((0,0),(640,0),(640,120),(0,120))"}'', or a bitmap, or both.';
  END IF;
  IF array_ndims(shapes) > 1 OR cardinality(shapes) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('mask "%s" must have at most 1000 polygons in one dimension', name),
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
  SELECT * INTO kept FROM privid.mask_store m WHERE m.camera = camera AND m.name = name;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42710',
      MESSAGE = format(CASE WHEN kept.withdrawn THEN 'mask "%s" of camera "%s" was withdrawn' ELSE 'mask "%s" of camera "%s" already exists' END, name, camera),
      HINT = 'A mask is never changed, so that tables keep meaning what they meant: choose another name.';
  END IF;
  INSERT INTO privid.mask_store (camera, name, rho, pieces, shapes, image, created_by)
    VALUES (camera, name, rho, pieces, shapes, image, privid.invoker());
  digest := encode(sha256(convert_to(shapes::text, 'UTF8') || coalesce('\x00'::bytea || image, '')), 'hex');
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'mask created',
    jsonb_build_object('mask', name, 'rho', rho, 'pieces', pieces, 'shapes', shapes::text, 'sha256', digest));
  RETURN digest;
END
$$;
COMMENT ON FUNCTION privid.create_mask(text, text, polygon[], text, integer, bytea) IS 'offers tables of a camera a mask, with the rho that holds behind it; returns the SHA-256 of what it covers';

CREATE FUNCTION privid.drop_mask(camera text, name text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  PERFORM privid.check_camera(camera);
  UPDATE privid.mask_store m SET withdrawn = true WHERE m.camera = camera AND m.name = name AND NOT m.withdrawn;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('mask "%s" of camera "%s" does not exist', name, camera),
      HINT = 'The view privid.masks shows all.';
  END IF;
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'mask withdrawn', jsonb_build_object('mask', name));
END
$$;
COMMENT ON FUNCTION privid.drop_mask(text, text) IS 'withdraws a mask: tables that use it answer no more, and its name stays taken';

CREATE FUNCTION privid.create_regions(camera text, name text, regions jsonb, boundary text DEFAULT 'soft', straddle integer DEFAULT NULL)
  RETURNS integer
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
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
  IF cardinality(names) > most THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('regions "%s" have %s parts, but at most %s are allowed', name, cardinality(names), most);
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
  SELECT * INTO kept FROM privid.region_store r WHERE r.camera = camera AND r.name = name;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42710',
      MESSAGE = format(CASE WHEN kept.withdrawn THEN 'regions "%s" of camera "%s" were withdrawn' ELSE 'regions "%s" of camera "%s" already exist' END, name, camera),
      HINT = 'Regions are never changed, so that tables keep meaning what they meant: choose another name.';
  END IF;
  straddle := CASE boundary WHEN 'hard' THEN 1 ELSE coalesce(straddle, cardinality(names)) END;
  INSERT INTO privid.region_store (camera, name, boundary, straddle, regions, shapes, created_by)
    VALUES (camera, name, boundary, straddle, names, shapes, privid.invoker());
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'regions created',
    jsonb_build_object('regions', name, 'boundary', boundary, 'straddle', straddle, 'names', names, 'shapes', shapes::text));
  RETURN cardinality(names);
END
$$;
COMMENT ON FUNCTION privid.create_regions(text, text, jsonb, text, integer) IS 'offers tables of a camera to be run region by region; returns the number of regions';

CREATE FUNCTION privid.drop_regions(camera text, name text) RETURNS void
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
  PERFORM privid.check_camera(camera);
  UPDATE privid.region_store r SET withdrawn = true WHERE r.camera = camera AND r.name = name AND NOT r.withdrawn;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('regions "%s" of camera "%s" do not exist', name, camera),
      HINT = 'The view privid.regions shows all.';
  END IF;
  PERFORM privid.write_history('owners', privid.invoker(), camera, 'regions withdrawn', jsonb_build_object('regions', name));
END
$$;
COMMENT ON FUNCTION privid.drop_regions(text, text) IS 'withdraws regions: tables that use them answer no more, and their name stays taken';

CREATE VIEW privid.masks WITH (security_barrier = true) AS
  SELECT m.camera, m.name, least(privid.read_seconds(m.rho), 1e11)::float8 * interval '1 second' AS rho, m.pieces, m.shapes, m.image,
         m.created_at
  FROM privid.mask_store m
  JOIN privid.camera_definitions c ON c.camera = m.camera
  WHERE NOT m.withdrawn;
COMMENT ON VIEW privid.masks IS 'masks that tables of a camera can use, and what holds behind them';

CREATE VIEW privid.regions WITH (security_barrier = true) AS
  SELECT r.camera, r.name, part.region, part.shape, r.boundary, r.straddle, r.created_at
  FROM privid.region_store r
  JOIN privid.camera_definitions c ON c.camera = r.camera
  CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(r.regions), pg_catalog.unnest(r.shapes)) part(region, shape)
  WHERE NOT r.withdrawn;
COMMENT ON VIEW privid.regions IS 'regions by which tables of a camera can be run, one row for each region';

-- They follow a camera that is renamed, and go with one that is dropped; privid.history keeps what they were.
CREATE FUNCTION privid.carry_masks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM privid.mask_store m WHERE m.camera = OLD.camera;
    DELETE FROM privid.region_store r WHERE r.camera = OLD.camera;
  ELSIF NEW.camera <> OLD.camera THEN
    DELETE FROM privid.mask_store m WHERE m.camera = NEW.camera;
    DELETE FROM privid.region_store r WHERE r.camera = NEW.camera;
    UPDATE privid.mask_store m SET camera = NEW.camera WHERE m.camera = OLD.camera;
    UPDATE privid.region_store r SET camera = NEW.camera WHERE r.camera = OLD.camera;
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION privid.carry_masks() IS 'trigger that lets masks and regions follow their camera';
CREATE TRIGGER carry_masks AFTER UPDATE OF camera OR DELETE ON privid.camera_state FOR EACH ROW EXECUTE FUNCTION privid.carry_masks();
COMMENT ON TRIGGER carry_masks ON privid.camera_state IS 'masks and regions follow a camera that is renamed, and go with one that is dropped';

REVOKE EXECUTE ON FUNCTION privid.create_mask(text, text, polygon[], text, integer, bytea), privid.drop_mask(text, text),
  privid.create_regions(text, text, jsonb, text, integer), privid.drop_regions(text, text), privid.carry_masks() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION privid.create_mask(text, text, polygon[], text, integer, bytea), privid.drop_mask(text, text),
  privid.create_regions(text, text, jsonb, text, integer), privid.drop_regions(text, text) TO privid_owner;
GRANT SELECT ON privid.masks, privid.regions TO PUBLIC;
GRANT SELECT ON privid.mask_store, privid.region_store TO privid_engine;

SELECT pg_catalog.pg_extension_config_dump('privid.mask_store', '');
SELECT pg_catalog.pg_extension_config_dump('privid.region_store', '');
