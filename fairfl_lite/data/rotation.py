"""Images turned about their centre, the same bytes on every machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn.functional import affine_grid, grid_sample


def rotate(x: torch.Tensor, degrees: float | Sequence[float] | torch.Tensor) -> torch.Tensor:
    """Images [k, c, h, h] turned counter-clockwise about their centre by one angle, or one each; bilinear, corners black.

    uint8 images stay uint8; an angle that is a whole number of turns gives the images back as they are.
    """
    angle = torch.as_tensor(degrees, dtype=torch.float64) * (math.pi / 180)
    if not len(x) or bool((angle % (2 * math.pi) == 0).all()):
        return x
    cos, sin = angle.cos().expand(len(x)), angle.sin().expand(len(x))
    turn = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
    grid = affine_grid(torch.cat([turn, angle.new_zeros(len(x), 2, 1)], 2), list(x.shape), align_corners=False)
    turned = grid_sample(x.double(), grid, align_corners=False)
    if x.dtype == torch.uint8:
        turned = (turned + 0.500001).floor()  # a half goes up on every machine, whatever its last digits
    return turned.to(x.dtype)
