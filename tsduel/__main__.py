"""`python -m tsduel`, which `make` types: the command line, with the results of this directory."""

import sys

from tsduel.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
