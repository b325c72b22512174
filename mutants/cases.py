"""The mutants: a file of fusiest, what stands there once, what takes its place, and tests of which one must fail then."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One edit."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_MODEL = ("tests/model/test_small_cases.py", "tests/model/test_golden.py")
_SIMULATED = ("tests/model/test_model_vs_simulator.py::test_model_equals_simulator",)
_SPACE = ("tests/joining/test_space.py",)
_ALIKE = ("tests/pmapping/test_alike.py",)
_OBJECTIVE = ("tests/joining/test_objective.py",)
_ONCE = ("tests/mapper/test_exhaustive_workload.py::test_mapper_finds_the_front_where_it_once_did_not",)
_ROWS = ("tests/joining/test_rows.py",)
_TRACE = ("tests/joining/test_trace.py",)
_JOINTS = ("tests/joining/test_joints.py",)
_LOWERS = ("tests/pmapping/test_exhaustive.py::test_a_loop_that_only_lowers_a_reservation_stays",)
_WINDOW = ("tests/pmapping/test_exhaustive.py::test_a_loop_over_a_part_of_a_window_stands_above_it",)
_PIECES = ("tests/pmapping/test_pieces.py",)
_UNEVEN = ("tests/mapper/test_claims.py::test_a_window_fills_an_array_that_no_divisor_fills",)
_EXCHANGED = ("tests/pmapping/test_exhaustive.py::test_what_einsums_exchange_does_not_sink",)

MUTANTS = (
    # --- the model
    Mutant("spec/language/affine.py", "1 + sum(abs(a) * (extents[v] - 1)", "1 + sum(a * (extents[v] - 1)", _SIMULATED),
    Mutant("model/accesses.py", "reads, writes = pulled - skipped,", "reads, writes = pulled,", _MODEL),
    Mutant("model/occupancy.py", "sums[memory] = sums.get(memory, 0) + bits", "sums[memory] = max(sums.get(memory, 0), bits)", _MODEL),
    Mutant("model/occupancy.py", "        bits *= nest.einsum.n_instances\n", "        pass\n", _MODEL),
    Mutant("model/exchange.py", "return max(rest, ahead * (user.bounds[variable] - 1) + rest) <= 0", "return rest <= 0",
           ("tests/model/test_exchange.py::test_indices_that_are_shifted_mirrored_or_strided",)),
    Mutant("spec/hardware/bound.py", "gated = gated or (node.non_forked_power_gateable and runs_here)", "pass",
           ("tests/model/test_costs.py::test_all_scales_and_gates_at_once",)),
    # --- one Einsum
    Mutant("pmapping/nest/shared_memories.py", "if t in spec.info.shared or t in info.persistent]", "if t in spec.info.shared]", _ALIKE),
    Mutant("pmapping/reuse/identical.py", "        agreed_loops(spec, einsum, finished),\n", "", _ALIKE),
    Mutant("pmapping/reuse/identical.py", "        common_loops(spec, einsum),\n", "", _ALIKE),
    Mutant("pmapping/nest/rules.py", "return self.rules.sink and not stretch.is_backing(holder)", "return self.rules.sink", _EXCHANGED),
    Mutant("pmapping/nest/rules.py", "ranks[i].get(o, -1) <= ranks[i][holder.tensor]", "ranks[i].get(o, -1) >= ranks[i][holder.tensor]",
           ("tests/pmapping/test_exhaustive.py::test_one_and_the_same_order_option_is_met",)),
    Mutant("pmapping/nest/rules.py", "variable in self.relevant[below]", "variable in self.full[below]", _WINDOW),
    Mutant("pmapping/nest/rules.py", "variable in self.relevant[above]", "variable in self.partial[above]", _LOWERS),
    Mutant("pmapping/chains/nest_tiles.py", "bits[self.search.memories.index(holder.memory)] +=", "_ =",
           ("tests/pmapping/test_by_hand.py::test_a_persistent_source_of_a_copy_takes_its_space_throughout",)),
    Mutant("pmapping/fused/fused_tiles.py", "if d > tile and d % tile == 0)", "if d >= tile and d % tile == 0)", _PIECES),
    Mutant("pmapping/fused/by_compatibility.py", "group.reshape(-1)[tiles]", "0 * group.reshape(-1)[tiles]", _PIECES),
    Mutant("pmapping/fused/kernels.py", "latency = max(latency, cost[c])", "latency = cost[c]", _PIECES),
    Mutant("pmapping/fused/structure_plans.py", "zone = -1 if above in meeting else chain.index(above.space)",
           "zone = chain.index(above.space)", ("tests/pmapping/test_fused_plans.py",)),
    Mutant("pmapping/lattice/growth.py", "space, rows = space[before], rows[before]", "space, rows = shape, rows[before]",
           ("tests/pmapping/test_growth.py",)),
    Mutant("pmapping/lattice/layers.py", "(p.variables[v].radix - 1 - p.digits[v][shape])", "(p.variables[v].radix - 1)", _PIECES),
    Mutant("pmapping/lattice/applies.py", "if sum(bits) > memory.size:", "if sum(bits) >= memory.size:", _PIECES),
    # --- joining
    Mutant("joining/meeting/fits.py", "elif step is None or step == APART or not keeps_behind(",
           "elif step is None or not keeps_behind(", _JOINTS),
    Mutant("joining/meeting/fits.py", " or not keeps_behind(self.view.info, tensor, v.variable, step)", "", _JOINTS),
    Mutant("joining/meeting/fits.py", "boundary.get(b.tensor, self.open_boundaries[b.zones]) ==",
           "self.open_boundaries[b.zones] ==", _JOINTS),
    Mutant("joining/rows/shared_space.py", "-self._largest(s.unsunk, s.place, rows)", "0 * self._largest(s.unsunk, s.place, rows)", _SPACE),
    Mutant("joining/rows/shared_space.py", "bits - before)", "bits)", _SPACE),
    Mutant("joining/rows/shared_space.py", "np.maximum(self._largest((h.user,), h.place, rows) - before, 0.0)",
           "self._largest((h.user,), h.place, rows)", _SPACE),
    Mutant("joining/rows/shared_space.py", "self.bits[user][memory, tensor]",
           "self.bits[self.workload.users[tensor][-1]][memory, tensor]", _SPACE),
    Mutant("joining/rows/shared_space.py", "float(self.bits[user.einsum][memory, tensor])",
           "float(max(bits[memory, tensor] for bits in self.bits.values()))", _SPACE),
    Mutant("joining/meeting/shared_nodes.py", "most[1, :, number] = np.maximum(most[1, :, number], total[:, i])",
           "most[1, :, number] = total[:, i]", _SPACE),
    Mutant("joining/meeting/fits.py", "return agree(self._open_holdings, self.einsum_holdings, inside, self.view.tensors)",
           "return True", _ONCE),
    Mutant("joining/rows/kernels.py", "max(beside[a, k], reserved[a, k] + beside[a, k + 1])",
           "max(beside[a, k], max(reserved[a, k], beside[a, k + 1]))", _ROWS),
    Mutant("joining/rows/kernels.py", "points[p, 0] * _SLACK or total_latency", "points[p, 0] * _SLACK and total_latency", _ROWS),
    Mutant("joining/rows/kernels.py", "beside[a, zones] = max(beside[a, zones], finished)", "pass", _ROWS),
    Mutant("joining/trace.py", "origin.branch(int(rows.row[pick.row]), tiles)", "origin.branch(pick.row, tiles)", _TRACE),
    Mutant("joining/trace.py", "int(trail.before_row[row])", "int(trail.einsum_row[row])", _TRACE),
    Mutant("joining/bounds/reduced.py", "flags |= incumbents", "flags &= incumbents", ("tests/joining/test_reduced.py",)),
    Mutant("base/objective.py", "np.minimum(self.score(total_energy, slowest)", "np.maximum(self.score(total_energy, slowest)",
           _OBJECTIVE),
    Mutant("base/objective.py", "all(self.powers) or not self.powers[0] else latency", "all(self.powers) or self.powers[0] else latency",
           _OBJECTIVE),
    Mutant("base/objective.py", "self.powers[1] / latency)", "1 / latency)", _OBJECTIVE),
    Mutant("joining/rows/kernels.py", "_score(incumbents.powers, total_energy, slowest)",
           "_score(incumbents.powers, slowest, total_energy)", _OBJECTIVE),
    # --- what need not be looked at
    Mutant("pmapping/nest/no_fusion_needed.py", "by & ~early and by & ~late", "by & ~early",
           ("tests/pmapping/test_roomy.py::test_what_can_be_alive_must_fit",)),
    Mutant("pmapping/lattice/pruning.py", "time - most, out", "time, out", ("tests/pmapping/test_pruning.py",)),
    Mutant("mapper/cutoffs.py", "Cutoff(points - (total_least - least[name]))", "Cutoff(points - total_least)",
           ("tests/mapper/test_cutoffs.py::test_tables_with_a_cutoff_have_less",)),
    Mutant("mapper/warm_start.py", "usage <= bits * (1 + 1e-12)", "usage < bits * (1 - 1e-12)",
           ("tests/mapper/test_nearby.py",)),
    Mutant("mapper/windows/interleavings.py", "depth[number] = reserved.shape[1] - 1", "pass",
           ("tests/mapper/test_turns.py",)),
    # --- bounds of windows
    Mutant("mapper/windows/window_bounds.py", "bounds is not None and has_even_tiles(spec)", "bounds is not None", _UNEVEN),
    Mutant("mapper/windows/window_bounds.py", "replace(question_of(options), imperfect=True)", "question_of(options)", _UNEVEN),
    Mutant("mapper/windows/window_bounds.py", "if not gapless or first > low or last < high:", "if False:",
           ("tests/mapper/test_windows.py::test_rows_that_nobody_reads",)),
    # --- limits
    Mutant("pmapping/leasts.py", "return float(energy[0]) +", "return 2 * float(energy[0]) +",
           ("tests/pmapping/test_least.py",)),
    # --- constraints
    Mutant("pmapping/interleaved.py", "if level > number)", "if level < 0)",
           ("tests/mapper/test_allowed.py",)),
    Mutant("pmapping/explain/allowed.py", "if usages is not None and branch.usage not in usages:", "if False:",
           ("tests/mapper/test_allowed.py",)),
    Mutant("pmapping/explain/allowed.py", "nest.barred_below(holder, stretch), temporal", "frozenset(), temporal",
           ("tests/mapper/test_allowed.py",)),
)  # fmt: skip
