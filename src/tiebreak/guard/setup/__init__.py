"""Setting up: what `tb init` writes for each client and for git, and the checks that it works."""
