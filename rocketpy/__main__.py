"""`python -m rocketpy`: the command without an installation."""

import sys

from .cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
