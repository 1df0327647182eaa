"""The pages about kinds of errors, in Markdown, where an installed package finds them: a message names its own.

Our own site shows them, ``symgrad errors KIND`` prints them; both make the messages in them anew.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def kinds() -> dict[str, str]:
    """The page of each kind.

    >>> kinds()["shape"].splitlines()[0]
    '# error[shape]'
    """
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.md"))}
