-- From privid 0.2.0 to 0.3.0. A fresh install runs this after 0.2.0.

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
