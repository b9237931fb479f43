"""The paper's own query language: a file is read (reader), translated statement by statement (table, select), and run (run)."""
