"""What completion sees of a command line, and what a command has imported."""

from __future__ import annotations

import subprocess
import sys


class Typed:
    """What completion sees of the words before."""

    def __init__(self, *words, **params):
        self.args, self.params = list(words), params


def modules_after(code):
    """What a new process has imported after running some code."""
    code = f"{code}\nimport sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stdout.splitlines()[-1].split())
