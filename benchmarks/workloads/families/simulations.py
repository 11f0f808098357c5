"""Steps of simulations: stencils in two and three dimensions, grids, fluids, automata, bodies."""

from __future__ import annotations

import itertools
from typing import Any

from ..formulas import doubled, halved, total
from ..workload import Family, Kind, integers, normal, positive

family = Family("simulations")


def signs(*shape: int) -> Kind:
    """Draw -1 and 1."""
    drawn = integers(0, 2, *shape, dtype="int8")
    return lambda random: drawn(random) * 2 - 1


# Stencils.
def four_neighbours(x: Any) -> Any:
    """Return the inner sums of the four neighbours, less four times the middle."""
    return x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1] - 4 * x[1:-1, 1:-1]


def rolled_neighbours(lib: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Return sums of both neighbours along each axis of a torus."""
    total = lib.roll(x, 1, axis=axes[0]) + lib.roll(x, -1, axis=axes[0])
    for axis in axes[1:]:
        total = total + lib.roll(x, 1, axis=axis) + lib.roll(x, -1, axis=axis)
    return total


def life_inside(lib: Any, x: Any) -> Any:
    """Return the next generation of what lies inside a border."""
    rows, columns = 1000, 1000
    count = None
    for row in range(3):
        for column in range(3):
            if (row, column) != (1, 1):
                part = x[row : rows - 2 + row, column : columns - 2 + column]
                count = part if count is None else count + part
    return lib.cast((count == 3) | ((count == 2) & (x[1:-1, 1:-1] == 1)), "uint8")


def life_on_a_torus(lib: Any, x: Any) -> Any:
    """Return the next generation of a torus."""
    above, below = lib.roll(x, 1, axis=0), lib.roll(x, -1, axis=0)
    count = rolled_neighbours(lib, x, (0, 1))
    for row in (above, below):
        count = count + lib.roll(row, 1, axis=1) + lib.roll(row, -1, axis=1)
    alive, dead = lib.cast(x * 0 + 1, "uint8"), lib.cast(x * 0, "uint8")
    return lib.cast(lib.where(count == 3, alive, lib.where(count == 2, x, dead)), "uint8")


def wave(lib: Any, now: Any, before: Any) -> Any:
    """Return a wave on a torus after a step."""
    return 2 * now - before + 0.1 * (rolled_neighbours(lib, now, (0, 1)) - 4 * now)


family.add_operators("Laplacian 1000x1000", [normal(1000, 1000)], four_neighbours)
family.add_operators("Laplacian 700x900", [normal(700, 900)], four_neighbours)
family.add_program(
    "step of heat on a torus 1000x1000", [normal(1000, 1000)],
    lambda lib, x: x + 0.1 * (rolled_neighbours(lib, x, (0, 1)) - 4 * x),
)  # fmt: skip
family.add_program(
    "step of heat on a torus 64x64x64", [normal(64, 64, 64)],
    lambda lib, x: x + 0.1 * (rolled_neighbours(lib, x, (0, 1, 2)) - 6 * x),
)  # fmt: skip
family.add_program("step of a wave on a torus 500x500", [normal(500, 500), normal(500, 500)], wave)
family.add_program(
    "step of advection along rows of 512", [normal(1000, 512)], lambda lib, x: x - 0.5 * (x - lib.roll(x, 1, axis=1))
)
family.add_program("game of life inside 1000x1000", [integers(0, 2, 1000, 1000, dtype="uint8")], life_inside)
family.add_program("game of life on a torus 512x512", [integers(0, 2, 512, 512, dtype="uint8")], life_on_a_torus)


# Reactions, flows, grids, iterations.
def reaction(lib: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return the two substances of Gray and Scott's reaction on a torus after a step."""
    spread, other_spread = (rolled_neighbours(lib, each, (0, 1)) - 4.0 * each for each in (x, y))
    rate = x * y * y
    return x + 0.16 * spread - rate + 0.06 * (1.0 - x), y + 0.08 * other_spread + rate - 0.122 * y


def upwind(lib: Any, x: Any, speed: Any) -> Any:
    """Return changes by a flow, with differences against its direction."""
    return lib.where(speed[:, 1:-1] > 0, x[:, 1:-1] - x[:, :-2], x[:, 2:] - x[:, 1:-1]) * speed[:, 1:-1]


def six_neighbours(x: Any) -> Any:
    """Return the inner means of the six neighbours in a cube."""
    along = x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:]
    return (x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1] + along) / 6.0


