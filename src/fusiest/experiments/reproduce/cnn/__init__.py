"""CNNs with fused layers.

`layer_counts` counts off-chip traffic and on-chip storage for every tile size; `fused_cnn` is the experiment, `fused_cnn_page` its page.
"""
