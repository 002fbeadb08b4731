"""The constants that decide whether an operator is sound."""

from __future__ import annotations

RUNS = 3
"""Executions with random errors that a value's rounding is measured by."""
BRIEF_RUNS = 1
"""Executions after which a value may be called sound already, where nobody asks by how much."""
MORE_RUNS = 24
"""Executions where those few find an error: with signs that cancel by chance, the unit of a sum of
a few terms is as small as 0."""
LARGEST_ERROR = 8.0
"""Of a sound value: root mean square over its elements, each in units of its own rounding. Clean
models of 140 layers stay below 5 in float32 and below 1 in bfloat16; an output scaled by 1.00003
stands at 200."""
LARGEST_ELEMENT = 256.0
"""Of a sound value: its worst element in the same unit. The unit is itself a mean over a few
random runs, so that one in a million elements gets one that is some ten times too small."""
LARGEST_GRADIENT_ERROR = 32.0
"""Of a sound gradient: the adjoint identity's defect, in units of u times the root of the sum of
the squares of its terms."""
LEAN = 4.0
"""How many times the norm of a gradient its product with a direction is on average, so that one in
a thousand is below once that. A factor of 1.00001 is then seen in float32."""
NOTHING = 2.0**-960
"""Elements up to here count as zeros where a step is chosen: the smallest one would be none."""
STEP = 3e-5
"""Of the central difference in float64, relative to the value's root mean square: near the cube
root of the unit roundoff, which balances truncation and rounding (Press et al., Numerical Recipes,
3rd edition, section 5.7)."""
STEP_FACTORS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e6, 1e8, 1e10, 1e12)
"""Of ``STEP``: steps that are tried where the gradient is not what it implies, relative to what
nine in ten elements are larger than. The large ones are for values that are next to nothing beside
what is added to them, the small ones for zeros before a norm whose epsilon is 1e-12."""
UNDERFLOW: dict[str, float] = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "bfloat16": 2.0**-126,
    "float16": 2.0**-24,
    "float8_e4m3fn": 2.0**-9,
    "float8_e5m2": 2.0**-16,
    "complex64": 2.0**-126,
    "complex128": 2.0**-1022,
}
"""What a sound element may be off whatever its size: the smallest normal number, since kernels may
flush what is below (IEEE 754-2019, section 7.5 leaves it to them). Of dtypes whose small numbers
are computed in float32, their own smallest number."""
