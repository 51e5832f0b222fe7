"""What every error of the command line has in common."""

from __future__ import annotations


def files(folder) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def expect_error(done, slug: str, code: int = 1) -> str:
    """Check the form of an error; return its text."""
    exit_code, out, err = done
    assert exit_code == code, err
    assert f"[{slug}]" in err and err.startswith("error: ")
    assert "Traceback" not in err and "Traceback" not in out
    assert out == ""
    return err
