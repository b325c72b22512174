"""From a mapping, taken apart by the model, to a flat list of statements.

`lower` goes through the `blocks` in which Einsums take turns; `moves` says what each Einsum does there, in which `arrays`;
`scopes` knows where each rank variable is, in `indices`. What comes out is in `statements`. Where no architecture is known,
`stand_in` takes the mapping apart.
"""
