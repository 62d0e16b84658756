"""Executes cells with the Go kernel in a folder, and prints the completions at the end of the last one, line by line.

    complete.py FOLDER CELLS

CELLS is a JSON file with the texts of the cells; the last one is not executed. The kernel waits for gopls for eight
seconds only, while gopls reads packages, so the request is repeated up to forty times.
"""

import json
import os
import pathlib
import sys

from jupyter_client.manager import start_new_kernel

folder, cells = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text())
os.chdir(folder)
manager, client = start_new_kernel(kernel_name="gonb", startup_timeout=120)
try:
    for cell in cells[:-1]:
        client.execute_interactive(cell, timeout=900, output_hook=lambda m: print(m["content"], file=sys.stderr))
    for _ in range(40):
        names = client.complete(cells[-1], reply=True, timeout=120)["content"].get("matches")
        if names:
            print("\n".join(names))
            break
finally:
    client.stop_channels()
    manager.shutdown_kernel()  # on request the kernel ends gopls too
