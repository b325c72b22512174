"""A network as a graph of operators, whoever exported it.

`graph` is the graph; `shapes` gives shapes, `constants` values of small constants; `recognition` puts operators
together that exporters write out, `products` splits a product that is read in parts; `section` cuts a part out of the graph.
"""
