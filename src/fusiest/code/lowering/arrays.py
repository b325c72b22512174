"""The arrays of a mapping: which storage nodes need one, how large it is, and while which Einsums it holds anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fusiest.code.lowering.statements import Array
from fusiest.code.shapes import TensorShape
from fusiest.model import EinsumNest, Holder, NestLoop, Reservation, Sharing, charged_under, largest_tile

ArrayKey = tuple[str, str, int]
"""Einsum, tensor, and the place of the storage node in the tensor's nest."""


@dataclass(frozen=True, slots=True)
class Room:
    """When an array takes room: from the first to the last of these Einsums, in each iteration of so many loops."""

    array: Array
    level: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Rooms:
    """All arrays, by who uses them, and when they take room."""

    arrays: Mapping[ArrayKey, Array]
    rooms: Sequence[Room]


def find_rooms(
    common: Sharing,
    shapes: Mapping[str, TensorShape],
    makers: Mapping[str, Sequence[str]],
    safe: Callable[[str], str],
) -> Rooms:
    """The arrays of all storage nodes. Tensors that nobody makes, or nobody reads, come from outside and go there."""
    arrays: dict[ArrayKey, Array] = {}
    rooms: list[Room] = []
    backing: dict[str, Array] = {}
    nests = {nest.einsum.name: nest for nest in common.nests}
    names = _Names(common, safe)
    for position, nest in enumerate(common.nests):
        charges = iter(common.charged[position])
        for tensor, own in nest.tensors.items():
            for index, holder in enumerate(own.holders):
                if holder.is_toll or (index > 0 and nest.einsum.is_copy_operation):
                    continue
                charge = next(charges)
                if index > 0:
                    array = _inner(nest, index, charge, names.of(nest, holder), shapes[tensor])
                    arrays[nest.einsum.name, tensor, index] = array
                    rooms.append(Room(array, charge.level, position, position))
                    continue
                if tensor not in backing:
                    made = [nests[name] for name in makers.get(tensor, ())]
                    backing[tensor] = _backing(common, made, charge, names, shapes[tensor])
                    last = common.lives[common.root.get(tensor, tensor)][1]
                    rooms.append(Room(backing[tensor], charge.level, common.first[tensor], last))
                arrays[nest.einsum.name, tensor, 0] = backing[tensor]
    return Rooms(arrays, rooms)


class _Names:
    """Names of arrays: tensor and memory, and the Einsum where several keep the tensor there."""

    def __init__(self, common: Sharing, safe: Callable[[str], str]) -> None:
        holders = (h for nest in common.nests for h in nest.holders if not h.is_toll)
        self.uses = Counter((h.tensor, h.component.name) for h in holders)
        self.safe, self.taken = safe, set[str]()

    def of(self, nest: EinsumNest, holder: Holder) -> str:
        """The name of what one Einsum keeps."""
        name = f"{holder.tensor}_{holder.component.name}"
        several = self.uses[holder.tensor, holder.component.name] > 1
        return self.free(f"{nest.einsum.name}_{name}" if several else name)

    def free(self, wanted: str) -> str:
        """A name that no other array has."""
        name = self.safe(wanted)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _inner(nest: EinsumNest, index: int, charge: Reservation, name: str, shape: TensorShape) -> Array:
    """The tile that one Einsum keeps of a tensor, further in than where it is exchanged."""
    holder, access = nest.tensors[charge.tensor].holders[index], nest.tensors[charge.tensor].access
    loops = charged_under(nest, holder, index)
    extents = largest_tile(nest, loops)
    sliding = sliding_loop(nest, holder, index)
    along = [rank for rank, affine in access.ranks.items() if sliding and sliding.variable in affine.coefficients]
    return Array(
        name=name,
        tensor=charge.tensor,
        memory=charge.memory,
        shape=tuple(access.ranks[rank].length(extents) for rank in shape.ranks),
        lanes=tuple(loop for loop in loops if loop.is_spatial),
        ring=shape.ranks.index(along[0]) if along else None,
        bits=charge.bits,
        width=holder.component.bits_per_value[charge.tensor],
        backing=False,
    )


def sinking(nest: EinsumNest, holder: Holder, index: int) -> list[NestLoop]:
    """The Temporal loops below a storage node in which its tile is fetched piece by piece, as its space is charged there."""
    above = nest.tensors[holder.tensor].loops_above(index)
    return [loop for loop in charged_under(nest, holder, index) if not loop.is_spatial and loop not in above]


def sliding_loop(nest: EinsumNest, holder: Holder, index: int) -> NestLoop | None:
    """The loop whose pieces overlap, if any: what is there stays, and only the rest is fetched."""
    access = nest.tensors[holder.tensor].access
    for loop in sinking(nest, holder, index):
        overlaps = loop.variable in access.partially_relevant or loop.tiling.step < loop.tiling.tile
        if overlaps and loop.iterations > 1:
            return loop
    return None


def _backing(
    common: Sharing, makers: Sequence[EinsumNest], charge: Reservation, names: _Names, shape: TensorShape
) -> Array:
    """The tile that Einsums exchange, as large as its makers write it; or a tensor that comes in or goes out, all of it."""
    tensor, memory = charge.tensor, charge.memory
    user = next(nest for nest in common.nests if tensor in nest.tensors)
    width = user.tensors[tensor].holders[0].component.bits_per_value[tensor]
    read = any(tensor in nest.tensors and nest.einsum.output != tensor for nest in common.nests)
    if not makers or not read:
        return Array(
            names.free(tensor),
            tensor,
            memory,
            shape.size,
            bits=charge.bits,
            width=width,
            outside=shape,
            persistent=charge.level < 0,
        )
    lengths = []
    window = makers[0].kept_windows.get(tensor)
    for maker in makers:
        extents = largest_tile(maker, charged_under(maker, maker.tensors[tensor].holders[0], 0))
        lengths.append({rank: a.length(extents) for rank, a in maker.tensors[tensor].access.ranks.items()})
    sizes = {rank: max(by_rank[rank] for by_rank in lengths) for rank in shape.ranks}
    if tensor in makers[0].einsum.shared_out:
        parts = makers[0].einsum.shared_out[tensor]
        sizes[parts.rank] = parts.size
    if window is not None:
        sizes[window.rank] = window.length
    accesses = [maker.tensors[tensor].access for maker in makers]
    steps = [abs(a) for access in accesses for index in access.ranks.values() for a in index.coefficients.values()]
    return Array(
        name=names.free(f"{tensor}_{memory}"),
        tensor=tensor,
        memory=memory,
        shape=tuple(sizes.values()),
        lanes=tuple(loop for loop in makers[0].tensors[tensor].gaps[0] if loop.is_spatial),
        ring=shape.ranks.index(window.rank) if window is not None else None,
        bits=charge.bits,
        width=width,
        persistent=charge.level < 0,
        gaps=any(step > 1 for step in steps),
    )
