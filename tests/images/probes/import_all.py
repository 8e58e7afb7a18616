# ruff: noqa: PTH123, PLW1509  # the one call before exec is close(2)
"""Import every top-level module of every installed distribution, in a few processes with stdin closed.

Arguments: number of processes. A process that dies is replaced; the module that it died of is reported. What fails is
tried again in a process of its own: some packages insist on being imported before others.
Prints {module: error} of those that cannot be imported by themselves, and the number of modules tried.
"""

import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import threading

WORKER = "worker"


def modules():
    """Names that distributions bring, in a fixed order."""
    names = importlib.metadata.packages_distributions()
    return sorted(name for name in names if name.isidentifier() and name not in ("__pycache__", "__editable__"))


def work(names):
    """Import each name; a line `name TAB error` for each, so that a crash shows where it happened."""
    sys.stdin = None
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what modules print is not our report
    for name in names:
        report.write(f"{name}\t")
        try:
            importlib.import_module(name)
            report.write("\n")
        except BaseException as error:
            chain, text = error, []
            while chain is not None:
                text.append(f"{type(chain).__name__}: {chain}")
                chain = chain.__cause__ or chain.__context__
            report.write(" <- ".join(text).replace("\n", " ").replace("\t", " ") + "\n")
    report.flush()
    os._exit(0)  # atexit handlers of two hundred packages are not under test


def run(names, failures):
    """Have a share of the names imported; go on behind a module that kills its process."""
    while names:
        with open(os.devnull, "w") as null:
            child = subprocess.Popen(
                [sys.executable, SELF, WORKER, *names],
                stdin=None,
                stdout=subprocess.PIPE,
                stderr=null,
                text=True,
                close_fds=True,
                preexec_fn=lambda: os.close(0),
            )
            lines = child.communicate()[0].split("\n")
        tried = 0
        for line in lines:
            if "\t" not in line:
                continue
            name, _, error = line.partition("\t")
            tried += 1
            if error:
                failures[name] = error
        if child.returncode == 0:
            return
        culprit = names[max(0, tried - 1)]
        failures[culprit] = f"the process died with {child.returncode}"
        names = names[tried:] if tried else names[1:]


if sys.argv[1] == WORKER:
    work(sys.argv[2:])
SELF = "/tmp/import_all.py"
everything, together, alone, count = modules(), {}, {}, int(sys.argv[1])
threads = [threading.Thread(target=run, args=(everything[i::count], together)) for i in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for name in together:
    run([name], alone)
print(json.dumps({"tried": len(everything), "failures": alone}))
