"""A copy of a recording that can be shown to others, and the proof that it tells the same.

What is written is an allow-list: the tables that the project itself declares, whose every text is
kept because it is public, given a pseudonym, or left out. Nothing of a file is passed through.
"""

from workbench.redaction.copy import Redaction, redact

__all__ = ["Redaction", "redact"]
