"""Commits: `tb commit`, the hooks of git, one set of rules for both, and what is noticed afterwards."""
