"""The whole search: `map` (or `run`, with `Options`) gives a `Result` of `Mapping`s, which can be saved and loaded.

Loaded when first used: the search needs Numba, results and options do not.
"""

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy

if TYPE_CHECKING:
    from fusiest.mapper.mapper import Prior, checked_mapping, from_front, map, run, search_with
    from fusiest.mapper.options import Options, told
    from fusiest.mapper.profile import Profile
    from fusiest.mapper.progress import Progress, Step
    from fusiest.mapper.resources import cpu_seconds, peak_rss_bytes
    from fusiest.mapper.results.document import evaluation_json, json_text, result_json, spec_and_hash
    from fusiest.mapper.results.provenance import GIVEN, made_now
    from fusiest.mapper.results.result import Improvement, Mapping, Result, Stats, Stop
    from fusiest.mapper.results.saved import given_mapping, load_any, load_best, mappings_on, result_of, result_on
    from fusiest.mapper.stacks.depth_first import stack_tree
    from fusiest.mapper.stacks.layer_nests import LayerNest
    from fusiest.mapper.stacks.stack_plans import StackPlan, features, image_variables, plans_of_stack
    from fusiest.mapper.tables import explore_all, open_tables, question_of
    from fusiest.mapper.warm_start import SizeFront
    from fusiest.mapper.windows.interleaving_plans import KnownTurns
    from fusiest.mapper.windows.window_bounds import can_be_bounded, can_have_windows, usual_windows, worth_windows
    from fusiest.mapper.windows.window_plans import has_halos

__all__ = [
    "GIVEN", "Improvement", "KnownTurns", "LayerNest", "Mapping", "Options", "Prior", "Profile", "Progress",
    "Result", "SizeFront", "StackPlan", "Stats", "Step", "Stop", "can_be_bounded", "can_have_windows",
    "checked_mapping", "cpu_seconds", "evaluation_json", "explore_all", "features", "from_front", "given_mapping",
    "has_halos", "image_variables", "json_text", "load_any", "load_best", "made_now", "map", "mappings_on",
    "open_tables", "peak_rss_bytes", "plans_of_stack", "question_of", "result_json", "result_of", "result_on",
    "run", "search_with", "spec_and_hash", "stack_tree", "told", "usual_windows", "worth_windows",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
