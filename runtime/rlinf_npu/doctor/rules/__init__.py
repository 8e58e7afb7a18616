"""The rules, one module per subject. Importing this package registers them all, in this order."""

from rlinf_npu.doctor.rules import (  # noqa: F401  isort: skip
    driver,
    devices,
    visibility,
    cards,
    libpath,
    python,
    memory,
    processes,
    storage,
    hccl,
    cluster,
    engine,
    release,
    network,
    data,
)
