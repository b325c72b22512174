"""Specs: architectures, workloads, mappings and what they mean for one Einsum. Other packages take from here what they use.

`architecture` is a module of node types, which others name as a whole: `from fusiest.spec import architecture as arch`.
"""

from __future__ import annotations

from fusiest.spec.dumping import dump, dump_mapping
from fusiest.spec.edits import inner_item
from fusiest.spec.hardware import architecture
from fusiest.spec.hardware.actions import Action
from fusiest.spec.hardware.architecture import Memory, beside, computes, flatten, memory_names, path_nodes
from fusiest.spec.hardware.binding import architecture_names, bind, bind_all, bind_node, paths_of
from fusiest.spec.hardware.bound import BoundComponent, BoundDimension, Path, instances
from fusiest.spec.hardware.costs import ComponentCosts, filled
from fusiest.spec.hardware.dataflow import Dataflow, DepthFirst, MemoryConstraints, constrained
from fusiest.spec.hardware.placement_sets import BoundComparison, PlacementSets, placement_sets
from fusiest.spec.hardware.sharing import bind_everything, with_nodes_of
from fusiest.spec.language.affine import Affine
from fusiest.spec.language.allowed_names import NAME, RESERVED, repeated
from fusiest.spec.language.einsum_text import access_text, parse_einsum, tensors_in, with_tensors
from fusiest.spec.language.expressions import CONSTANTS, Record, boolean, evaluate_expression, number
from fusiest.spec.language.fields import (
    Value,
    describe,
    known_fields,
    no_tag,
    read_bool,
    read_expression,
    read_int,
    read_list,
    read_text,
    tag_of,
)
from fusiest.spec.language.grammar import names_in, parse_expression
from fusiest.spec.language.namesets import Attributed, NameSet
from fusiest.spec.language.ranges import LARGEST
from fusiest.spec.language.scope import EinsumNames
from fusiest.spec.reading.includes import Included, Includes, project_folder
from fusiest.spec.reading.library import library_classes, library_files, library_text
from fusiest.spec.reading.loading import NETWORKS, bundled, bundled_names, combined, defines_of, load, load_texts
from fusiest.spec.reading.origin import SpecOrigin
from fusiest.spec.reading.resultfile import (
    EVALUATION,
    RESULT,
    WRITERS,
    best_mapping,
    known_objective,
    list_of,
    number_of,
    read_document,
    saved_objective,
    text_of,
)
from fusiest.spec.reading.specfiles import KINDS, find_file
from fusiest.spec.reading.template import undeclared, written_as_is
from fusiest.spec.reading.textfile import check_regular, text_of_file
from fusiest.spec.reading.yamlfile import ListNode, MapNode, ScalarNode, YamlNode, load_nodes, parse_nodes, plain_scalar
from fusiest.spec.remarks import size_notes
from fusiest.spec.spec import Spec
from fusiest.spec.workload.analysis import Access, EinsumInfo, Stepping, WorkloadInfo
from fusiest.spec.workload.part import explicit_einsum, merged, part_of

__all__ = [
    "CONSTANTS", "EVALUATION", "KINDS", "LARGEST", "NAME", "NETWORKS", "RESERVED", "RESULT", "WRITERS", "Access",
    "Action", "Affine", "Attributed", "BoundComparison", "BoundComponent", "BoundDimension", "ComponentCosts",
    "Dataflow", "DepthFirst", "EinsumInfo", "EinsumNames", "Included", "Includes", "ListNode", "MapNode", "Memory",
    "MemoryConstraints", "NameSet", "Path", "PlacementSets", "Record", "ScalarNode", "Spec", "SpecOrigin",
    "Stepping", "Value", "WorkloadInfo", "YamlNode", "access_text", "architecture", "architecture_names", "beside",
    "best_mapping", "bind", "bind_all", "bind_everything", "bind_node", "boolean", "bundled", "bundled_names",
    "check_regular", "combined", "computes", "constrained", "defines_of", "describe", "dump", "dump_mapping",
    "evaluate_expression", "explicit_einsum", "filled", "find_file", "flatten", "inner_item", "instances",
    "known_fields", "known_objective", "library_classes", "library_files", "library_text", "list_of", "load",
    "load_nodes", "load_texts", "memory_names", "merged", "names_in", "no_tag", "number", "number_of",
    "parse_einsum", "parse_expression", "parse_nodes", "part_of", "path_nodes", "paths_of", "placement_sets",
    "plain_scalar", "project_folder", "read_bool", "read_document", "read_expression", "read_int", "read_list",
    "read_text", "repeated", "saved_objective", "size_notes", "tag_of", "tensors_in", "text_of", "text_of_file",
    "undeclared", "with_nodes_of", "with_tensors", "written_as_is",
]  # fmt: skip
