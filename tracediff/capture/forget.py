"""The environment of the traced programs, which nsys writes into every export, is removed from it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tracediff.errors import TracediffError


def forget_environment(export: Path) -> None:
    """Remove every process's environment from an export; nothing that was measured is touched.

    nsys keeps it in three places: a record a variable, the environment of its agent in one text, and that of
    each process as one string with zero bytes between the variables.
    """
    database = sqlite3.connect(export)
    try:
        database.execute("PRAGMA secure_delete = ON")  # overwrite, not only unlink
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV"):
            if table in tables:
                database.execute(f"DELETE FROM {table} WHERE name LIKE '%ENVIRONMENT%'")
        if "StringIds" in tables:
            database.execute("UPDATE StringIds SET value = '' WHERE instr(CAST(value AS BLOB), X'00') > 0")
        database.commit()
        database.execute("VACUUM")  # nsys leaves free pages that hold it too
    except sqlite3.DatabaseError as error:
        raise TracediffError(
            "nsys-export-failed",
            f"{export.name} is no SQLite file: {error}",
            fix="nsys export by hand, to see why",
        ) from error
    finally:
        database.close()
