"""Running a sweep's designs.

`driver` plans runs and keeps answers; `attempt` is one run, whatever becomes of it; `children` runs it in a child process with limits,
`cluster` on a Dask cluster (described by `clusterfile`), whose workers run `dask_worker`; `session` is a sweep in Python, `single` one
run of `fusiest map --store`.
"""
