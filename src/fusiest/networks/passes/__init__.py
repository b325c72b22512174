"""What happens to Einsums once all operators are lowered.

`lowered` is the list that passes change, `order` runs them: `folding` computes functions where a tensor is made, `merging` puts ranks
together that were split.
"""
