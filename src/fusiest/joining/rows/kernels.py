"""Compiled loops of joining: tests against incumbents, joined rows of two compatibilities, coarse pruning.

Arguments come in NamedTuples of arrays, so that a row costs no Python.
"""

# mypy: allow-untyped-defs
# ruff: noqa: SIM110  (a compiled loop is no generator)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.base.compiled import compiled
from fusiest.base.objective import CLOSE
from fusiest.pmapping import Floats, Ints

NOTHING_KNOWN, FRONT_KNOWN, SCORE_KNOWN = range(3)
_SLACK = 1 - CLOSE
_FITTING = 1 + 1e-12


class IncumbentArrays(NamedTuple):
    """Incumbents as arrays."""

    kind: int
    """Whether incumbents are a front, or have to be beaten by score; `NOTHING_KNOWN` if there is none."""
    powers: Ints
    """Powers of energy and latency, whose product is the score."""
    points: Floats
    """Energy, latency, usage and score of each known mapping."""
    weights: Floats
    """Weights of energy and latency in their sum."""
    best: float
    """The best score."""
    tie_break: float
    """The least tie-breaking cost among the best incumbents; -1 if ties are not followed."""
    watched: int
    """Number of the memory whose usage is an objective, too, or -1."""


class BeforeArrays(NamedTuple):
    """Partial mappings of one compatibility, as in `PartialRows`."""

    tiles: Ints
    energy: Floats
    latency: Floats
    reserved: Floats
    beside: Floats
    persistent: Floats


class EinsumArrays(NamedTuple):
    """Pmappings of one compatibility, as in `Rows`."""

    tiles: Ints
    energy: Floats
    latency: Floats
    bits: Floats
    persistent: Floats
    charges: Floats
    """Bits that each row is charged for shared tensors (charges × rows)."""


class JointArrays(NamedTuple):
    """A joint and the accounts of its memories, as arrays."""

    matched: Ints
    """Pairs of tile columns that must be equal."""
    open_boundaries: Ints
    einsum_boundaries: Ints
    zones: int
    open_zones: int
    before: Ints
    """For each account, the account of the partial mappings that it continues."""
    memory: Ints
    """The memory of each account."""
    charges: Ints
    """Targets of charges: account, fusion levels above (negative: persistent), number of the charge."""
    grouped: bool
    """Whether rows with equal tiles are looked up; else each is compared with each."""
    settles: npt.NDArray[np.bool_]
    """Per account, whether space beside all open loops is compared with the size at once and then dropped."""
    sizes: Floats
    """The size of each account's memory, in bits."""


@compiled()
def _score(powers, energy, latency):
    score = 1.0
    for _ in range(powers[0]):
        score *= energy
    for _ in range(powers[1]):
        score *= latency
    return score


@compiled()
def promises(incumbents, energy, latency, more, usage):
    """Whether a completion of this cost, which needs at least `more`, could be better than every incumbent.

    `usage`: bits in the watched memory; -1 if it is not to be considered.
    """
    total_energy, total_latency = energy + more[0], latency + more[1]
    if incumbents.kind == FRONT_KNOWN:
        for p in range(len(incumbents.points)):
            better = total_energy < incumbents.points[p, 0] * _SLACK or total_latency < incumbents.points[p, 1] * _SLACK
            if not better and not (0 <= usage < incumbents.points[p, 2] * _SLACK):
                return False
        return True
    tie_break = total_latency if incumbents.powers[0] else total_energy
    score = _score(incumbents.powers, total_energy, total_latency)
    if incumbents.weights[0] and incumbents.weights[1]:  # as `Objective.least_score`
        weighted = incumbents.weights[0] * energy + incumbents.weights[1] * latency + more[2]
        slowest = max(total_latency, (weighted - incumbents.weights[0] * total_energy) / incumbents.weights[1])
        costliest = max(total_energy, (weighted - incumbents.weights[1] * total_latency) / incumbents.weights[0])
        at_least_energy = _score(incumbents.powers, total_energy, slowest)
        score = min(at_least_energy, _score(incumbents.powers, costliest, total_latency))
    if usage < 0:
        return score < incumbents.best * _SLACK or (
            score <= incumbents.best * (1 + CLOSE) and tie_break < incumbents.tie_break * _SLACK
        )
    for p in range(len(incumbents.points)):
        if not (score < incumbents.points[p, 3] * _SLACK or usage < incumbents.points[p, 2] * _SLACK):
            return False
    return True


