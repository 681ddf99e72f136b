"""A reader who searches for a class finds one: no two classes of these rooms share a name."""

import re
from collections import defaultdict
from pathlib import Path

import credo

HOUSE = Path(credo.__file__).parent
ROOMS = ("kernels", "core", "optimise", "nn", "structures", "inference", "io", "datasets", "plotting", "cli")


def classes(rooms):
    places = defaultdict(list)
    for room in rooms:
        for file in sorted((HOUSE / room).rglob("*.py")):
            for name in re.findall(r"^class (\w+)", file.read_text(), flags=re.MULTILINE):
                places[name].append(str(file.relative_to(HOUSE)))
    return places


def test_no_two_classes_below_learning_share_a_name():
    assert {name: files for name, files in classes(ROOMS).items() if len(files) > 1} == {}


def test_no_two_public_classes_of_the_house_share_a_name():
    found = classes(["."])
    assert {n: files for n, files in found.items() if len(files) > 1 and not n.startswith("_")} == {}
