"""The health of a board on PostgreSQL: what `tb doctor` checks of the server and of the board's tables."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def diagnose(connection: Any) -> list[tuple[str, str, str]]:
    """The findings of `tb doctor` about the server and the board's tables."""
    settings = dict(
        connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'fsync', 'synchronous_commit', "
            "'full_page_writes', 'autovacuum', 'max_connections')"
        ).fetchall()
    )
    durable = all(settings[name] != "off" for name in ("fsync", "synchronous_commit", "full_page_writes"))
    values = ", ".join(f"{name} {settings[name]}" for name in ("fsync", "synchronous_commit", "full_page_writes"))
    [standby] = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    [oldest] = connection.execute(
        "SELECT coalesce(max(extract(epoch FROM now() - xact_start)), 0)::float8 FROM pg_stat_activity "
        "WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()"
    ).fetchone()
    dead = connection.execute(
        "SELECT relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relname IN ('tasks', 'holds', 'agents') "
        "AND n_dead_tup > 10000 AND n_dead_tup > n_live_tup"
    ).fetchall()
    return [
        ("ok", "postgresql", settings["server_version"]),
        ("bad" if standby else "ok", "role", "a standby, which takes no writes" if standby else "a primary"),
        ("ok" if durable else "bad", "durability", values),
        ("ok" if settings["autovacuum"] == "on" else "bad", "autovacuum", settings["autovacuum"]),
        ("warn" if oldest > 300 else "ok", "oldest transaction", f"{oldest:.0f} s; a long one stops vacuum"),
        *[("warn", "vacuum", f"{name} has {gone} dead rows beside {live}") for name, gone, live in dead],
    ]
