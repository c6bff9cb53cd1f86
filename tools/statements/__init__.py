"""Generates docs/statements.sql: the statements that the operations send, for the people who run the database."""
