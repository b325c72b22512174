"""A lowered network as a file for people.

`readable_names` names Einsums, tensors and ranks; `words` says what an Einsum computes; `write_yaml` writes the workload;
`import_report` says what became of every operator, with the multiply-accumulates that `node_macs` counts.
"""
