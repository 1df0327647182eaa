"""A tensor held as it is: its values go on, nothing flows back."""

from symgrad.entries.equations import METHOD, op
from symgrad.program import Role

op("detach(x: data)", "out = x", "the values of x, held: torch records nothing from here back, so no gradient arrives this way",
   METHOD, holds="first", pathless=True, role=Role.CUTS, examples=("x.detach() * w with x:2x3 w:2x3",))  # fmt: skip
