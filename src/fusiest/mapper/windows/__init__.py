"""Mappings with windows: Einsums fused through halos, as in stacks of convolutions. A search beside the main one.

In: the result without windows. Out: a better one where a chain of Einsums with a halo costs less, and a bound on all of
them. `with_windows` drives. `window_plans` lists chains of Einsums and the windows of their loops; `interleaving_plans`
and `interleavings` search those that share nothing else; `unrolled` writes a plan as a spec without windows, `trials`
solves it. `window_bounds`, `promises` and `least_traffic` bound plans; `symmetric` skips equal ones; `shared_tables`
keeps tables for several. `outside` maps the Einsums before and after a chain, `in_a_row` chooses the chains,
`neighbours` joins them with the rest.
"""