def cubes_of_three(x: Any) -> Any:
    """Return sums of 3x3x3 neighbours."""
    return total(
        x[plane : plane + 48, row : row + 48, column : column + 48]
        for plane, row, column in itertools.product(range(3), repeat=3)
    )


def mandelbrot(lib: Any, real: Any, imaginary: Any) -> Any:
    """Return squared lengths after 20 steps, of numbers that are held within bounds."""
    x, y = real, imaginary
    for _ in range(20):
        x, y = x * x - y * y + real, 2.0 * x * y + imaginary
        x, y = lib.clip(x, -1e3, 1e3), lib.clip(y, -1e3, 1e3)
    return x * x + y * y


family.add_program("reaction and diffusion on a torus 512x512", [positive(512, 512), positive(512, 512)], reaction)
family.add_program("upwind differences 1000x1000", [normal(1000, 1000), normal(1000, 1000)], upwind)
family.add_operators(
    "divergence 512x512", [normal(512, 512), normal(512, 512)],
    lambda x, y: (x[1:-1, 2:] - x[1:-1, :-2] + y[2:, 1:-1] - y[:-2, 1:-1]) * 0.5,
)  # fmt: skip
family.add_program(
    "sums of four neighbours on a torus int8", [signs(512, 512)], lambda lib, x: rolled_neighbours(lib, x, (0, 1))
)
family.add_operators("Jacobi step 64x64x64", [normal(66, 66, 66)], six_neighbours)
family.add_operators("sums of 27 neighbours 48x48x48", [normal(50, 50, 50)], cubes_of_three)
family.add_operators("grid of half the size 1024x1024", [normal(1024, 1024)], halved)
family.add_program("grid of twice the size 512x512", [normal(512, 512)], doubled)
family.add_program("Mandelbrot set, 20 steps 256x256", [normal(256, 256), normal(256, 256)], mandelbrot)


# Fluids of particles on a lattice: nine directions.
def streamed(lib: Any, x: Any) -> Any:
    """Return what moves in nine directions, one cell further."""
    moved = [lib.roll(lib.roll(x[way], way // 3 - 1, axis=0), way % 3 - 1, axis=1) for way in range(9)]
    return lib.stack(moved, axis=0)


def density_and_velocity(lib: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return the sum of nine directions, and its velocity along both axes."""
    density = lib.sum(x, axis=0)
    along = (x[1] + x[5] + x[8] - x[3] - x[6] - x[7]) / density
    return density, along, (x[2] + x[5] + x[6] - x[4] - x[7] - x[8]) / density


family.add_program("lattice Boltzmann, streaming 256x256", [normal(9, 256, 256)], streamed)
family.add_program("lattice Boltzmann, density and velocity 256x256", [positive(9, 256, 256)], density_and_velocity)
family.add_program(
    "largest velocity 128x128x16", [normal(3, 128, 128, 16)],
    lambda lib, x: lib.max(lib.sqrt(lib.sum(x * x, axis=0))),
)  # fmt: skip


# Bodies.
def forces(lib: Any, points: Any) -> Any:
    """Return the sums of attraction between all points."""
    difference = lib.unsqueeze(points, 0) - lib.unsqueeze(points, 1)
    square = lib.sum(difference * difference, axis=2) + 0.01
    return lib.sum(difference / lib.unsqueeze(square * lib.sqrt(square), 2), axis=1)


family.add_program("forces between 600 points", [normal(600, 3)], forces, tolerance=1e-3)
family.add_operators(
    "leapfrog step float64", [normal(300_000, dtype="float64")] * 3,
    lambda x, velocity, force: (x + 0.01 * (velocity + 0.005 * force), velocity + 0.01 * force),
)  # fmt: skip