@compiled()
def promising_rows(incumbents, energy, latency, more, usage):
    """Mark the rows of which a completion could be better than every incumbent."""
    keep = np.ones(len(energy), np.bool_)
    for row in range(len(energy)):
        keep[row] = promises(incumbents, energy[row], latency[row], more, usage[row])
    return keep


@compiled()
def promising_groups(incumbents, energy, latency, least):
    """Mark the groups with which a completion of some row could be better than every incumbent.

    `least`: the least cost of each group and all Einsums after it.
    """
    keep = np.zeros(len(least), np.bool_)
    for g in range(len(least)):
        if np.isfinite(least[g, 0]):
            for row in range(len(energy)):
                if (
                    incumbents.kind == NOTHING_KNOWN
                    or incumbents.watched >= 0
                    or promises(incumbents, energy[row], latency[row], least[g], -1.0)
                ):
                    keep[g] = True
                    break
    return keep


@compiled()
def _hash(tiles, row, matched, side):
    value = 0
    for k in range(len(matched)):
        value = (value * 1000003 + tiles[row, matched[k, side]]) & 0x7FFFFFFFFFFF
    return (value ^ (value >> 17)) & 0x7FFFFFFF


@compiled()
def _chains(tiles, joint, hope):
    """Chain the promising pmappings by the hash of their tiles: per slot the first one, and for each the next."""
    size = 1
    while joint.grouped and size < 2 * len(hope):
        size *= 2
    head, following = np.full(size, -1, np.int64), np.empty(len(hope), np.int64)
    for j in range(len(hope) - 1, -1, -1):
        if hope[j]:
            slot = _hash(tiles, j, joint.matched, 1) & (size - 1)
            following[j] = head[slot]
            head[slot] = j
    return head, following


@compiled()
def _hopeful(incumbents, energy, latency, other_energy, other_latency, more):
    """Mark the rows of one side that are promising next to the least costs of the other side."""
    hope = np.ones(len(energy), np.bool_)
    if incumbents.kind != NOTHING_KNOWN and incumbents.watched < 0:
        least_energy, least_latency = np.inf, np.inf
        for i in range(len(other_energy)):
            least_energy = min(least_energy, other_energy[i])
            least_latency = min(least_latency, other_latency[i])
        for j in range(len(energy)):
            hope[j] = promises(incumbents, least_energy + energy[j], least_latency + latency[j], more, -1.0)
    return hope


@compiled()
def _matching(left, i, right, j, matched):
    for k in range(len(matched)):
        if left[i, matched[k, 0]] != right[j, matched[k, 1]]:
            return False
    return True


@compiled()
def matching_pairs(before, einsum, joint, incumbents, more):
    """Find all pairs (i, j) of promising rows with equal tiles."""
    left, left_energy, left_latency = before.tiles, before.energy, before.latency
    right, right_energy, right_latency = einsum.tiles, einsum.energy, einsum.latency
    matched, all_promise = joint.matched, incumbents.kind == NOTHING_KNOWN or incumbents.watched >= 0
    hope = _hopeful(incumbents, right_energy, right_latency, left_energy, left_latency, more)
    head, following = _chains(right, joint, hope)
    hope = _hopeful(incumbents, left_energy, left_latency, right_energy, right_latency, more)
    count, pairs = 0, np.empty((max(64, len(left_energy)), 2), np.int64)
    for i in range(len(left_energy)):
        j = head[_hash(left, i, matched, 0) & (len(head) - 1)] if hope[i] else -1
        while j >= 0:
            if _matching(left, i, right, j, matched) and (
                all_promise
                or promises(
                    incumbents, left_energy[i] + right_energy[j], left_latency[i] + right_latency[j], more, -1.0
                )
            ):
                if count == len(pairs):
                    larger = np.empty((2 * count, 2), np.int64)
                    for p in range(count):
                        larger[p, 0], larger[p, 1] = pairs[p, 0], pairs[p, 1]
                    pairs = larger
                pairs[count, 0], pairs[count, 1] = i, j
                count += 1
            j = following[j]
    return pairs[:count]


