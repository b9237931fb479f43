-- Hash functions with a key in the place of PostgreSQL's own (fdw/keyed.c), once, after room.sql: every hash
-- table of this database uses them. Whole families are changed, so that what is equal stays equal across types.

CREATE FUNCTION room.hash(text) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_text' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(name) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_name' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(float4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_float4' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(float8) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_float8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(int2) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_int2' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(int4) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_int4' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(int8) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_int8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(date) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_int4' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(time) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_int8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(timestamp) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_int8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(timestamptz) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_int8' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(numeric) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_numeric' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(boolean) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_boolean' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(anyenum) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_enum' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION room.hash(interval) RETURNS int4
  AS 'MODULE_PATHNAME', 'privid_keyed_interval' LANGUAGE C IMMUTABLE STRICT;

UPDATE pg_catalog.pg_amproc AS support SET amproc = keyed.oid
  FROM pg_catalog.pg_opfamily AS family, pg_catalog.pg_am AS method, pg_catalog.pg_proc AS keyed
 WHERE family.oid = support.amprocfamily AND method.oid = family.opfmethod AND method.amname = 'hash'
   AND family.opfname IN ('text_ops', 'text_pattern_ops', 'float_ops', 'integer_ops', 'date_ops', 'time_ops',
                          'timestamp_ops', 'timestamptz_ops', 'numeric_ops', 'interval_ops', 'bool_ops', 'enum_ops')
   AND family.opfnamespace = 'pg_catalog'::regnamespace AND support.amprocnum = 1
   AND keyed.pronamespace = 'room'::regnamespace AND keyed.proname = 'hash'
   AND keyed.proargtypes[0] = support.amproclefttype;
