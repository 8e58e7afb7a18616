"""`python -m rlinf_npu.npufix`."""

from rlinf_npu.npufix.cli import main

main()
