"""Files that a test compares with, to the letter."""

import os
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden")


def golden(name, found):
    """Compare with a recorded file; UPDATE_GOLDEN=1 records it again, to be looked at before it is committed."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()
