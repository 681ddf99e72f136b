"""File formats, one file each; `formats.py` chooses by extension."""
