"""Import every module below the packages given as arguments. Prints what was imported, and {module: error}."""

import importlib
import importlib.util
import json
import pkgutil
import sys

imported, failures = [], {}


def attempt(name):
    """Import one module; return it, or None when it fails."""
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        failures[name] = f"{type(error).__name__}: {error}"
        return None
    imported.append(name)
    return module


for root in sys.argv[1:]:
    if importlib.util.find_spec(root) is None:
        continue
    package = attempt(root)
    for found in pkgutil.walk_packages(getattr(package, "__path__", []), root + ".", onerror=lambda name: None):
        attempt(found.name)
print(json.dumps({"imported": imported, "failures": failures}))
