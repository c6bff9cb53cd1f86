"""Tests of the MCP tools."""
