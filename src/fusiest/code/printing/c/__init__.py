"""A program in C: `function` writes its statements, with the counters of `counting` or the addresses of `tracing`.

`around` has what stands around the function: a `main` that reads and writes raw files, and a Makefile.
"""
