"""Learning beside other libraries: hidden Markov models, EM, conditional random fields, topic models.

Each part is a script of its own, `_hmm.py`, `_missing.py`, `_em.py`, `_crf_training.py` and `_lda.py`, and
leaves its own record.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PARTS = ("hmm", "missing", "em", "crf_training", "lda")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all if absent")
    parser.add_argument("--quick", action="store_true", help="the small cases only")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for part in options.parts or PARTS:
        print(f"== {part}", flush=True)
        script = Path(__file__).resolve().parent / f"_{part}.py"
        subprocess.run([sys.executable, str(script), *(["--quick"] if options.quick else [])], check=True)


if __name__ == "__main__":
    main()
