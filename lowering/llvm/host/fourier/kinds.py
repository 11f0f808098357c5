"""Says which transforms there are, and how half the transform of real numbers comes from that of half as many complex ones.

Real numbers x of an even count n are z_j = x_2j + i x_(2j+1), of which there are m = n / 2. Their transform Z has that of x in
it, for k up to m and with Z_m = Z_0 (Press et al., Numerical Recipes, 12.3; the inverse is the same with the other sign):

    X_k = ½ ((Z_k + conj Z_(m-k)) - i e^(-2πi k / n) (Z_k - conj Z_(m-k)))
"""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...values import V
from .butterflies import Lanes, Number


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform of complex numbers. No result is divided by their count.

    Attributes:
        kind: "forward" or "inverse"; "real": forwards, of pairs of real numbers, whose m + 1 results are half the transform of
            these; "real_inverse": its inverse times 2 m, which gives pairs again, and takes no notice of the imaginary parts of
            the first and last number.
        length: how many numbers the passes transform: m of real ones.
    """

    kind: str
    length: int

    @property
    def sign(self) -> int:
        """The sign of the exponents."""
        return 1 if self.kind.endswith("inverse") else -1

    @property
    def is_real(self) -> bool:
        return self.kind.startswith("real")

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.length}"


def joined(lanes: Lanes, value: Number, other: Number, cos: V, sin: V) -> Number:
    """Returns what stands in the half transform for Z_k and Z_(m-k), times 2, or in the other direction in Z for these.

    sin: that of the sign of the transform.
    """
    f = lanes.f
    mirrored = Number(other.real, f.fneg(other.imaginary))
    both, turned = lanes.add(value, mirrored), lanes.turned(lanes.sub(value, mirrored), cos, sin)
    return lanes.add(both, lanes.quarter(turned, lanes.sign))
