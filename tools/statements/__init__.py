"""docs/statements.sql: the statements that the operations send, written for whoever runs the database."""
