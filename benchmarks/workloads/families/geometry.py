"""Distances, clusters and boxes, points and vectors, meshes and rays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Family, ascending, normal, positive

family = Family("geometry")


# Distances and clusters.
def corners(count: int) -> Any:
    """Draw boxes: left, top, right, bottom."""
    drawn = ascending(count, 2, 2, axis=1)
    return lambda random: drawn(random).reshape(count, 4)


def squares(lib: Any, x: Any, keepdims: bool = False) -> Any:
    """Return sums of squares of rows."""
    return lib.sum(x * x, axis=1, keepdims=keepdims)


def squared_distances(lib: Any, x: Any, y: Any) -> Any:
    """Return squared distances of all rows by a product."""
    return squares(lib, x, True) + squares(lib, y) - 2.0 * (x @ lib.transpose(y))


def own_distances(lib: Any, x: Any) -> Any:
    """Return distances of all rows of one matrix by differences."""
    difference = lib.unsqueeze(x, 1) - lib.unsqueeze(x, 0)
    return lib.sqrt(lib.sum(difference**2, axis=-1))


def distances(lib: Any, x: Any, y: Any) -> Any:
    """Return distances of all rows by a product."""
    return lib.sqrt(lib.maximum(squared_distances(lib, x, y), 0.0))


def cosines(lib: Any, x: Any, y: Any) -> Any:
    """Return the cosines of angles between all rows."""
    x, y = x / lib.sqrt(squares(lib, x, True)), y / lib.sqrt(squares(lib, y, True))
    return x @ lib.permute(y, (1, 0))


def clusters(lib: Any, x: Any, centers: Any) -> Any:
    """Return the nearest center of each row."""
    return lib.argmax(2.0 * (x @ lib.transpose(centers)) - squares(lib, centers), axis=1)


def intersections(lib: Any, x: Any, y: Any) -> Any:
    """Return intersection over union of all pairs of boxes (left, top, right, bottom)."""
    left, top = lib.maximum(x[:, 0:1], y[:, 0]), lib.maximum(x[:, 1:2], y[:, 1])
    right, bottom = lib.minimum(x[:, 2:3], y[:, 2]), lib.minimum(x[:, 3:4], y[:, 3])
    both = lib.maximum(right - left, 0.0) * lib.maximum(bottom - top, 0.0)
    areas = (x[:, 2:3] - x[:, 0:1]) * (x[:, 3:4] - x[:, 1:2]) + (y[:, 2] - y[:, 0]) * (y[:, 3] - y[:, 1])
    return both / (areas - both)


def intersections_by_columns(lib: Any, x: Any, y: Any) -> Any:
    """Return intersection over union of all pairs of boxes (left, top, width, height)."""
    x_columns = [lib.reshape(column, (2000, 1)) for column in (x[:, 0], x[:, 1], x[:, 0] + x[:, 2], x[:, 1] + x[:, 3])]
    y_columns = [lib.reshape(column, (1, 100)) for column in (y[:, 0], y[:, 1], y[:, 0] + y[:, 2], y[:, 1] + y[:, 3])]
    width = lib.minimum(x_columns[2], y_columns[2]) - lib.maximum(x_columns[0], y_columns[0])
    height = lib.minimum(x_columns[3], y_columns[3]) - lib.maximum(x_columns[1], y_columns[1])
    both = lib.maximum(width, 0 * width) * lib.maximum(height, 0 * height)
    x_area, y_area = lib.reshape(x[:, 2] * x[:, 3], (2000, 1)), lib.reshape(y[:, 2] * y[:, 3], (1, 100))
    return both / (x_area + y_area - both)


family.add_program(
    "distances of 500 points by differences", [normal(500, 3)], own_distances, torch=lambda torch, x: torch.cdist(x, x)
)
family.add_program(
    "distances of 1000 rows of 64 by a product", [normal(1000, 64), normal(1000, 64)], distances,
    torch=lambda torch, x, y: torch.cdist(x, y),
)  # fmt: skip
family.add_program("squared distances of 500 and 400 rows of 64", [normal(500, 64), normal(400, 64)], squared_distances)
family.add_program(
    "absolute distances of 200 and 300 rows of 8", [normal(200, 8), normal(300, 8)],
    lambda lib, x, y: lib.sum(lib.abs(lib.unsqueeze(x, 1) - lib.unsqueeze(y, 0)), axis=2),
)  # fmt: skip
family.add_program(
    "Gaussian kernel of 300 and 400 rows of 16", [normal(300, 16), normal(400, 16)],
    lambda lib, x, y: lib.exp(-0.5 * squared_distances(lib, x, y)),
)  # fmt: skip
family.add_program("cosines of 500 and 500 rows of 256", [normal(500, 256), normal(500, 256)], cosines)
family.add_program(
    "cosines of 2000 pairs of rows of 256", [normal(2000, 256), normal(2000, 256)],
    lambda lib, x, y: lib.sum(x * y, axis=1) / (lib.sqrt(squares(lib, x)) * lib.sqrt(squares(lib, y))),
)  # fmt: skip
family.add_program("nearest of 16 centers, rows of 8", [normal(20_000, 8), normal(16, 8)], clusters, differing=1e-3)
family.add(
    "nearest of 64 centers, rows of 16", [normal(20_000, 16), normal(64, 16)],
    lambda jn, x, y: jn.argmin(jn.sum(y * y, axis=1) - 2.0 * (x @ jn.transpose(y)), axis=1),
    torch=lambda torch, x, y: torch.argmin((y * y).sum(1) - 2 * (x @ y.T), 1),
    jax=lambda jax, x, y: jax.numpy.argmin(jax.numpy.sum(y * y, 1) - 2 * (x @ y.T), 1),
    differing=1e-3,
)  # fmt: skip
family.add_program(
    "intersections of 200 and 300 boxes", [corners(200), corners(300)], intersections
)
family.add_program("intersections of 2000 and 100 boxes", [positive(2000, 4), positive(100, 4)], intersections_by_columns)


# Points and vectors.
def rotated(lib: Any, quaternions: Any, vectors: Any) -> Any:
    """Return vectors turned by unit quaternions."""
    w, x, y, z = (quaternions[:, column] for column in range(4))
    a, b, c = (vectors[:, column] for column in range(3))
    turned = [
        a * (1 - 2 * (y * y + z * z)) + b * 2 * (x * y - w * z) + c * 2 * (x * z + w * y),
        a * 2 * (x * y + w * z) + b * (1 - 2 * (x * x + z * z)) + c * 2 * (y * z - w * x),
        a * 2 * (x * z - w * y) + b * 2 * (y * z + w * x) + c * (1 - 2 * (x * x + y * y)),
    ]
    return lib.stack(turned, axis=1)


def haversine(lib: Any, latitude: Any, longitude: Any, other_latitude: Any, other_longitude: Any) -> Any:
    """Return the squared half chords between points of a sphere."""
    turn = lib.cos(latitude) * lib.cos(other_latitude) * lib.sin((other_longitude - longitude) / 2) ** 2
    return lib.sin((other_latitude - latitude) / 2) ** 2 + turn


def determinants(x: Any) -> Any:
    """Return determinants of 3x3 matrices."""
    first = x[:, 1, 1] * x[:, 2, 2] - x[:, 1, 2] * x[:, 2, 1]
    second = x[:, 1, 0] * x[:, 2, 2] - x[:, 1, 2] * x[:, 2, 0]
    third = x[:, 1, 0] * x[:, 2, 1] - x[:, 1, 1] * x[:, 2, 0]
    return x[:, 0, 0] * first - x[:, 0, 1] * second + x[:, 0, 2] * third


family.add_program("rotations by 100000 quaternions", [normal(100_000, 4), normal(100_000, 3)], rotated)
family.add_program("haversine of 200000 pairs", [normal(200_000)] * 4, haversine)
family.add_operators("determinants of 50000 3x3 matrices", [normal(50_000, 3, 3)], determinants)


# Points of meshes, maps and rays.
def cross_products(lib: Any, x: Any, y: Any) -> Any:
    """Return the cross products of rows of three."""
    a, b, c = (x[:, column] for column in range(3))
    d, e, f = (y[:, column] for column in range(3))
    return lib.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=1)


def triangle_areas(lib: Any, x: Any) -> Any:
    """Return the areas of triangles in a plane."""
    first, second = x[:, 1, 0] - x[:, 0, 0], x[:, 2, 1] - x[:, 0, 1]
    third, fourth = x[:, 2, 0] - x[:, 0, 0], x[:, 1, 1] - x[:, 0, 1]
    return lib.abs(first * second - third * fourth) * 0.5


def edges_at_heights(lib: Any, points: Any, corners: Any) -> Any:
    """Return how many edges of a polygon have a point of the height of each point."""
    heights = lib.unsqueeze(points[:, 1], 1)
    begins, ends = lib.unsqueeze(corners[:-1, 1], 0) > heights, lib.unsqueeze(corners[1:, 1], 0) > heights
    return lib.sum(lib.cast(begins != ends, "int32"), axis=1)


def hits_of_a_sphere(lib: Any, origins: Any, directions: Any) -> Any:
    """Return the distances at which rays meet the unit sphere, -1 where they miss it."""
    along = lib.sum(origins * directions, axis=1)
    square = along * along - (lib.sum(origins * origins, axis=1) - 1.0)
    return lib.where(square > 0, -along - lib.sqrt(lib.maximum(square, 0.0)), -1.0)


def normals(lib: Any, heights: Any) -> Any:
    """Return unit vectors that stand on a map of heights."""
    along, down = heights[1:-1, 2:] - heights[1:-1, :-2], heights[2:, 1:-1] - heights[:-2, 1:-1]
    length = lib.sqrt(along * along + down * down + 1.0)
    return lib.stack([along / length, down / length, 1.0 / length], axis=2)


def nearest_distances(lib: Any, x: Any, y: Any) -> Any:
    """Return the squared distance of each point to the nearest one of others."""
    difference = lib.unsqueeze(x, 1) - lib.unsqueeze(y, 0)
    return lib.min(lib.sum(difference * difference, axis=2), axis=1)


family.add_operators("200000 points by a 3x3 matrix", [normal(200_000, 3), normal(3, 3)], lambda x, matrix: x @ matrix)
family.add_operators("100000 points by a 4x4 matrix", [normal(100_000, 4), normal(4, 4)], lambda x, matrix: x @ matrix)
family.add_operators("perspective of 200000 points", [normal(200_000, 4)], lambda x: x[:, :3] / x[:, 3:4])
family.add_program(
    "unit vectors of 200000 points", [normal(200_000, 3)],
    lambda lib, x: x / lib.sqrt(squares(lib, x, keepdims=True)),
)  # fmt: skip
family.add_program(
    "dot products of 300000 pairs of points", [normal(300_000, 3)] * 2, lambda lib, x, y: lib.sum(x * y, axis=1)
)
family.add(
    "cross products of 200000 pairs of points", [normal(200_000, 3)] * 2, cross_products,
    numpy=np.cross,
    torch=lambda torch, x, y: torch.linalg.cross(x, y),
    jax=lambda jax, x, y: jax.numpy.cross(x, y),
)  # fmt: skip
family.add_program("areas of 100000 triangles", [normal(100_000, 3, 2)], triangle_areas)
family.add_program("64 edges at the heights of 5000 points", [normal(5000, 2), normal(65, 2)], edges_at_heights)
family.add_program("200000 rays at a sphere", [normal(200_000, 3)] * 2, hits_of_a_sphere)
family.add_program(
    "largest differences of 500 and 500 rows of 16", [normal(500, 16), normal(500, 16)],
    lambda lib, x, y: lib.max(lib.abs(lib.unsqueeze(x, 1) - lib.unsqueeze(y, 0)), axis=2),
)  # fmt: skip
family.add_program("nearest of 1000 points to 1000 points", [normal(1000, 3), normal(1000, 3)], nearest_distances)
family.add_program(
    "Gaussian kernel of 500 rows of 32", [normal(500, 32)],
    lambda lib, x: lib.exp(-0.05 * squared_distances(lib, x, x)),
)  # fmt: skip
family.add_program("normals of a map of heights", [normal(720, 1280)], normals)
family.add_program(
    "points of 100000 pairs of angles", [normal(100_000), normal(100_000)],
    lambda lib, x, y: lib.stack([lib.sin(x) * lib.cos(y), lib.sin(x) * lib.sin(y), lib.cos(x)], axis=1),
)  # fmt: skip
