"""Wait until so many nodes are in a Ray: `python -m rlinf_npu.recap.drivers.await_nodes ADDRESS COUNT SECONDS`.

Exit code 0 when they are, 1 when they did not come in time.
"""

import sys
import time

POLL_SECONDS = 1.0


def main(address: str, count: int, seconds: float) -> int:
    """Tell every change; give up after `seconds`."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    deadline, seen = time.monotonic() + seconds, 0
    while True:
        alive = sum(bool(node["Alive"]) for node in ray.nodes())
        if alive != seen:
            seen = alive
            print(f"{time.strftime('%H:%M:%S')} node 0: {alive} of {count} nodes", flush=True)
        if alive >= count:
            return 0
        if time.monotonic() > deadline:
            return 1
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
