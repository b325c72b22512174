"""What saves a sweep from searching again.

`canonical` says what a run is, whatever its names; `covering` takes answers from other runs' proofs; `table_cache` keeps tables for
similar designs; `design_bounds`, `hopeless_designs` and `prospects` leave designs out that cannot be best; `windowing` says how windows
change all this.
"""
