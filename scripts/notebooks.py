"""Executes notebooks with the Go kernel, each in a kernel of its own.

    notebooks.py [--in FOLDER] [--keep] [--all] NOTEBOOK...

--in    the folder that cells run in and write to; that of the notebook without it
--keep  writes the outputs into the notebooks, without what changes at each execution
        though nothing changed
--all   executes the cells after one that fails too, and prints the seconds of each cell

Prints the seconds of each notebook. Exit: 0 all cells ran; 1 one did not, or the outputs
of a notebook are larger than a page should be; what its cell printed is shown.

The kernel must be installed (scripts/setup.sh test), where JUPYTER_DATA_DIR says.
"""

import argparse
import pathlib
import sys
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

LARGEST = 300_000  # bytes of a notebook with its outputs


def failure(cell):
    """What a cell printed if its program failed: the kernel takes that for no error."""
    said = ""
    for o in cell.get("outputs", []):
        if o.output_type == "error":
            return "\n".join(o.traceback)
        if o.output_type == "stream" and o.name == "stderr":
            said += o.text
    return said if "exit status" in said or "error[E" in said else None


def execute(path, folder, everything):
    """The executed notebook; ends the program at the first cell that fails unless everything is executed."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=900, kernel_name="gonb", resources={"metadata": {"path": folder}})
    with client.setup_kernel():
        for i, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            begun = time.monotonic()
            try:
                client.execute_cell(cell, i)
                said = failure(cell)
            except CellExecutionError as e:
                said = str(e)
            if everything:
                print(f"cell {i}: {time.monotonic() - begun:.1f} s{', failed' if said is not None else ''}", flush=True)
            elif said is not None:
                sys.exit(f"{path}, cell {i}:\n{cell.source}\n\n{said}")
    return notebook


def settle(notebook):
    """Leaves out when and where it was executed."""
    notebook.metadata = {"kernelspec": {"display_name": "Go (gonb)", "language": "go", "name": "gonb"}, "language_info": {"name": "go", "file_extension": ".go"}}
    for i, cell in enumerate(notebook.cells):
        cell.metadata = {}
        cell.id = f"cell-{i:02d}"
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if not (o.output_type == "stream" and not o.text.strip())]
            for o in cell.outputs:
                o.pop("transient", None)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--in", dest="folder")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--all", action="store_true")
    p.add_argument("notebooks", nargs="+")
    args = p.parse_args()
    for path in args.notebooks:
        begun = time.monotonic()
        notebook = execute(path, args.folder or str(pathlib.Path(path).resolve().parent), args.all)
        settle(notebook)
        text = nbformat.writes(notebook, indent=1) + "\n"
        if len(text) > LARGEST:
            sys.exit(f"{path}: {len(text)} bytes with its outputs, at most {LARGEST} are kept")
        if args.keep:
            pathlib.Path(path).write_text(text)
        print(f"{path}: {time.monotonic() - begun:.1f} s, {len(text)} bytes", flush=True)


main()
