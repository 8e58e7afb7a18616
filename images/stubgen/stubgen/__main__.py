"""`python3 -m stubgen`."""

import sys

from stubgen.cli import main

sys.exit(main(sys.argv[1:]))
