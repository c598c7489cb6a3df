"""`python -m rocwheel` is `rocwheel`."""

from __future__ import annotations

import os
import subprocess
import sys

from rocwheel import find_program


def main() -> int:
    """Becomes the program; on Windows, which cannot do that, waits for it."""
    try:
        program = find_program()
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    command = [program, *sys.argv[1:]]
    if sys.platform != "win32":
        os.execv(program, command)
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
