-- From privid 0.1.0 to 0.2.0: the whole algebra, and a ledger that tells where it stands. A fresh install runs this after 0.1.0.

\echo Use "ALTER EXTENSION privid UPDATE TO '0.2.0'" to load this file. \quit

-- ---------------------------------------------------------------------------------------------------------------------
-- Ledger
-- ---------------------------------------------------------------------------------------------------------------------

ALTER TABLE privid.release_charges ADD COLUMN uses jsonb;
COMMENT ON COLUMN privid.release_charges.uses IS 'chunks of each table, when the release is linear: it is charged in proportion to those that a segment meets';
COMMENT ON COLUMN privid.release_charges.charge IS 'the same in the recording''s unit of account, where a segment meets as many chunks as any; less elsewhere when uses are told';

-- ---------------------------------------------------------------------------------------------------------------------
-- Calculus
-- ---------------------------------------------------------------------------------------------------------------------

-- Total versions: where PostgreSQL's own would raise they give NULL. The library evaluates them in the place of the originals where
-- an expression reads what an executable wrote; people have no use for them.
CREATE FUNCTION privid.total_sqrt(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_sqrt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_ln(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_ln' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_log(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_log' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_exp(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_exp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_power(float8, float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_power' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_add(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_add_44' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_add(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_add_48' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_add(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_add_84' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_add(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_add_88' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_add(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_add_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_sub(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_sub_44' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_sub(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_sub_48' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_sub(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_sub_84' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_sub(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_sub_88' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_sub(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_sub_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mul(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_mul_44' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mul(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mul_48' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mul(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mul_84' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mul(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mul_88' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mul(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_mul_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_div(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_div_44' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_div(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_div_48' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_div(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_div_84' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_div(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_div_88' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_div(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_div_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mod(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_mod_44' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_neg(int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_neg_4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mod(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mod_88' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_neg(int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_neg_8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_mod(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_mod_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_float8(numeric) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_float8_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_int4(numeric) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_int8(numeric) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_int8_numeric' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_int4(float8) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_float8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_int8(float8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_int8_float8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_int4(int8) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_int8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_float8(text) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_float8_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_int4(text) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_int8(text) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_int8_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_boolean(text) RETURNS boolean
  AS 'MODULE_PATHNAME', 'privid_total_boolean_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_concat(text, text) RETURNS text
  AS 'MODULE_PATHNAME', 'privid_total_concat' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_substring(text, int4, int4) RETURNS text
  AS 'MODULE_PATHNAME', 'privid_total_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_split_part(text, text, int4) RETURNS text
  AS 'MODULE_PATHNAME', 'privid_total_split_part' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_sub(timestamptz, timestamptz) RETURNS interval
  AS 'MODULE_PATHNAME', 'privid_total_sub_timestamptz' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION privid.total_extract(text, interval) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_extract_interval' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

DO $$
DECLARE
  total regprocedure;
BEGIN
  FOR total IN SELECT p.oid FROM pg_catalog.pg_proc p
               WHERE p.pronamespace = 'privid'::regnamespace AND p.proname LIKE 'total\_%' LOOP
    EXECUTE pg_catalog.format('COMMENT ON FUNCTION %s IS %L', total, 'stands in a release for PostgreSQL''s own; never raises');
  END LOOP;
END
$$;

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
