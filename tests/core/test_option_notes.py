"""Comments on the lines of options."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass

from credo.core.option_notes import option_notes


@dataclass
class Base:
    heat: float = 0.5  # how hot
    # Longer explanations stand
    # above the line.
    mode: str = "soft"
    silent: int = 0


@dataclass
class Derived(Base):
    heat: float = 1.0  # how hot here
    pair: tuple[int, int] = (
        1,
        2,
    )  # two numbers


def test_an_option_means_what_the_comment_on_its_line_or_above_it_says():
    notes = option_notes(Base)
    assert notes == {"heat": "how hot", "mode": "Longer explanations stand above the line.", "silent": ""}


def test_options_of_bases_count_and_the_final_class_has_the_last_word():
    notes = option_notes(Derived)
    assert notes["heat"] == "how hot here"
    assert notes["pair"] == "two numbers"
    assert notes["mode"].startswith("Longer")


def test_a_class_without_source_has_no_notes():
    assert option_notes(make_dataclass("Made", ["x"])) == {}
