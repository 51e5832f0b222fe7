"""Make docs/notebook.ipynb from docs/notebook.py: cells begin with `# %%`, those of text with `# %% [markdown]`.

    pip install -e '.[notebook]' && python docs/make_notebook.py

It is executed from start to end; what differs from run to run (times, ids, execution counts) is left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE, NOTEBOOK = FOLDER / "notebook.py", FOLDER / "notebook.ipynb"


def cells(source: str) -> list[tuple[str, str]]:
    """Kind (markdown or code) and text of each cell."""
    found = []
    for part in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        text = body.strip("\n")
        if head.strip() == "[markdown]":
            found.append(
                (
                    "markdown",
                    "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines()),
                )
            )
        else:
            found.append(("code", text))
    return found


def main() -> None:
    """Execute and write the notebook."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()
    for number, (kind, text) in enumerate(cells(SOURCE.read_text(encoding="utf-8"))):
        make = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        notebook.cells.append(make(text, id=f"cell-{number}"))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.pop("metadata", None)
                    continue
                output.update(metadata={})
                output["data"].pop("text/plain", None)
                if output.output_type == "execute_result":
                    output.update(execution_count=None)
            cell.outputs = [one for one in cell.outputs if one.get("data", True)]
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
