"""The ``cofill`` command: the same program as the Rust binary, in this process."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command with the arguments of this process."""
    from ._cofill import command

    # Python would keep Ctrl-C for itself until the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
