-- What the room's database gets once, after initdb. MODULE_PATHNAME becomes the path of the room's own
-- copy of privid_room.so.
--
-- The names are those that the inner query of a release is written with: everything is in schema room,
-- which is in no search path.

CREATE SCHEMA room;

-- Foreign tables read the rows that programs wrote, chunk by chunk, from the engine.
CREATE FUNCTION room.handler() RETURNS fdw_handler
  AS 'MODULE_PATHNAME', 'privid_fdw_handler' LANGUAGE C STRICT;
CREATE FOREIGN DATA WRAPPER room HANDLER room.handler NO VALIDATOR;
CREATE SERVER room FOREIGN DATA WRAPPER room;

-- Clamping. A NULL or NaN becomes the lower end, hence CALLED ON NULL INPUT.
CREATE FUNCTION room.range(value float8, low float8, high float8) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_range' LANGUAGE C IMMUTABLE CALLED ON NULL INPUT;

-- Bins of time, as in the extension.
CREATE FUNCTION room.minute(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT
  RETURN pg_catalog.date_trunc('minute', $1);
CREATE FUNCTION room.hour(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT
  RETURN pg_catalog.date_trunc('hour', $1);
CREATE FUNCTION room.day(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT
  RETURN pg_catalog.date_trunc('day', $1);
CREATE FUNCTION room.week(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT
  RETURN pg_catalog.date_trunc('week', $1);
CREATE FUNCTION room.month(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT
  RETURN pg_catalog.date_trunc('month', $1);
CREATE FUNCTION room.year(timestamptz) RETURNS timestamptz LANGUAGE sql STABLE STRICT
  RETURN pg_catalog.date_trunc('year', $1);
-- 2000-01-03 is a Monday, so that bins of a week begin as week() does in UTC.
CREATE FUNCTION room.bin(timestamptz, interval) RETURNS timestamptz LANGUAGE sql STABLE STRICT
  RETURN pg_catalog.date_bin($2, $1, timestamptz '2000-01-03 00:00+00');

-- Total twins: what would raise gives NULL.
CREATE FUNCTION room.total_add(float8, float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_add' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_add(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_add_44' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_add(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_add_48' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_add(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_add_84' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_add(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_add_88' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_add(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_add_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sub(float8, float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_sub' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sub(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_sub_44' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sub(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_sub_48' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sub(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_sub_84' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sub(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_sub_88' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sub(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_sub_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sub(timestamptz, timestamptz) RETURNS interval
  AS 'MODULE_PATHNAME', 'privid_total_sub_timestamptz' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mul(float8, float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_mul' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mul(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_mul_44' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mul(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mul_48' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mul(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mul_84' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mul(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mul_88' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mul(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_mul_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_div(float8, float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_div' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_div(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_div_44' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_div(int4, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_div_48' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_div(int8, int4) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_div_84' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_div(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_div_88' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_div(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_div_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sqrt(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_sqrt' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_ln(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_ln' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_log(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_log' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_exp(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_exp' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_power(float8, float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_power' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mod(int4, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_mod_44' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mod(int8, int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_mod_88' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_mod(numeric, numeric) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_mod_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_neg(int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_neg_4' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_neg(int8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_neg_8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_float8(numeric) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_float8_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_float8(text) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_float8_text' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_int4(numeric) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_int4(float8) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_float8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_int4(int8) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_int8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_int4(text) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_int4_text' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_int8(numeric) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_int8_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_int8(float8) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_int8_float8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_int8(text) RETURNS int8
  AS 'MODULE_PATHNAME', 'privid_total_int8_text' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_boolean(text) RETURNS boolean
  AS 'MODULE_PATHNAME', 'privid_total_boolean_text' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_concat(text, text) RETURNS text
  AS 'MODULE_PATHNAME', 'privid_total_concat' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_substring(text, int4, int4) RETURNS text
  AS 'MODULE_PATHNAME', 'privid_total_substring' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_split_part(text, text, int4) RETURNS text
  AS 'MODULE_PATHNAME', 'privid_total_split_part' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_width_bucket(float8, float8, float8, int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_total_width_bucket' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_extract(text, interval) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_extract_interval' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_extract(text, timestamptz) RETURNS numeric
  AS 'MODULE_PATHNAME', 'privid_total_extract_timestamptz' LANGUAGE C STABLE STRICT;

-- Aggregates that cannot raise: NULL where PostgreSQL's own would raise or be infinite or NaN.
CREATE FUNCTION room.total_sum_step(float8, float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_sum_step' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.total_sum_end(float8) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_sum_end' LANGUAGE C IMMUTABLE STRICT;
CREATE AGGREGATE room.total_sum(float8)
  (SFUNC = room.total_sum_step, STYPE = float8, FINALFUNC = room.total_sum_end);

CREATE FUNCTION room.total_moments_step(internal, float8) RETURNS internal
  AS 'MODULE_PATHNAME', 'privid_total_moments_step' LANGUAGE C IMMUTABLE;
CREATE FUNCTION room.total_avg_end(internal) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_avg_end' LANGUAGE C IMMUTABLE;
CREATE FUNCTION room.total_var_pop_end(internal) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_var_pop_end' LANGUAGE C IMMUTABLE;
CREATE FUNCTION room.total_var_samp_end(internal) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_var_samp_end' LANGUAGE C IMMUTABLE;
CREATE FUNCTION room.total_stddev_pop_end(internal) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_stddev_pop_end' LANGUAGE C IMMUTABLE;
CREATE FUNCTION room.total_stddev_samp_end(internal) RETURNS float8
  AS 'MODULE_PATHNAME', 'privid_total_stddev_samp_end' LANGUAGE C IMMUTABLE;
CREATE AGGREGATE room.total_avg(float8)
  (SFUNC = room.total_moments_step, STYPE = internal, SSPACE = 24, FINALFUNC = room.total_avg_end);
CREATE AGGREGATE room.total_var_pop(float8)
  (SFUNC = room.total_moments_step, STYPE = internal, SSPACE = 24, FINALFUNC = room.total_var_pop_end);
CREATE AGGREGATE room.total_var_samp(float8)
  (SFUNC = room.total_moments_step, STYPE = internal, SSPACE = 24, FINALFUNC = room.total_var_samp_end);
CREATE AGGREGATE room.total_variance(float8)
  (SFUNC = room.total_moments_step, STYPE = internal, SSPACE = 24, FINALFUNC = room.total_var_samp_end);
CREATE AGGREGATE room.total_stddev_pop(float8)
  (SFUNC = room.total_moments_step, STYPE = internal, SSPACE = 24, FINALFUNC = room.total_stddev_pop_end);
CREATE AGGREGATE room.total_stddev_samp(float8)
  (SFUNC = room.total_moments_step, STYPE = internal, SSPACE = 24, FINALFUNC = room.total_stddev_samp_end);
CREATE AGGREGATE room.total_stddev(float8)
  (SFUNC = room.total_moments_step, STYPE = internal, SSPACE = 24, FINALFUNC = room.total_stddev_samp_end);

-- Ballast: keeps a core busy until the monotonic clock, in nanoseconds, reaches a moment.
CREATE FUNCTION room.spin(until_ns bigint) RETURNS void
  AS 'MODULE_PATHNAME', 'privid_spin' LANGUAGE C VOLATILE STRICT;