@compiled()
def _reserve(before, einsum, joint, pair, reserved, beside, persistent):
    """Reserve the space of one pair: per account, in each fusion level of the refinement, beside it, and persistent.

    The space beside all levels is only what the Einsum needs inside them.
    """
    i, j = pair[0], pair[1]
    last, bits, outside, inside = joint.zones, einsum.bits, joint.open_boundaries, joint.einsum_boundaries
    for a in range(len(joint.before)):
        old, memory = joint.before[a], joint.memory[a]
        for z in range(last):
            reserved[a, z], beside[a, z] = 0.0, 0.0
        for z in range(before.reserved.shape[2]):
            reserved[a, outside[z]] += before.reserved[i, old, z]
        for z in range(bits.shape[2] - 1):
            reserved[a, inside[z]] += bits[j, memory, z]
        for z in range(before.beside.shape[2]):
            if outside[z] < last:
                beside[a, outside[z]] = before.beside[i, old, z]
        beside[a, last] = bits[j, memory, bits.shape[2] - 1]
        persistent[a] = before.persistent[i, old] + einsum.persistent[j, memory]
    for c in range(len(joint.charges)):
        a, zones, more = joint.charges[c, 0], joint.charges[c, 1], einsum.charges[joint.charges[c, 2], j]
        if zones < 0:
            persistent[a] += more
        elif zones == last:
            beside[a, zones] += more
        else:
            reserved[a, zones] += more


@compiled()
def joined_rows(before, einsum, joint, incumbents, more):
    """Find every promising pair that the memories can hold, with its reservations per account.

    Returns the pairs (i, j), then `reserved`, `beside`, `persistent`, and the space inside all loops.
    """
    pairs = matching_pairs(before, einsum, joint, incumbents, more)
    accounts, zones, last = len(joint.before), joint.zones, joint.open_zones
    kept_reserved, kept_beside = np.empty((len(pairs), accounts, last)), np.empty((len(pairs), accounts, last + 1))
    kept_persistent, kept_inside = np.empty((len(pairs), accounts)), np.empty((len(pairs), accounts))
    reserved, beside, persistent = np.empty((accounts, zones)), np.empty((accounts, zones + 1)), np.empty(accounts)
    before_beside, boundaries, count = before.beside, joint.open_boundaries, 0
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        _reserve(before, einsum, joint, pairs[p], reserved, beside, persistent)
        fits, usage = True, -1.0
        for a in range(accounts):
            kept_inside[count, a], kept_persistent[count, a] = beside[a, zones], persistent[a]
            if boundaries[len(boundaries) - 1] == zones:  # branches beside it, inside all loops
                finished = before_beside[i, joint.before[a], len(boundaries) - 1]
                beside[a, zones] = max(beside[a, zones], finished)
            for k in range(zones, -1, -1):  # sum along a branch, maximum across branches
                if k < zones:
                    beside[a, k] = max(beside[a, k], reserved[a, k] + beside[a, k + 1])
                if k == last:
                    for z in range(last):
                        kept_reserved[count, a, z], kept_beside[count, a, z] = reserved[a, z], beside[a, z]
                    kept_beside[count, a, last] = beside[a, last]
            if joint.settles[a]:
                kept_beside[count, a, 0] = 0.0
            need = beside[a, 0] + persistent[a]
            fits = fits and need <= joint.sizes[a] * _FITTING
            if joint.memory[a] == incumbents.watched:
                usage = max(usage, need)
        if fits and usage >= 0 and incumbents.kind != NOTHING_KNOWN:
            energy, latency = before.energy[i] + einsum.energy[j], before.latency[i] + einsum.latency[j]
            fits = promises(incumbents, energy, latency, more, usage)
        if fits:
            pairs[count, 0], pairs[count, 1] = i, j
            count += 1
    return pairs[:count], kept_reserved[:count], kept_beside[:count], kept_persistent[:count], kept_inside[:count]


@compiled()
def prune_within(order, starts, criteria, slack, keep):
    """Mark rows, from the best of each group on, unless a marked row is no worse by more than the factor `slack`.

    Of rows that agree to within that factor at most one is marked. So there are no more of them than cells in a grid of
    such steps.
    """
    front = np.empty(len(order), np.int64)
    for g in range(len(starts) - 1):
        size = 0
        for position in range(starts[g], starts[g + 1]):
            row = order[position]
            covered = False
            for f in range(size):
                covered = True
                for c in range(criteria.shape[1]):
                    if criteria[front[f], c] > criteria[row, c] * slack:
                        covered = False
                        break
                if covered:
                    front[f], front[f // 2] = front[f // 2], front[f]  # it will likely cover others, too
                    break
            if not covered:
                front[size] = row
                size += 1
                keep[row] = True
