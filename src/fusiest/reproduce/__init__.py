"""The experiments of the paper "Fast and Fusiest" at one command: figures, tables, and our numbers beside its."""
